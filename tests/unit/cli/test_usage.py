"""Every option of every command, given what it cannot be: one line with option, value and what is allowed, status 2."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from foreword.cli.app import build, installed, run
from foreword.cli.usage import flags_of
from foreword.errors import InvalidField
from foreword.stack.config import StackConfig


def commands(held: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with the words that lead to it."""
    inner = getattr(held, "commands", None)
    if inner is None:
        yield path, held
        return
    for name in inner:
        yield from commands(inner[name], (*path, name))


def options() -> Iterator[Any]:
    for path, command in commands(build(installed())):
        for option in command.params:
            long = next((name for name in option.opts if name.startswith("--")), None)
            if long is not None and path[0] != "serve":  # those are settings, with a test of their own
                yield pytest.param(path, long, option, id=" ".join((*path, long)))


OPTIONS = list(options())
NUMBERS = [one for one in OPTIONS if one.values[2].type_descriptor.annotation in (int, float)]
SWITCHES = [one for one in OPTIONS if one.values[2].is_flag]


def wrong(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Return the line that a command line is answered with."""
    assert run(argv) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return str(err)


@pytest.mark.parametrize(("path", "name", "option"), NUMBERS)
@pytest.mark.parametrize("value", ["many", "", "1,5", "0x1"])
def test_what_is_no_number(
    path: tuple[str, ...], name: str, option: Any, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = "a whole number" if option.type_descriptor.annotation is int else "a number"
    command = " ".join(("foreword", *path))
    line = wrong(capsys, *path, name, value)
    start = re.escape(f"{command}: {name}: got {value!r}, wanted {kind}")
    assert re.fullmatch(rf"{start}( from -?[\d.]+)?( to [\d.]+)? \(see '{command} --help'\)\n", line), line


@pytest.mark.parametrize(("path", "name", "option"), [one for one in NUMBERS if one.values[2].min is not None])
def test_a_number_under_its_bound(
    path: tuple[str, ...], name: str, option: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    value = str(option.min - 1)
    assert f"{name}: got {value!r}, wanted a" in (line := wrong(capsys, *path, name, value))
    assert f" number from {option.min}" in line


@pytest.mark.parametrize(("path", "name", "option"), SWITCHES)
def test_a_switch_takes_no_value(
    path: tuple[str, ...], name: str, option: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    command = " ".join(("foreword", *path))
    line = wrong(capsys, *path, f"{name}=maybe")
    assert line == f"{command}: Option '{name}' does not take a value (see '{command} --help')\n"


def test_an_option_without_its_value_is_that_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    line = wrong(capsys, "bench", "overhead", "--gamma")
    assert line.startswith("foreword bench overhead: Option '--gamma' requires an argument")


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("up", "--dtype", "float8"), "--dtype: got 'float8', wanted one of float32, bfloat16, float16"),
        (("demo", "--dtype", ""), "--dtype: got '', wanted one of float32, bfloat16, float16"),
        (("up", "--target", ""), "--target: got '', wanted embedded, a folder, "),
        (("up", "--no-draft", "--draft", "lookup"), "--draft: got 'lookup', wanted no draft with --no-draft"),
        (("up", "--no-draft", "--drafts", "3"), "--drafts: got 3, wanted no number with --no-draft"),
        (("up", "--draft", ""), "--draft: got '', wanted what drafts, such as lookup; --drafts 0 starts no draft"),
        (("up", "--port", "65536"), "--port: got 65536, wanted a port from 0 to 65535"),
        (
            ("bench", "speedup", "--dtype", "int8"),
            "--dtype: got 'int8', wanted one of float32, bfloat16, float16: "
            "with rounded weights a target is another model",
        ),
        (
            ("demo", "--drafts", "0"),
            "--drafts: got 0, wanted at least one, whose texts and speeds are held against those without",
        ),
        (
            ("doctor", "--address", "a" * 500),
            f"--address: got '{'a' * 79}…{'a' * 39}' (500 characters), wanted host:port, the port from 1 to 65535",
        ),
        (("demo", "--gamma", "257"), "--gamma: got 257, wanted a whole number from 0 to 256"),
        (
            ("doctor", "--address", ""),
            "--address: got '', wanted host:port, or several: a list, or separated by commas",
        ),
        *(
            (("doctor", "--address", value), f"--address: got {value!r}, wanted host:port, the port from 1 to 65535")
            for value in ("many", "127.0.0.1", ":5", "127.0.0.1:x", "127.0.0.1:99999", "http://127.0.0.1:50051", "a:²")
        ),
        (
            ("doctor", "--address", "10.0.0.1:5"),
            "--address: got '10.0.0.1:5', wanted tls=Tls(…) for a server off loopback (--tls-ca), or insecure=True "
            "(--insecure)",
        ),
        (
            ("doctor", "--tls-cert", "c.pem"),
            "--tls-cert: got 'c.pem', wanted a certificate and its key, or neither (--tls-cert, --tls-key)",
        ),
        (
            ("generate", "x", "--raw", "--rule", "tree"),
            "--rule: got 'tree', wanted one of match, token, block",
        ),
        (("generate", "x", "--raw", "--seed", "-1"), "--seed: got -1, wanted a whole number from 0 to "),
        (
            ("generate", "x", "--raw", "--token", "a\nb"),
            "--token: got '3 characters', wanted printable ASCII characters, as HTTP headers have",
        ),
    ],
)
def test_what_only_the_command_knows(argv: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = wrong(capsys, *argv).rstrip("\n")
    assert said.startswith(line) if line.endswith(" ") else said == line


@pytest.mark.parametrize("field", ["target", "draft", "dtype"])
def test_stacks_say_the_same(field: str) -> None:
    with pytest.raises(InvalidField, match=f"{field}: got ''"):
        StackConfig(**{field: ""})  # type: ignore[arg-type]


def test_a_variable_that_is_empty_is_not_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    root = build(installed())
    monkeypatch.setenv("FOREWORD_ADDRESS", "")
    assert flags_of(root, ["doctor"])["address"] == "--address"
    monkeypatch.setenv("FOREWORD_ADDRESS", "a:1")
    assert flags_of(root, ["doctor"])["address"] == "FOREWORD_ADDRESS"
