"""What every bench does: one shape of JSON, tables for people, files, exit statuses."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from foreword.cli.app import run
from foreword.errors import InvalidField, Unavailable
from loadtest.bench import options
from loadtest.bench.bar import Bar, Side
from loadtest.bench.command import bench_command
from loadtest.bench.findings import Findings, Table
from loadtest.bench.frame import Destination, carry_out
from loadtest.bench.interleave import interleaved
from loadtest.bench.machine import cpu_model, this_machine
from loadtest.bench.options import with_file_of_json
from loadtest.bench.progress import Progress
from loadtest.bench.show import bar_line, number, show

FINDINGS = Findings(
    figures={"rate": 2.5},
    bars=[Bar("rate", 2.5, 3.0), Bar("late", 0.0, 1.0, Side.AT_MOST)],
    tables=[Table("Rates", ("arm", "tok/s", "late"), (("plain", 2.5, None),))],
    notes=["a note"],
)


async def found(progress: Progress) -> Findings:
    progress.begin(1)
    progress.now("measuring")
    progress.done()
    return FINDINGS


def bench(what: str = "", repeats: options.Repeats = 3, json: options.Json = None, plot: options.Plot = None) -> None:
    """Measure nothing."""

    async def work(progress: Progress) -> Findings:
        if what == "down":
            raise Unavailable("target: got nothing, wanted an answer")
        return await found(progress)

    if what == "wrong":
        raise InvalidField("what", what, "something else")
    carry_out(work, {"repeats": repeats}, Destination(json, plot))


@pytest.fixture
def foreword(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run `foreword bench made …`; returns status, stdout and stderr."""
    module = ModuleType("foreword_test_bench")
    module.command = bench_command("made", bench)  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    entry = EntryPoint("made", f"{module.__name__}:command", "foreword.commands.bench")

    def call(*argv: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = run(["bench", "made", *argv], found=[entry])
        return status, *capsys.readouterr()

    return call


def test_figures_that_miss_their_bars_are_still_a_success(foreword) -> None:
    status, out, err = foreword()
    assert status == 0
    assert "Traceback" not in err
    for line in ("Rates", "plain", "2.50", "rate: 2.50, wanted at least 3.00: missed", "holds", "a note"):
        assert line in out, line


def test_json_without_a_file_is_all_of_stdout(foreword) -> None:
    for argv in (["--json"], ["--json", "--repeats", "4"], ["--repeats", "4", "--json"], ["--json", "-"]):
        status, out, _ = foreword(*argv)
        report = json.loads(out)
        assert status == 0
        assert list(report) == ["machine", "settings", "figures", "bars"]
        assert report["settings"] == {"repeats": 4 if "4" in argv else 3}
        assert report["figures"] == {"rate": 2.5}
        assert report["bars"] == [
            {"name": "rate", "value": 2.5, "at_least": 3.0, "holds": False},
            {"name": "late", "value": 0.0, "at_most": 1.0, "holds": True},
        ]


def test_json_into_a_file_leaves_stdout_to_people(foreword, tmp_path: Path) -> None:
    for name, argv in (("a.json", ["--json", str(tmp_path / "a.json")]), ("b", [f"--json={tmp_path / 'b'}"])):
        status, out, _ = foreword(*argv)
        assert status == 0
        assert "Rates" in out
        assert json.loads((tmp_path / name).read_text())["figures"] == {"rate": 2.5}


def test_the_machine_is_named(foreword) -> None:
    machine = json.loads(foreword("--json")[1])["machine"]
    assert machine["cores"] >= 1
    assert machine["cpu"]
    assert {"python", "grpcio", "numpy"} <= set(machine["versions"])
    assert {"platform", "load_before", "load_after", "memory_gib"} <= set(machine)


@pytest.mark.parametrize(
    ("argv", "status", "text"),
    [
        (["--what", "down"], 1, "target: got nothing, wanted an answer"),
        (["--what", "wrong"], 2, "what: got 'wrong'"),
        (["--repeats", "0"], 2, "repeats"),
        (["--what", "down", "--json", "/no/such/folder/x.json"], 2, "json: got '/no/such/folder/x.json'"),
        (["--what", "down", "--plot", "/no/such/folder/x.png"], 2, "plot: got '/no/such/folder/x.png'"),
    ],
)
def test_what_cannot_run_says_why_in_one_line(foreword, argv: Sequence[str], status: int, text: str) -> None:
    seen, out, err = foreword(*argv)
    assert (seen, out, err.count("\n")) == (status, "", 1)
    assert text in err


def test_a_plot_that_cannot_be_drawn_is_refused_before_anything_runs(foreword, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    status, _, err = foreword("--what", "down", "--plot", str(tmp_path / "x.txt"))
    assert (status, "wanted a file that ends in .png" in err) == (2, True)
    status, _, err = foreword("--plot", str(tmp_path / "x.png"))
    assert (status, "this bench has none" in err) == (2, True)


def test_a_plot_is_drawn_into_its_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")

    async def work(_: Progress) -> Findings:
        return Findings({}, [], [], draw=lambda figure: figure.subplots().plot([1, 2]))

    carry_out(work, {}, Destination("-", tmp_path / "x.svg"))
    assert "<svg" in (tmp_path / "x.svg").read_text()


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ([], []),
        (["--json"], ["--json=-"]),
        (["--json", "x.json", "--plot", "y"], ["--json", "x.json", "--plot", "y"]),
        (["--json", "--plot", "y"], ["--json=-", "--plot", "y"]),
        (["--json", "-"], ["--json", "-"]),
        (["--json=x"], ["--json=x"]),
    ],
)
def test_json_may_stand_without_a_file(given: list[str], read: list[str]) -> None:
    assert with_file_of_json(given) == read


