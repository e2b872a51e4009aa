"""What the hub's client raises, in one line; and what is asked of it."""

from __future__ import annotations

import huggingface_hub
import pytest
from huggingface_hub import errors

from foreword.errors import NotFound, Unavailable
from foreword.models.hub import cached_repository, fetch_file, fetch_repository


class _Answer:
    """As much of a response as the client's errors look at."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.status_code = 500
        self.request = None


def _http_error(kind: type[errors.HfHubHTTPError]) -> errors.HfHubHTTPError:
    return kind("500 Server Error\nand more lines", response=_Answer())


@pytest.mark.parametrize(
    ("error", "kind", "named"),
    [
        (_http_error(errors.GatedRepoError), NotFound, "hf auth login"),
        (_http_error(errors.RepositoryNotFoundError), NotFound, "not on the hub"),
        (_http_error(errors.RevisionNotFoundError), NotFound, "not on the hub"),
        (errors.LocalEntryNotFoundError("no"), NotFound, "not cached"),
        (errors.OfflineModeIsEnabled("offline"), NotFound, "cannot be asked"),
        (_http_error(errors.HfHubHTTPError), Unavailable, "cannot be asked"),
        (ConnectionError(), Unavailable, "ConnectionError"),
    ],
)
def test_errors_are_one_line(monkeypatch, error, kind, named):
    def ask(*_, **__):
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", ask)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", ask)
    for call in (lambda: fetch_repository("owner/name", None), lambda: fetch_file("owner/name", "x.gguf", "main")):
        with pytest.raises(kind, match=named) as caught:
            call()
        assert "owner/name" in caught.value.message
        assert "\n" not in caught.value.message


@pytest.mark.parametrize("terminal", [True, False])
def test_bars_are_drawn_on_terminals_only(monkeypatch, tmp_path, terminal):
    shown = []

    def ask(*_, **__):
        shown.append(not huggingface_hub.utils.are_progress_bars_disabled())
        return str(tmp_path)

    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", ask)
    fetch_repository("owner/name", None)
    assert shown == [terminal]
    assert not huggingface_hub.utils.are_progress_bars_disabled()


def test_what_the_client_warns_of_is_logged_as_everything_else(monkeypatch, tmp_path, caplog, capsys):
    def ask(*_, **__):
        huggingface_hub.utils.logging.get_logger("huggingface_hub.x").warning("no log-in")
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", ask)
    fetch_repository("owner/name", None)
    assert [record.message for record in caplog.records] == ["no log-in"]
    assert capsys.readouterr().err == ""


def test_attempts_that_the_client_repeats_are_no_lines(monkeypatch, caplog, capsys):
    def ask(*_, **__):
        huggingface_hub.utils._http.logger.warning("Retrying in 1s [Retry 1/5].")
        raise errors.LocalEntryNotFoundError("no route")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", ask)
    with pytest.raises(NotFound, match="cannot be asked"):
        fetch_file("owner/name", "x.gguf", "main")
    assert caplog.records == []
    assert capsys.readouterr().err == ""
    huggingface_hub.utils._http.logger.warning("elsewhere it may")
    assert [record.message for record in caplog.records] == ["elsewhere it may"]


def test_only_weights_configs_and_tokenizers_are_fetched(monkeypatch, tmp_path):
    asked = {}

    def ask(repository, **options):
        asked.update(options, repository=repository)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", ask)
    assert fetch_repository("owner/name", "v1") == tmp_path
    wanted = huggingface_hub.utils.filter_repo_objects(
        ["config.json", "model-1.safetensors", "weights.bin", "consolidated.safetensors", "original/a.safetensors",
         "modeling_own.py", "chat_template.jinja", "tokenizer.json", "model.gguf"],
        allow_patterns=asked["allow_patterns"], ignore_patterns=asked["ignore_patterns"],
    )  # fmt: skip
    assert list(wanted) == ["config.json", "model-1.safetensors", "chat_template.jinja", "tokenizer.json"]
    assert (asked["repository"], asked["revision"]) == ("owner/name", "v1")


def test_what_is_cached_is_found_without_asking(monkeypatch, tmp_path):
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, local_files_only, **__: str(tmp_path))
    assert cached_repository("owner/name", None) == tmp_path
