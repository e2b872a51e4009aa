"""Where values come from, and what is said of wrong ones."""

from enum import Enum
from pathlib import Path

import pytest
from pydantic import ValidationError
from pydantic_settings import SettingsConfigDict

from foreword.errors import InvalidField
from foreword.rpc.roles import Role
from foreword.settings.base import LogSettings, ServerSettings
from foreword.settings.fields import CommaList, Section, leaves, setting, shown
from foreword.settings.load import load
from foreword.settings.reference import render_reference
from foreword.telemetry.logs import LogFormat, LogLevel


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Inner(Section):
    """A section of a test's settings."""

    speed: float = setting(1.5, "How fast.", unit="m/s", over=0, most=10)


class Example(ServerSettings):
    """Settings of a test."""

    model_config = SettingsConfigDict(env_prefix="FOREWORD_EXAMPLE_")

    gamma: int = setting(4, "Longest block.", unit="tokens", least=0, most=32)
    colour: Colour = setting(Colour.RED, "Colour of the | line.")
    peers: CommaList = setting((), "Addresses of peers.")
    share: float | None = setting(None, "A share.", most=1)
    inner: Inner = Inner()


@pytest.fixture
def write(tmp_path):
    def write(text, name="settings.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for leaf in leaves(Example, "FOREWORD_EXAMPLE_"):
        monkeypatch.delenv(leaf.variable, raising=False)


def test_defaults():
    settings = load(Example)
    assert (settings.gamma, settings.colour, settings.peers, settings.inner.speed) == (4, Colour.RED, (), 1.5)
    assert settings.log == LogSettings(level=LogLevel.INFO, format=LogFormat.AUTO)
    assert settings == Example()


def test_flags_over_environment_over_file_over_defaults(write, monkeypatch):
    config = write("gamma: 1\ncolour: blue\npeers: [a, b]\ninner: {speed: 2}\nlog: {level: debug}\n")
    assert load(Example, config=config).gamma == 1
    monkeypatch.setenv("FOREWORD_EXAMPLE_GAMMA", "2")
    monkeypatch.setenv("FOREWORD_EXAMPLE_INNER__SPEED", "3.5")
    monkeypatch.setenv("FOREWORD_EXAMPLE_PEERS", "c, d,")
    settings = load(Example, flags={("gamma",): "3", ("log", "format"): "json"}, config=config)
    assert (settings.gamma, settings.inner.speed, settings.peers) == (3, 3.5, ("c", "d"))
    assert (settings.colour, settings.log.level, settings.log.format) == (Colour.BLUE, LogLevel.DEBUG, LogFormat.JSON)


def test_variables_that_no_setting_has_are_those_of_others(monkeypatch):
    monkeypatch.setenv("foreword_example_gamma", "2")
    for name in ("TLS__CERTT", "TLS", "GAMA"):
        monkeypatch.setenv(f"FOREWORD_EXAMPLE_{name}", "abc")
    assert load(Example) == Example(gamma=2)


def test_constructing_reads_nothing_from_the_environment(monkeypatch):
    monkeypatch.setenv("FOREWORD_EXAMPLE_GAMMA", "9")
    assert Example().gamma == 4
    assert load(Example).gamma == 9


def test_toml_files(write):
    config = write('gamma = 7\npeers = "x,y"\n[inner]\nspeed = 4.0\n[tls.roles]\n', "settings.toml")
    settings = load(Example, config=config)
    assert (settings.gamma, settings.peers, settings.inner.speed) == (7, ("x", "y"), 4.0)


def test_an_empty_file_says_nothing(write):
    assert load(Example, config=write("")) == Example()


def test_settings_are_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        Example().gamma = 5
    with pytest.raises(ValidationError, match="frozen"):
        Example().inner.speed = 5


BAD_FLAGS = [
    (("gamma",), "-1", "gamma: got -1, wanted a whole number from 0 to 32 (flag --gamma)"),
    (("gamma",), "four", "gamma: got 'four', wanted a whole number from 0 to 32 (flag --gamma)"),
    (("gamma",), "1.5", "gamma: got 1.5, wanted a whole number from 0 to 32 (flag --gamma)"),
    (("inner", "speed"), "0", "inner.speed: got 0, wanted a number over 0 and up to 10 (flag --inner-speed)"),
    (("share",), "2", "share: got 2, wanted a number up to 1 (flag --share)"),
    (("colour",), "green", "colour: got 'green', wanted one of red, blue (flag --colour)"),
    (("insecure",), "perhaps", "insecure: got 'perhaps', wanted true or false (flag --insecure)"),
    (
        ("metrics_port",),
        "70000",
        "metrics_port: got 70000, wanted a whole number from 0 to 65535 (flag --metrics-port)",
    ),
    (("listen",), "127.0.0.1", "listen: got '127.0.0.1', wanted host:port, the port from 0 to 65535 (flag --listen)"),
    (
        ("listen",),
        "0.0.0.0:7101",
        "listen: got '0.0.0.0:7101', wanted a loopback address without TLS; give --tls-cert, --tls-key and --tls-ca, "
        "or --insecure (flag --listen)",
    ),
    (
        ("health_listen",),
        "0.0.0.0",
        "health_listen: got '0.0.0.0', wanted host:port, the port from 0 to 65535 (flag --health-listen)",
    ),
    (
        ("tls", "cert"),
        "c.pem",
        "tls.cert: got 'c.pem', wanted a file with tls.key and tls.ca beside it, or none of the three "
        "(flag --tls-cert)",
    ),
    (
        ("tls", "roles"),
        "a=king",
        "tls.roles: got 'a=king', wanted NAME=ROLE separated by commas, each role one of client, draft, target, "
        "orchestrator (flag --tls-roles)",
    ),
]


@pytest.mark.parametrize(("path", "value", "message"), BAD_FLAGS)
def test_wrong_flags_in_one_line(path, value, message):
    with pytest.raises(InvalidField) as caught:
        load(Example, flags={path: value})
    assert caught.value.message == message


def test_the_place_of_a_wrong_value_is_named(write, monkeypatch):
    config = write("gamma: 99\n")
    with pytest.raises(InvalidField) as caught:
        load(Example, config=config)
    assert caught.value.message == f"gamma: got 99, wanted a whole number from 0 to 32 (file {config})"
    monkeypatch.setenv("FOREWORD_EXAMPLE_GAMMA", "77")
    with pytest.raises(InvalidField) as caught:
        load(Example, config=config)
    assert caught.value.message == (
        "gamma: got 77, wanted a whole number from 0 to 32 (environment FOREWORD_EXAMPLE_GAMMA)"
    )


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("gama: 3", "gama: got 3, wanted one of the settings listen, advertise, "),
        ("tls: {crt: x}", "tls.crt: got 'x', wanted one of the settings cert, key, ca, roles (file "),
        ("inner: 3", "inner: got 3, wanted a mapping with speed (file "),
        ("log: json", "log: got 'json', wanted a mapping with level, format (file "),
        ("gamma: true", "gamma: got True, wanted a whole number from 0 to 32 (file "),
        ("inner: {speed: yes}", "inner.speed: got True, wanted a number over 0 and up to 10 (file "),
        ("gamma: 1\ngamma: 2", "config: got "),
        ("tls: {key: a, key: a}", "config: got "),
        ("- 1", "config: got "),
        ("{gamma: [", "config: got "),
        ("tls: {roles: [a]}", "tls.roles: got ['a'], wanted NAME=ROLE"),
    ],
)
def test_wrong_files_in_one_line(write, text, start):
    with pytest.raises(InvalidField) as caught:
        load(Example, config=write(text))
    assert caught.value.message.startswith(start)
    assert "\n" not in caught.value.message


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InvalidField, match=r"config: got '.*nowhere\.yaml', wanted a file that can be read"):
        load(Example, config=tmp_path / "nowhere.yaml")


