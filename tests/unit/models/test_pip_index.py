"""Finding a file on the package index that pip is configured with."""

from __future__ import annotations

import json

import pytest

from foreword.errors import NotFound, Unavailable
from foreword.models import pip_index
from foreword.models.http import HttpSettings
from foreword.models.pip_index import PipSettings, locate, parse_pip_config, read_pip_settings
from tests.unit.models.server import Site, serve

WHEEL = "tiny_model-1.0-py3-none-any.whl"


def test_the_environment_beats_the_section_which_beats_the_rest():
    listing = """
    global.index-url='https://a/simple'
    global.cert='/a.pem'
    download.index-url='https://b/simple'
    install.index-url='https://c/simple'
    :env:.cert='/e.pem'
    :env:.disable-pip-version-check='1'
    nonsense
    """
    values = parse_pip_config(listing)
    assert values == {"index-url": "https://b/simple", "cert": "/e.pem", "disable-pip-version-check": "1"}


def fake_pip(answers: dict[str, str]):
    return lambda *arguments: answers[" ".join(arguments)]


def test_settings_are_those_of_pip(monkeypatch):
    listing = (
        "global.index-url='https://user:pass@index/simple'\nglobal.extra-index-url='https://x/s file:///y'\n"
        "global.find-links='/wheels /more'\n:env:.proxy='http://proxy:3128'\nglobal.trusted-host='index other:8080'\n"
    )
    monkeypatch.setattr(pip_index, "_pip", fake_pip({"config list": listing}))
    settings = read_pip_settings()
    assert settings.indexes == ("https://user:pass@index/simple", "https://x/s", "file:///y")
    assert settings.find_links == ("/wheels", "/more")
    assert settings.http == HttpSettings(proxy="http://proxy:3128", trusted_hosts=frozenset({"index", "other:8080"}))


def test_without_a_configured_index_pips_own_is_used(monkeypatch):
    text = "  -i, --index-url <url>  Base URL of the index (default\n      https://index.example/simple). This should"
    monkeypatch.setattr(pip_index, "_pip", fake_pip({"config list": "", "download --help": text}))
    assert read_pip_settings().indexes == ("https://index.example/simple",)
    monkeypatch.setattr(pip_index, "_pip", fake_pip({"config list": ":env:.no-index='1'"}))
    assert read_pip_settings().indexes == ()


def test_the_pip_of_this_interpreter_answers():
    settings = read_pip_settings()
    assert all(isinstance(index, str) for index in settings.indexes)


def test_no_pip_is_one_line(monkeypatch):
    monkeypatch.setattr(pip_index.sys, "executable", "/bin/false")
    with pytest.raises(Unavailable, match="exit code 1"):
        read_pip_settings()


JSON = ("application/vnd.pypi.simple.v1+json", json.dumps({"files": [{"filename": WHEEL, "url": f"../../f/{WHEEL}"}]}))
HTML = ("text/html", f'<html><a href="/f/{WHEEL}#sha256=00">x</a> <a href="other.whl">y</a><a name="z"></a></html>')


@pytest.mark.parametrize("page", [JSON, HTML], ids=["json", "html"])
def test_an_index_gives_the_url(page):
    with serve(Site(pages={"/simple/tiny-model/": (page[0], page[1].encode())})) as site:
        found = locate("tiny-model", WHEEL, PipSettings(indexes=(f"{site.url}/simple/",)))
        assert found == f"{site.url}/f/{WHEEL}"


def test_credentials_of_the_url_are_sent_and_not_shown():
    with serve(Site()) as site:
        index = site.url.replace("://", "://user:p%40ss@") + "/simple"
        with pytest.raises(NotFound) as caught:
            locate("tiny-model", WHEEL, PipSettings(indexes=(index,)))
        assert site.asked == [("/simple/tiny-model/", None, "Basic dXNlcjpwQHNz")]
        assert "p%40ss" not in caught.value.message
        assert "404" in caught.value.message


def test_places_are_tried_in_turn(tmp_path):
    folder = tmp_path / "links"
    folder.mkdir()
    settings = PipSettings(find_links=(str(folder), f"file://{folder}"), indexes=("http://127.0.0.1:9/simple",))
    with pytest.raises(NotFound, match=r"links: no such file.*cannot be reached"):
        locate("tiny-model", WHEEL, settings)
    (folder / WHEEL).touch()
    assert locate("tiny-model", WHEEL, settings) == folder / WHEEL


def test_a_local_index_has_a_folder_for_each_project(tmp_path):
    (tmp_path / "tiny-model").mkdir()
    (tmp_path / "tiny-model" / WHEEL).touch()
    for index in (f"file://{tmp_path}", str(tmp_path)):
        assert locate("tiny-model", WHEEL, PipSettings(indexes=(index,))) == tmp_path / "tiny-model" / WHEEL


def test_nothing_configured_says_so():
    with pytest.raises(NotFound, match="none configured"):
        locate("tiny-model", WHEEL, PipSettings())
