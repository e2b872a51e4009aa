"""generate, doctor and demo against a scripted server; up with stand-in services."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from rich.console import Console

from foreword.cli.demo import Demo
from foreword.cli.demo_prompts import DemoPrompt
from foreword.cli.fetching import fetch_models, models_of
from foreword.client import AsyncClient
from foreword.errors import EngineFailure, InvalidField, NotFound
from foreword.laws.parameters import Grammar, LawParameters
from foreword.protocol.activity import Activity
from foreword.protocol.generation import Chat, GenerateRequest, Message
from foreword.protocol.words import Drafter, Rule
from foreword.stack.config import StackConfig
from foreword.testing.mock_server import MockServer, Reply, mock_info

NOWHERE = "127.0.0.1:1"


def test_generate_writes_the_text_and_passes_everything_on(cli, monkeypatch):
    with MockServer(Reply("Hello there.", accepted=1)) as server:
        result = cli(
            *("generate", "Hi", "--raw", "--address", server.address, "--max-tokens", "9", "--temperature", "0"),
            *("--top-p", "0.9", "--top-k", "5", "--seed", "3", "--gamma", "2", "--rule", "block", "--stop", "a"),
            *("--stop", "b", "--drafter", "lookup", "--repetition-penalty", "1.1", "--timeout", "30"),
        )
        note = "--seed: under --rule block the text depends on the draft too\n"
        assert (result.status, result.out, result.err) == (0, "Hello there.\n", note)
        (request,) = server.requests
        assert request.law is not None
        assert (request.prompt, request.max_tokens, request.seed, request.stop) == ("Hi", 9, 3, ("a", "b"))
        assert (request.law.temperature, request.law.top_p, request.law.top_k) == (0.0, 0.9, 5)
        assert request.law.repetition_penalty == 1.1
        speculation = request.speculation
        assert (speculation.gamma, speculation.rule, speculation.drafter) == (2, Rule.BLOCK, Drafter.LOOKUP)
        monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe\n"))
        assert cli("generate", "-", "--raw", "--address", server.address).status == 0
        assert server.requests[-1] == GenerateRequest("from a pipe\n")


def test_generate_passes_every_field_on(cli):
    with MockServer(Reply("Hi there.")) as server:
        argv = (
            *("--min-tokens", "2", "--logit-bias", "5=-1.5", "--logit-bias", "7=2", "--ban-id", "9", "--stop-id", "4"),
            *("--include-stop", "--ignore-eos", "-n", "2", "--echo", "--gamma-min", "1", "--gamma-max", "5"),
            *("--draft", "small", "--resume", "11,12", "--special", "--request-id", "mine"),
        )
        result = cli("generate", "Hi", "--raw", "--address", server.address, *argv)
        assert (result.status, result.out) == (0, "Hi there.\nHi there.\n")
        assert [line.partition(":")[0] for line in result.err.splitlines()] == ["1 of 2", "2 of 2"]
        read = json.loads(cli("generate", "Hi", "--raw", "--json", "--address", server.address, *argv).out)
        assert [choice["text"] for choice in read["choices"]] == ["Hi there."] * 2
        assert read["text"] == "Hi there."
        told = json.loads(cli("generate", "Hi", "--json", "--top-logprobs", "2", "--address", server.address).out)
        assert len(told["logprobs"]["chosen"]) == len(told["ids"])
        request = server.requests[0]
        assert request.law == LawParameters(bias=((5, -1.5), (7, 2.0)), banned_ids=(9,), stop_ids=(4,), min_tokens=2)
        assert (request.include_stop, request.ignore_eos, request.n, request.echo) == (True, True, 2, True)
        assert (request.resume, request.skip_special_tokens, request.request_id) == ((11, 12), False, "mine")
        speculation = request.speculation
        assert (speculation.gamma_min, speculation.gamma_max, speculation.draft) == (1, 5, "small")
        for flag, value, wanted in (("--logit-bias", "5:1", "ID=VALUE"), ("--resume", "1;2", "token ids with commas")):
            wrong = cli("generate", "Hi", "--raw", flag, value, "--address", server.address)
            assert wrong.status == 2
            assert wrong.err.startswith(f"{flag}: got '{value}', wanted {wanted}")


def test_generate_asks_for_a_form(cli, tmp_path):
    schema, lark = tmp_path / "schema.json", tmp_path / "a.lark"
    schema.write_text('{"type": "object"}')
    lark.write_text('start: "a"\n')
    with MockServer(Reply("{}")) as server:

        def asked(*argv):
            return cli("generate", "Hi", "--raw", "--address", server.address, *argv)

        for argv, grammar in (
            (("--json-schema", str(schema)), Grammar("json_schema", '{"type": "object"}')),
            (("--json-object",), Grammar.json_object()),
            (("--regex", "a+"), Grammar.regex("a+")),
            (("--choice", "yes", "--choice", "no"), Grammar.choice(["yes", "no"])),
            (("--grammar", str(lark)), Grammar.lark('start: "a"\n')),
        ):
            assert asked(*argv).status == 0
            assert server.requests[-1].law == LawParameters(grammar=grammar)
        for argv, told in (
            (("--regex", "a", "--json-object"), "--json-object: got True, wanted one form of the text, and --regex is"),
            (("--json-schema", "/nowhere", "--regex", "a"), "--regex: got 'a', wanted one form of the text, and --jso"),
            (("--json-schema", "/nowhere"), "--json-schema: got '/nowhere', wanted a file that can be read"),
            (("--grammar", str(tmp_path)), f"--grammar: got '{tmp_path}', wanted a file that can be read"),
        ):
            wrong = asked(*argv)
            assert (wrong.status, wrong.err[: len(told)]) == (2, told)
    for grammar, flag in ((Grammar.regex("(a"), "--regex"), (Grammar.lark("("), "--grammar")):
        error = InvalidField("law.grammar", grammar.kind, "one that can be followed: unclosed group")
        with MockServer(Reply(error=error)) as server:
            wrong = cli("generate", "Hi", "--raw", "--address", server.address, "--regex", "(a")
            assert wrong.err == f"{flag}: got '{grammar.kind}', wanted one that can be followed: unclosed group\n"


def test_top_looks_once_where_there_is_no_terminal(cli):
    with MockServer() as server:
        server.activity = Activity(3)
        assert "3 at work" in cli("top", "--address", server.address).out
        told = cli("top", "--once", "--json", "--address", server.address).out
        assert {key: json.loads(told)[key] for key in ("model", "requests", "choices")} == {
            "model": "mock",
            "requests": 3,
            "choices": [],
        }
    failed = cli("top", "--address", NOWHERE)
    assert (failed.status, failed.out) == (1, "")
    assert "127.0.0.1:1" in failed.err


def test_generate_as_json(cli):
    with MockServer(Reply("Hello there.", accepted=1)) as server:
        read = json.loads(cli("generate", "Hi", "--raw", "--json", "--address", server.address).out)
        assert (read["text"], read["sources"]) == ("Hello there.", ["draft", "target"])
        assert read["usage"]["acceptance_length"] == 2.0


def test_generate_uses_the_chat_template_of_models_that_have_one(cli):
    with MockServer() as server:

        def asked(*argv):
            assert cli("generate", "Hi", "--address", server.address, *argv).status == 0
            return server.requests[-1].prompt

        turn = Message("user", "Hi")
        assert asked() == "Hi"
        assert asked("--chat") == Chat((turn,))
        assert asked("--system", "Be brief.") == Chat((Message("system", "Be brief."), turn))
        server.info = replace(mock_info(), model=replace(mock_info().model, chat_template=True))
        assert asked() == Chat((turn,))
        assert asked("--raw") == "Hi"
        refused = cli("generate", "Hi", "--raw", "--system", "x", "--address", server.address)
        assert (refused.status, refused.err) == (2, "--system: got 'x', wanted no system message with --raw\n")


def test_generate_says_failures_in_one_line(cli):
    nobody = cli("generate", "x", "--address", NOWHERE)
    assert nobody.status == 1
    assert nobody.err.startswith(f"--address: got {NOWHERE}, wanted a server that answers")
    with MockServer(Reply("a b c d", error=EngineFailure("engine: died"), error_after=2)) as server:
        cut = cli("generate", "x", "--raw", "--address", server.address)
        assert (cut.status, cut.out, cut.err) == (1, "a b\n", "engine: died\n")
        wrong = cli("generate", "x", "--raw", "--rule", "tree", "--address", server.address)
        assert wrong.status == 2
        assert wrong.err.startswith("--rule: got 'tree', wanted one of match, token, block")
        far = cli("generate", "x", "--address", "10.0.0.1:5")
        assert (far.status, far.err.startswith("--address: got '10.0.0.1:5', wanted")) == (2, True)


def test_interrupting_generate_is_quiet(tmp_path: Path):
    with MockServer(Reply("a b c", delay_ms=60_000)) as server:
        argv = [sys.executable, "-m", "foreword.cli", "generate", "x", "--raw", "--address", server.address]
        child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not server.requests and child.poll() is None:
            os.sched_yield()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=300)
        assert (child.returncode, out, err) == (130, "", "")


def test_doctor_finds_a_healthy_deployment_well(cli):
    script = [Reply("a b c d", delay_ms=50), Reply("a b c d", accepted=1)]
    with MockServer(script) as server:
        result = cli("doctor", "--address", server.address)
        assert result.status == 0
        assert "drafted decoding: same ids, acceptance length 2.00" in result.out
        assert "failed" not in result.out
        plain, drafted = server.requests
        assert (plain.speculation.gamma, drafted.speculation.gamma) == (0, 4)
    with MockServer(script) as server:
        read = json.loads(cli("doctor", "--json", "--address", server.address).out)
        assert read["well"] is True
        assert {check["health"] for check in read["checks"]} == {"ok"}
        assert read["deployment"]["drafts"][0]["info"]["drafter"] == "model"


def test_doctor_says_what_to_mend(cli):
    with MockServer([Reply("a b"), Reply("a c", ids=(100, 999))]) as server:
        info = mock_info()
        server.info = replace(info, drafts=(replace(info.drafts[0], up=False, last_error="refused"), info.drafts[0]))
        result = cli("doctor", "--address", server.address)
        assert result.status == 0, "drafts are optional"
        assert "draft mock-draft:1: down: refused" in result.out
        assert "start it, or look at the network" in result.out
        assert "differs from plain decoding at output position 1" in result.out
        server.info = replace(info, targets=(replace(info.targets[0], up=False),))
        assert cli("doctor", "--address", server.address).status == 1
        server.info = info
    with MockServer(Reply(error=EngineFailure("engine: died"))) as server:
        sick = cli("doctor", "--json", "--address", server.address)
        assert sick.status == 1
        assert json.loads(sick.out)["checks"][-1]["detail"] == "engine: died"
    nobody = cli("doctor", "--address", NOWHERE)
    assert nobody.status == 1
    assert "start it: foreword up" in nobody.out


def comparing(server: MockServer, prompts: list[DemoPrompt]):
    async def compare():
        demo = Demo(out=None, err=Console(file=io.StringIO()), max_tokens=8, tolerance=1e-3)
        async with AsyncClient(server.address) as client:
            return await demo.compare(client, prompts)

    return asyncio.run(compare())


def test_the_demo_compares_the_same_prompt_both_ways_in_turns():
    with MockServer(Reply("a b c d e f", accepted=2)) as server:
        outcomes = comparing(server, [DemoPrompt("one", "k", "1"), DemoPrompt("two", "k", "2", max_tokens=3)])
        asked = [(r.prompt, r.speculation.gamma, r.max_tokens) for r in server.requests]
        assert asked == [
            ("1", 0, 8), ("1", None, 8),  # warming up
            ("1", 0, 8), ("1", None, 8),
            ("2", None, 3), ("2", 0, 3),
        ]  # fmt: skip
        assert all(r.law is not None and r.law.temperature == 0.0 for r in server.requests)
        assert all(outcome.identical for outcome in outcomes)
        assert outcomes[0].drafted.usage.acceptance_length == 3.0
        assert outcomes[0].plain.usage.acceptance_length is None


@pytest.mark.parametrize(("second", "explained"), [(-0.7, True), (-3.0, False)])
def test_the_demo_asks_for_the_margin_where_outputs_part(second, explained):
    top = (((100, -0.1), (5, -9.0)), ((101, -0.7), (999, second)), ((102, -0.1), (5, -9.0)))

    def script(request: GenerateRequest) -> Reply:
        drafted = request.speculation.gamma != 0 and request.top_logprobs is None
        return Reply("a b c", ids=(100, 999, 102) if drafted else (100, 101, 102), top=top)

    with MockServer(script) as server:
        (outcome,) = comparing(server, [DemoPrompt("one", "k", "1")])
        margin = server.requests[-1]
        assert (margin.top_logprobs, margin.max_tokens, margin.speculation.gamma) == (2, 2, 0)
    assert (outcome.identical, outcome.first_difference, outcome.explained) == (False, 1, explained)
    assert outcome.margin == pytest.approx(-0.7 - second)


@pytest.mark.parametrize(
    ("config", "models"),
    [
        (StackConfig(), ["embedded"]),
        (StackConfig(target="synthetic:vocab=64", draft="synthetic:vocab=64"), []),
        (StackConfig(target="a", draft="a"), ["a"]),
        (StackConfig(target="a", draft="a#layers=4"), ["a", "a#layers=4"]),
        (StackConfig(target="a", draft="b", drafts=0), ["a"]),
        (StackConfig(target="a", draft=None), ["a"]),
        (StackConfig(target="a"), ["a"]),
        (StackConfig(target="a", draft="mixed"), ["a"]),
        (StackConfig(target="a", draft="mixed:b"), ["a", "b"]),
        (StackConfig(target="a", draft="bundled"), ["a"]),
        (StackConfig(target="a", draft="."), ["a"]),
    ],
)
def test_only_models_with_weights_are_fetched(config, models):
    assert models_of(config) == models


async def test_models_are_fetched_one_after_the_other_with_progress_on_stderr_alone(tmp_path, capfd):
    log = tmp_path / "log"
    code = (
        "import sys; print('/the/folder'); print('fetching', file=sys.stderr); "
        "open(sys.argv[1], 'a').write(sys.argv[2] + ' '); sys.exit(sys.argv[2] == 'bad')"
    )
    command = (sys.executable, "-S", "-c", code, str(log))
    await fetch_models(StackConfig(target="a", draft="b"), command=command)
    assert log.read_text() == "a b "
    out, err = capfd.readouterr()
    assert (out, err) == ("", "fetching\nfetching\n")
    with pytest.raises(typer.Exit) as ended:  # what was fetching has said why
        await fetch_models(StackConfig(target="bad", draft="b"), command=command)
    assert (ended.value.exit_code, log.read_text()) == (1, "a b bad ")
    killed = (sys.executable, "-S", "-c", "import os; os.kill(os.getpid(), 9)")
    with pytest.raises(NotFound, match=r"model: got a, wanted one that can be fetched \(status -9\)"):
        await fetch_models(StackConfig(target="a", draft="b"), command=killed)


@pytest.mark.parametrize("command", [["up", "--port", "0"], ["demo"]])
def test_a_cache_that_cannot_be_written_is_said_once(command, tmp_path):
    """By what fetches the model; nothing is started after that."""
    cache = tmp_path / "cache"
    cache.write_text("")
    ended = subprocess.run(
        [sys.executable, "-m", "foreword.cli", *command],
        env={**os.environ, "FOREWORD_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    said = f"cache: got {cache}, wanted a folder that can be written ({cache}/downloads: Not a directory); "
    assert ended.stderr == f"{said}flag --cache or FOREWORD_CACHE names another\n"


FAKE_UP = """
import sys
from dataclasses import replace
from foreword.cli import main, demo, up
from foreword.stack.config import StackConfig
def stand_in(**settings):
    return StackConfig(**{**settings, "command": (sys.executable, FAKE)})