def test_arms_take_turns_at_being_the_first() -> None:
    assert list(interleaved("ab", 3)) == [(0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b")]


def test_numbers_are_short() -> None:
    values = (0.0, 0.00004, 0.0123, 0.95, 2.345, 28.46, 2345.6, -3.0)
    assert [number(v) for v in values] == ["0", "4.0e-05", "0.012", "0.950", "2.35", "28.5", "2346", "-3.00"]


def test_bars_hold_at_their_bound() -> None:
    assert Bar("a", 1.0, 1.0).holds
    assert Bar("a", 1.0, 1.0, Side.AT_MOST).holds
    assert not Bar("a", float("nan"), 1.0).holds
    assert bar_line(Bar("a", 2.0, 1.0, Side.AT_MOST)) == "a: 2.00, wanted at most 1.00: missed"


def test_the_model_of_the_processor_is_found() -> None:
    assert cpu_model("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n") == "Some CPU @ 2 GHz"
    assert cpu_model("processor : 0\nBogoMIPS : 50\n") is None
    assert this_machine().versions["python"]


NAME = "block, temperature 1, four sessions, a draft that is trusted"
WIDE = Table(
    "Texts",
    ("arm", "texts compared", "tokens compared", "near ties", "identical texts", "rate"),
    ((NAME, 1234.0, 5678.0, None, "all of them", 0.25), (NAME + " not", 1.0, 2.0, 3.0, "some", 0.5)),
)


@pytest.mark.parametrize(("terminal", "width"), [(False, 80), (True, 80), (True, 30), (True, 200)])
def test_nothing_of_a_table_is_cut(terminal: bool, width: int) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=width, color_system=None, soft_wrap=True)
    machine = {"cpu": "c", "cores": 2, "load_before": 1.0, "load_after": 1.0, "platform": "p", "versions": {}}
    show(console, machine, Findings({}, [], [WIDE]))
    written = file.getvalue()
    assert "…" not in written
    lines = [line.rstrip() for line in written.splitlines()]
    (first,) = [line for line in lines if line.startswith(f"{NAME}  ")]
    (second,) = [line for line in lines if line.startswith(f"{NAME} not  ")]
    assert "1234" in first
    assert "0.250" in first
    assert "0.500" in second
    if not terminal or width == 200:
        assert "texts compared  tokens compared  near ties  identical texts   rate" in written
        assert first.endswith("1234             5678          –      all of them  0.250")
