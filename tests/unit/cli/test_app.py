"""The command tree: found by entry points, loaded when used, one line and a status for every kind of end."""

from __future__ import annotations

import signal
import subprocess
import sys
import types
from importlib.metadata import EntryPoint

import pytest
import typer

from foreword._version import __version__
from foreword.cli import main
from foreword.cli.app import COMMANDS, GROUPS, installed
from foreword.cli.interrupts import quietly_interrupted
from foreword.errors import EngineFailure, InvalidField, NotFound
from foreword.extras import missing_extra


@pytest.fixture
def plugin(monkeypatch):
    """Return a function that makes an entry point of a function; `loaded` tells which were looked up."""
    loaded = []

    class Module(types.ModuleType):
        def __getattr__(self, name):
            loaded.append(name)
            return functions[name]

    functions = {}
    monkeypatch.setitem(sys.modules, "foreword_test_plugin", Module("foreword_test_plugin"))

    def make(function, name="plugin", group=COMMANDS):
        functions[name] = function
        return EntryPoint(name, f"foreword_test_plugin:{name}", group)

    make.loaded = loaded
    return make


def raising(error):
    def command():
        raise error

    return command


def test_version_and_help(cli):
    assert (cli("--version").status, cli("--version").out) == (0, f"foreword {__version__}\n")
    for argv in ([], ["--help"]):
        shown = cli(*argv)
        assert shown.status == 0
        assert all(name in shown.out for name in ("generate", "doctor", "up", "demo"))


def test_help_of_settings_cuts_no_name_off(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    entry = EntryPoint("orchestrator", "orchestrator.commands:serve", f"{COMMANDS}.serve")
    shown = "".join(cli("serve", "orchestrator", "--help", more=[entry]).out.split())  # what is long may be folded
    assert "FOREWORD_ORCHESTRATOR_HTTP__SERVED_MODEL_NAMES" in shown
    assert "--http-address-file" in shown


def test_commands_are_loaded_when_they_are_used(cli, plugin):
    one, two = plugin(lambda: None, "one"), plugin(lambda: None, "two")
    assert cli("one", more=[one, two]).status == 0
    assert plugin.loaded == ["one"]


def test_groups_hold_the_commands_of_other_packages(cli, plugin):
    ran = []

    def serve(gamma: int = 4):
        """Serve a test."""
        ran.append(gamma)

    entry = plugin(serve, "thing", f"{COMMANDS}.serve")
    assert cli("serve", "thing", "--gamma", "3", more=[entry]).status == 0
    assert ran == [3]
    assert "Serve a test." in cli("serve", "--help", more=[entry]).out
    missing = cli("serve", more=[entry])
    assert (missing.status, missing.err) == (2, "foreword serve: Missing command (see 'foreword serve --help')\n")
    assert "No such command 'serve'" in cli("serve").err


def test_a_typer_app_is_a_command_too(cli, plugin):
    app, ran = typer.Typer(), []
    app.command("first")(lambda: ran.append(1))
    app.command("second")(lambda: ran.append(2))
    assert cli("plugin", "second", more=[plugin(app)]).status == 0
    assert ran == [2]


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["generat"], "foreword: No such command 'generat'. Did you mean 'generate'? (see 'foreword --help')\n"),
        (["--nothing"], "foreword: No such option: --nothing (see 'foreword --help')\n"),
        (["generate"], "foreword generate: Missing argument 'prompt' (see 'foreword generate --help')\n"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(cli, argv, line):
    result = cli(*argv)
    assert (result.status, result.err, result.out) == (2, line, "")


@pytest.mark.parametrize("value", ["inf", "nan", "0", "-1"])
def test_a_timeout_that_cannot_be_kept_is_named_by_its_option(cli, value):
    result = cli("generate", "x", "--timeout", value, "--address", "127.0.0.1:1")
    line = f"--timeout: got {float(value)}, wanted a number of seconds over 0 and up to 1000000000\n"
    assert (result.status, result.err, result.out) == (2, line, "")


def test_a_variable_that_says_the_value_of_an_option_is_named(cli, monkeypatch):
    monkeypatch.setenv("FOREWORD_ADDRESS", "bad")
    assert cli("generate", "x").err.startswith("FOREWORD_ADDRESS: got 'bad', wanted host:port")
    assert cli("generate", "x", "--address=worse").err.startswith("--address: got 'worse', wanted host:port")


@pytest.mark.parametrize("words", [("a\udcff",), ("a\udcff", "--raw"), ("a", "--system", "b\udcff")])
def test_text_that_is_no_utf_8_is_named_by_where_it_stands(cli, words):
    name = "--system" if "--system" in words else "prompt"
    result = cli("generate", *words)
    assert result.status == 2
    assert result.err.startswith(f"{name}: got ")


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (NotFound("model: got x,\n  wanted y"), 1, "model: got x, wanted y"),
        (EngineFailure("engine: died"), 1, "engine: died"),
        (InvalidField("gamma", -1, "a whole number from 0"), 2, "gamma: got -1, wanted a whole number from 0"),
        (KeyError("x"), 1, "foreword: internal error: KeyError: 'x' (--debug shows the traceback)"),
        (KeyboardInterrupt(), 130, ""),
        (typer.Abort(), 130, ""),
        (typer.Exit(7), 7, ""),
        (
            ModuleNotFoundError("no", name="torch"),
            1,
            "foreword: needs torch; install the extra: pip install '.[models]' in the checkout",
        ),
    ],
)
def test_every_end_has_its_status_and_no_traceback(cli, plugin, error, status, line):
    result = cli("plugin", more=[plugin(raising(error))])
    assert (result.status, result.err.rstrip("\n")) == (status, line)
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (KeyError("x"), 1, "foreword: internal error: KeyError: 'x' (--debug shows the traceback)"),
        (NotFound("no such model"), 1, "no such model"),
        (InvalidField("port", "foo", "a number"), 2, "port: got 'foo', wanted a number"),
        (typer.Abort(), 130, "Abort"),
    ],
)
def test_debug_shows_the_traceback_and_leaves_the_status(cli, plugin, error, status, line):
    for words in (("--debug", "plugin"), ("plugin", "--debug")):
        result = cli(*words, more=[plugin(raising(error))])
        assert result.status == status
        assert result.err.startswith("Traceback (most recent call last):\n")
        assert result.err.rstrip("\n").splitlines()[-1].endswith(line)