up.StackConfig = demo.StackConfig = stand_in
sys.exit(main(sys.argv[1:]))
"""


def fake_up(*argv: str) -> list[str]:
    fake = str(Path(__file__).with_name("fake_service.py"))
    return [sys.executable, "-c", FAKE_UP.replace("FAKE)", f"{fake!r})"), *argv]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_up_runs_until_a_signal_and_stops_everything(number, status):
    child = subprocess.Popen(
        fake_up("up", "--port", "0", "--target", "synthetic:vocab=64"), stderr=subprocess.PIPE, text=True
    )
    assert child.stderr is not None
    lines = []
    for line in child.stderr:
        lines.append(line)
        if line.startswith("HTTP as OpenAI's on "):
            break
    child.send_signal(number)
    _, rest = child.communicate(timeout=300)
    assert child.returncode == status
    assert "Traceback" not in rest
    assert "; try: foreword generate --temperature 0 --address 127.0.0.1:" in lines[-2]
    assert rest.splitlines()[0] == "stopping; requests that run get up to 15 s"
    assert "target       was told" not in rest
    assert any(line.startswith("draft        draft was told --drafter lookup") for line in lines)
    assert next(line for line in rest.splitlines() if line.endswith("stopped")).startswith("orchestrator")


def test_the_whole_demo_writes_one_json_object():
    run = subprocess.run(
        fake_up("demo", "--json", "--target", "synthetic:vocab=64", "--max-tokens", "6"),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    read = json.loads(run.stdout)
    assert len(read["prompts"]) == 6
    assert {key: read["prompts"][0][key] for key in ("identical", "acceptance_length", "text")} == {
        "identical": True,
        "acceptance_length": 3.0,
        "text": "one two three four five six",
    }
    assert read["total"]["identical"] == 6
    assert {"plain_tok_s", "spec_tok_s"} <= read["prompts"][0].keys()


def test_the_whole_demo_shows_texts_and_a_table():
    run = subprocess.run(
        fake_up("demo", "--target", "synthetic:vocab=64", "--max-tokens", "6"),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("one two three four five six") == 6
    assert "6 of 6" in run.stdout
    assert "acceptance length 3.00" in run.stderr
