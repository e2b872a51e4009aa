"""What the bench is told, which processes it starts, and what it reads of a target's metrics."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from foreword.errors import InvalidField, ProtocolFault, Unavailable
from foreword.models.dtype import Dtype
from loadtest.bench.parts import read_parts
from loadtest.bench.scrape import free_port
from loadtest.engine.plan import Deployment, Part, Plan
from loadtest.engine.rig import Prompts
from loadtest.engine.sessions import Steps, read_steps
from loadtest.engine.worker import Environment, Worker


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("threads", 0),
        ("tokens", 15),
        ("sessions", 1),
        ("sessions", 65),
        ("batch_tokens", 15),
        ("context", 1025),
        ("prompt", 8000),
        ("repeats", 0),
        ("model", "synthetic:vocab=64"),
        ("model", "nope"),
    ],
)
def test_plans_that_cannot_be_measured_are_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidField, match=field):
        Plan(**{field: value})  # type: ignore[arg-type]


def test_parts_are_read_from_a_list() -> None:
    assert read_parts(["prompt, one"], Part) == read_parts(["one", "prompt"], Part) == (Part.ONE, Part.PROMPT)
    assert read_parts([], Part) == tuple(Part)
    with pytest.raises(InvalidField, match="only: got 'two'"):
        read_parts(["one,two"], Part)


def test_services_get_the_threads_and_the_dtype_of_the_plan() -> None:
    plan = Plan(threads=3)
    stack = plan.stack(Deployment(Dtype.BFLOAT16), 1234)
    assert (stack.target, stack.draft, stack.dtype, stack.threads) == ("embedded", None, "bfloat16", 3)
    assert stack.arguments["target"][-2:] == ("--metrics-port", "1234")
    whole = plan.stack(Deployment(Dtype.FLOAT32, draft="lookup", whole_prompts=True), 1234)
    assert whole.draft == "lookup"
    chunk = whole.arguments["target"].index("--prefill-chunk")
    assert int(whole.arguments["target"][chunk + 1]) > plan.prompt


def test_the_targets_flags_are_settings_of_a_target() -> None:
    from target_service.settings import TargetSettings

    flags = Plan().stack(Deployment(Dtype.FLOAT32, whole_prompts=True), 0).arguments["target"]
    given = {flag[2:].replace("-", "_"): value for flag, value in zip(flags[::2], flags[1::2], strict=True)}
    settings = TargetSettings(**given)
    assert settings.prefill_chunk >= 4096
    assert settings.max_step_tokens >= 4096


def test_one_environment_only_sleeps_and_the_other_is_that_of_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    passive, ours = (environment.variables(2) for environment in (Environment.PASSIVE, Environment.OURS))
    assert (passive["OMP_WAIT_POLICY"], passive["OMP_NUM_THREADS"]) == ("passive", "2")
    assert "GOMP_SPINCOUNT" not in passive
    assert set(ours) - set(passive) == {"GOMP_SPINCOUNT"}


def test_long_texts_differ_from_their_first_token_on() -> None:
    prompts = Prompts((1,), ((1,),), tuple(range(1000)))
    texts = [prompts.long(2500, number) for number in range(20)]
    assert {len(text) for text in texts} == {2500}
    assert len({text[0] for text in texts}) == 20


METRICS = """
# HELP foreword_target_step_seconds Time of a step.
foreword_target_step_seconds_bucket{le="0.1"} 7.0
foreword_target_step_seconds_count 8.0
foreword_target_step_seconds_sum 0.4
foreword_target_evidence_seconds_count 8.0
foreword_target_evidence_seconds_sum 0.016
"""


def test_steps_are_read_from_metrics() -> None:
    steps = read_steps(METRICS)
    assert steps == Steps(8.0, 0.4, 0.016)
    later = Steps(18.0, 1.4, 0.046).since(steps)
    assert later.count == 10.0
    assert (later.step_ms, later.evidence_ms) == (pytest.approx(100.0), pytest.approx(3.0))
    with pytest.raises(ProtocolFault, match="foreword_target_step_seconds_count"):
        read_steps("nothing 1.0\n")


def test_these_metrics_are_those_of_a_target() -> None:
    from prometheus_client import CollectorRegistry, generate_latest

    from target_service.metrics import TargetMetrics

    registry = CollectorRegistry()
    TargetMetrics(registry)
    assert read_steps(generate_latest(registry).decode()) == Steps(0.0, 0.0, 0.0)


def test_a_port_is_free() -> None:
    assert 1024 <= free_port() <= 65535


ANSWERS = """
import json, sys
for line in sys.stdin:
    question = json.loads(line)
    if question["kind"] == "fail":
        raise SystemExit(3)
    if question["kind"] == "refuse":
        print(json.dumps({"error": "model: got 'x'"}), flush=True)
        continue
    print(json.dumps({"asked": question, "arguments": sys.argv[1:]}), flush=True)
"""


async def test_a_worker_answers_until_it_ends(tmp_path: Path) -> None:
    (tmp_path / "answering.py").write_text(ANSWERS)
    worker = await Worker.start("answering", "a", "b", variables={"PYTHONPATH": str(tmp_path)})
    try:
        found = await worker.ask("add", numbers=[1, 2])
        assert found == {"asked": {"kind": "add", "numbers": [1, 2]}, "arguments": ["a", "b"]}
        with pytest.raises(Unavailable, match="answering: model: got 'x'"):
            await worker.ask("refuse")
        with pytest.raises(Unavailable, match="answering: got no answer about fail"):
            await worker.ask("fail")
        with pytest.raises(Unavailable):
            await worker.ask("add")
    finally:
        await worker.close()


def test_defaults_are_in_the_report() -> None:
    facts = Plan(threads=2).json()
    assert facts["parts"] == ["one", "batch", "passes", "prefix", "prompt"]
    assert facts["threads"] == 2
    assert all(math.isfinite(value) for value in facts.values() if isinstance(value, int | float))