def test_a_command_that_cannot_be_loaded_says_how_to_get_it(cli):
    entry = EntryPoint("target", "foreword_missing_plugin:serve", f"{COMMANDS}.serve")
    result = cli("serve", "target", "--listen", "x", more=[entry])
    assert (result.status, result.err) == (
        1,
        "foreword serve target: needs foreword_missing_plugin; "
        "install the extra: pip install '.[all]' in the checkout\n",
    )
    assert "Not available" in cli("serve", "--help", more=[entry]).out


@pytest.mark.parametrize(
    ("module", "hint"),
    [
        ("torch", "needs torch; install the extra: pip install '.[models]' in the checkout"),
        (
            "google.rpc.status_pb2",
            "needs google.rpc.status_pb2; install the extra: pip install '.[serve]' in the checkout",
        ),
        ("structlog", "needs structlog; install the extra: pip install '.[serve]' in the checkout"),
        ("matplotlib.pyplot", "needs matplotlib.pyplot; install the extra: pip install '.[bench]' in the checkout"),
        ("elsewhere", "needs elsewhere; install the extra: pip install '.[all]' in the checkout"),
        (
            "target_service.commands",
            "target_service.commands is missing from this installation; install foreword again",
        ),
    ],
)
def test_hints_name_the_right_extra(module, hint):
    assert missing_extra(ModuleNotFoundError("no", name=module)) == hint


def test_without_the_extra_of_the_command_itself_there_is_a_hint(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "foreword.cli.app")
    monkeypatch.setitem(sys.modules, "typer", None)
    assert main(["generate", "x"]) == 1
    assert (
        capsys.readouterr().err == "foreword: needs typer; install the extra: pip install '.[serve]' in the checkout\n"
    )


@pytest.mark.parametrize("module", ["foreword", "foreword.cli"])
def test_the_package_runs_as_a_module(module):
    run = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, f"foreword {__version__}\n")


def test_a_closed_pipe_is_no_error_message():
    script = f"{sys.executable} -m foreword.cli --help | true"
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert "Traceback" not in run.stderr


def test_the_installed_groups_are_known():
    assert {entry.group for entry in installed()} <= {COMMANDS, *(f"{COMMANDS}.{name}" for name in GROUPS)}


def test_an_interruption_while_code_is_loaded_ends_the_process_without_a_word():
    """An exception would be taken for another by what is being loaded: pybind11 aborts, others report an import."""
    script = (
        "import os, signal, sys\n"
        "from foreword.cli.interrupts import quietly_interrupted\n"
        "try:\n"
        "    with quietly_interrupted():\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        for _ in range(10**6): pass\n"
        "except BaseException as error:\n"
        "    sys.exit(f'got {error!r}')\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "")


def test_what_the_command_line_was_started_with_decides_on_interruptions_again_afterwards():
    before = signal.getsignal(signal.SIGINT)
    with quietly_interrupted():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with quietly_interrupted():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interruption_before_a_command_runs_is_quiet(monkeypatch, capsys):
    """Imports take a second: whoever thinks better of it by then gets no traceback."""

    def run(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("foreword.cli.app.run", run)
    assert main(["generate", "x"]) == 130
    assert capsys.readouterr() == ("", "")
