"""Settings on the command line."""

import asyncio
from pathlib import Path

import pytest
import typer
from pydantic_settings import SettingsConfigDict
from structlog.testing import capture_logs
from typer.testing import CliRunner

from foreword.errors import InvalidField, Unavailable
from foreword.rpc.roles import Role
from foreword.settings.base import ServerSettings
from foreword.settings.command import serve_command
from foreword.settings.environment import engine_environment, kernels_folder
from foreword.settings.fields import CommaList, setting
from foreword.settings.rpc import advertised, server_options
from foreword.telemetry.logs import LogFormat


class Example(ServerSettings):
    """Settings of a test."""

    model_config = SettingsConfigDict(env_prefix="FOREWORD_EXAMPLE_")

    gamma: int = setting(4, "Longest block.", unit="tokens", least=0, most=32)
    peers: CommaList = setting((), "Addresses of peers.")


@pytest.fixture
def invoke(monkeypatch):
    """Run the command with arguments; gives its result and the settings that reached the service."""
    monkeypatch.setattr("foreword.settings.command.configure_logs", lambda *_: None)

    def invoke(*arguments, error=None):
        seen = []

        async def run(settings):
            await asyncio.sleep(0)
            seen.append(settings)
            if error is not None:
                raise error

        app = typer.Typer()
        app.command("example")(serve_command(Example, run, description="Serve an example."))
        return CliRunner().invoke(app, arguments), seen

    return invoke


def test_every_field_is_a_flag(invoke):
    result, (settings,) = invoke("--gamma", "7", "--peers", "a,b", "--insecure", "--log-level", "error", "--threads=2")
    assert result.exit_code == 0
    assert (settings.gamma, settings.peers, settings.insecure, settings.threads) == (7, ("a", "b"), True, 2)
    assert settings.log.level.value == "error"
    _, (settings,) = invoke("--no-insecure", "--no-reflection")
    assert not settings.insecure


def test_the_form_of_logs_is_settled_before_an_engine_sees_it(invoke):
    _, (settings,) = invoke()
    assert settings.log.format is LogFormat.JSON