TLS = {("tls", name): f"{name}.pem" for name in ("cert", "key", "ca")}


def test_roles_from_a_flag_and_from_a_file(write):
    flags = {**TLS, ("tls", "roles"): "a.example=draft, b.example=client,b.example=orchestrator"}
    settings = load(Example, flags=flags)
    wanted = {"a.example": frozenset({Role.DRAFT}), "b.example": frozenset({Role.CLIENT, Role.ORCHESTRATOR})}
    assert settings.tls.roles == wanted
    assert settings.tls.enabled
    assert settings.tls.key == Path("key.pem")
    config = write("tls:\n  roles:\n    a.example: draft\n    b.example: [client, orchestrator]\n")
    assert load(Example, flags=TLS, config=config).tls.roles == wanted


def test_roles_of_a_stronger_source_replace_the_weaker_ones(write):
    config = write("tls: {cert: c, key: k, ca: a, roles: {a.example: draft}}\n")
    settings = load(Example, flags={("tls", "roles"): "b.example=client", ("tls", "key"): "other"}, config=config)
    assert settings.tls.roles == {"b.example": frozenset({Role.CLIENT})}
    assert (str(settings.tls.cert), str(settings.tls.key)) == ("c", "other")


def test_listening_off_loopback_takes_certificates_or_a_flag():
    everywhere = {("listen",): "[::]:7101"}
    assert load(Example, flags={**everywhere, ("insecure",): "true"}).listen == "[::]:7101"
    assert load(Example, flags={**everywhere, **TLS, ("tls", "roles"): "a=draft"}).tls.enabled
    assert load(Example, flags={("listen",): "unix:/run/foreword.sock"}).listen == "unix:/run/foreword.sock"


def test_tls_without_roles_is_refused():
    with pytest.raises(InvalidField, match=r"tls\.roles: got {}, wanted at least one name with a role"):
        load(Example, flags=TLS)


def test_every_common_setting_is_described():
    for leaf in leaves(Example, "FOREWORD_EXAMPLE_"):
        assert leaf.info.description.endswith(".")
        assert leaf.wanted
        assert leaf.flag.startswith("--")
        assert leaf.info.get_default(call_default_factory=True) is not ...


def test_values_as_they_would_be_given():
    assert [shown(v) for v in (None, True, Colour.RED, ("a", "b"), 1.5, Path("x"))] == [
        "",
        "true",
        "red",
        "a,b",
        "1.5",
        "x",
    ]


def test_the_reference_page_is_written_from_the_types():
    page = render_reference({"foreword serve example": Example})
    assert "## `foreword serve example`" in page
    gamma = ["`gamma`", "`--gamma`", "`FOREWORD_EXAMPLE_GAMMA`", "`4`", "a whole number from 0 to 32 (tokens)"]
    assert f"| {' | '.join(gamma)} | Longest block. |" in page.splitlines()
    assert "| `inner.speed` | `--inner-speed` | `FOREWORD_EXAMPLE_INNER__SPEED` | `1.5` |" in page
    assert "`--insecure`, `--no-insecure`" in page
    assert "Colour of the \\| line." in page
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) == len(list(leaves(Example)))