def test_help_names_units_defaults_and_variables(invoke, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    result, seen = invoke("--help")
    assert result.exit_code == 0
    assert seen == []
    assert "Serve an example." in result.stdout
    assert "Longest block. (a whole number from 0 to 32; tokens; default 4; FOREWORD_EXAMPLE_GAMMA)" in result.stdout


def test_a_wrong_setting_is_one_line_on_stderr_and_status_2(invoke):
    result, seen = invoke("--gamma", "-1")
    assert (result.exit_code, seen) == (2, [])
    assert result.stderr == "gamma: got -1, wanted a whole number from 0 to 32 (flag --gamma)\n"
    assert result.stdout == ""


def test_a_file_is_read(invoke, tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text("gamma = 9\n")
    assert invoke("--config", str(path))[1][0].gamma == 9
    assert invoke("--config", str(path), "--gamma", "3")[1][0].gamma == 3


def test_a_variable_that_is_no_setting_is_remarked_on(invoke, monkeypatch):
    monkeypatch.setenv("FOREWORD_EXAMPLE_GAMA", "9")
    monkeypatch.setenv("FOREWORD_EXAMPLE_GAMMA", "8")
    monkeypatch.setenv("FOREWORD_EXAMPLE_XYZ", "1")
    monkeypatch.setenv("FOREWORD_EXAMPLE_LOG__LEVEL", "error")
    remark = "FOREWORD_EXAMPLE_GAMA: got a variable that is no setting; did you mean FOREWORD_EXAMPLE_GAMMA?"
    other = "FOREWORD_EXAMPLE_XYZ: got a variable that is no setting"
    result, seen = invoke("--check")
    assert (result.exit_code, result.stderr, seen) == (0, f"{remark}\n{other}\n", [])
    with capture_logs() as lines:
        result, (settings,) = invoke()
    assert (result.exit_code, settings.gamma) == (0, 8)
    assert [(line["log_level"], line["remark"]) for line in lines] == [("warning", remark), ("warning", other)]


@pytest.mark.parametrize(
    ("error", "status"),
    [(Unavailable("listen: got x,\n  wanted y"), 1), (InvalidField("listen", "x", "y"), 2), (KeyboardInterrupt(), 130)],
)
def test_errors_of_the_service_end_it_without_a_traceback(invoke, error, status):
    result, _ = invoke(error=error)
    assert result.exit_code == status
    assert "Traceback" not in result.output
    assert result.stderr.count("\n") == (0 if status == 130 else 1)


def test_bugs_are_not_hidden(invoke):
    result, _ = invoke(error=ZeroDivisionError("bug"))
    assert isinstance(result.exception, ZeroDivisionError)


@pytest.mark.parametrize(
    ("advertise", "bound", "wanted"),
    [
        ("", "127.0.0.1:7", "127.0.0.1:7"),
        ("10.1.2.3", "0.0.0.0:7", "10.1.2.3:7"),
        ("10.1.2.3:0", "0.0.0.0:7", "10.1.2.3:7"),
        ("name.example:99", "0.0.0.0:7", "name.example:99"),
        ("", "0.0.0.0:7", "this-host:7"),
        ("", "[::]:7", "this-host:7"),
        ("", "[::1]:7", "[::1]:7"),
        ("[fd00::1]", "[::]:7", "[fd00::1]:7"),
        ("[fd00::1]:8", "[::]:7", "[fd00::1]:8"),
    ],
)
def test_the_address_for_peers(monkeypatch, advertise, bound, wanted):
    monkeypatch.setattr("socket.gethostname", lambda: "this-host")
    assert advertised(Example(advertise=advertise), bound) == wanted


def test_server_options_carry_all_that_the_server_needs(tmp_path):
    tls = {"cert": "c", "key": "k", "ca": "a", "roles": "x=draft"}
    settings = Example(listen="127.0.0.1:9", tls=tls, reflection=True, address_file=tmp_path / "a", grace_s=3)
    options = server_options(settings)
    assert (options.listen, options.reflection, options.grace_s) == ("127.0.0.1:9", True, 3)
    assert options.address_file == tmp_path / "a"
    assert (str(options.tls.certificate), str(options.tls.key), str(options.tls.authority)) == ("c", "k", "a")
    assert options.roles.identity(("x",)).roles == {Role.DRAFT}
    assert server_options(Example()).tls is None


def test_engines_inherit_the_environment_and_keep_threads_from_spinning(monkeypatch):
    monkeypatch.setenv("SOMETHING", "1")
    monkeypatch.delenv("OMP_WAIT_POLICY")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    environment = engine_environment(extra={"EXTRA": "2"})
    assert environment["SOMETHING"] == "1"
    assert environment["EXTRA"] == "2"
    assert environment["OMP_WAIT_POLICY"] == "passive"
    assert int(environment["GOMP_SPINCOUNT"]) > 0
    assert "OMP_NUM_THREADS" not in environment
    assert engine_environment(3)["OMP_NUM_THREADS"] == "3"
    assert engine_environment(cache=Path("/c"))["NUMBA_CACHE_DIR"] == str(kernels_folder(Path("/c")))
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    assert engine_environment()["GOMP_SPINCOUNT"] == "7"
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert engine_environment()["OMP_WAIT_POLICY"] == "active"


def test_kernels_of_other_sources_are_kept_apart(monkeypatch, tmp_path):
    """Else a kernel would go on with the loops that another file had when it was compiled."""
    package = tmp_path / "foreword"
    (package / "runner" / "kernels").mkdir(parents=True)
    monkeypatch.setattr("foreword.__file__", str(package / "__init__.py"))
    loops = package / "runner" / "kernels" / "loops.py"
    loops.write_text("one")
    first = kernels_folder(tmp_path)
    assert kernels_folder(tmp_path) == first
    loops.write_text("two")
    assert kernels_folder(tmp_path) != first


def test_settings_can_be_checked_without_a_start(invoke):
    result, seen = invoke("--check", "--gamma", "7")
    assert (result.exit_code, result.output, seen) == (0, "", [])
    result, seen = invoke("--check", "--gamma", "70")
    assert (result.exit_code, seen) == (2, [])
    assert result.stderr == "gamma: got 70, wanted a whole number from 0 to 32 (flag --gamma)\n"


def test_files_that_settings_name_are_looked_at_with_check_and_without(invoke, tmp_path):
    (tmp_path / "junk.pem").write_text("hello")
    junk = str(tmp_path / "junk.pem")
    tls = ("--tls-cert", "/nope.pem", "--tls-key", junk, "--tls-ca", junk, "--tls-roles", "a=draft")
    for further in (("--check",), ()):
        result, seen = invoke(*tls, *further)
        assert (result.exit_code, seen) == (2, [])
        wanted = "a PEM file that can be read (No such file or directory) (flag --tls-cert)"
        assert result.stderr == f"tls.cert: got '/nope.pem', wanted {wanted}\n"
    result, seen = invoke("--address-file", str(tmp_path / "nowhere" / "address"), "--check")
    assert (result.exit_code, seen) == (2, [])
    assert "a file in a folder that is there (flag --address-file)" in result.stderr


def test_files_that_have_nothing_to_do_with_each_other_are_all_told(invoke, tmp_path):
    junk, nowhere = str(tmp_path / "junk.pem"), str(tmp_path / "nowhere" / "address")
    tls = ("--tls-cert", junk, "--tls-key", junk, "--tls-ca", junk, "--tls-roles", "a=draft")
    result, seen = invoke(*tls, "--address-file", nowhere, "--check")
    assert (result.exit_code, seen) == (2, [])
    first, second = result.stderr.splitlines()
    assert (first.partition(": got ")[0], second.partition(": got ")[0]) == ("tls.cert", "address_file")
    assert first.endswith("(flag --tls-cert)")
    assert second.endswith("(flag --address-file)")


def test_everything_that_is_wrong_is_said_a_line_each(invoke, tmp_path):
    (tmp_path / "wrong.yaml").write_text("gama: 3\nthreads: -1\nlog: {level: loud}\n")
    result, seen = invoke("--config", str(tmp_path / "wrong.yaml"), "--check")
    assert (result.exit_code, seen) == (2, [])
    names = [line.partition(": got ")[0] for line in result.stderr.splitlines()]
    assert sorted(names) == ["gama", "log.level", "threads"]
