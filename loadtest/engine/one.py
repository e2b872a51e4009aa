"""One session without a draft, through all services, against `generate` of transformers."""

from __future__ import annotations

from functools import partial

from foreword.models.dtype import Dtype
from loadtest.bench.bar import Bar
from loadtest.bench.findings import Cell
from loadtest.bench.progress import Progress
from loadtest.bench.summary import median
from loadtest.engine.arms import DTYPES, FOREWORD, WARM_UP, Arm, Rates, Written, comparison_json, written
from loadtest.engine.plan import Deployment, Part, Plan
from loadtest.engine.rates import Comparison, Output, common_start
from loadtest.engine.report import Report, with_interval
from loadtest.engine.rig import Rig
from loadtest.engine.sessions import Steps
from loadtest.engine.worker import Environment

BARS = {Dtype.BFLOAT16: 1.3}
"""How many times the tokens per second of `generate`."""
PEERS = tuple(environment.value for environment in Environment)
_WARM_TOKENS = 4


async def measure(rig: Rig, plan: Plan, progress: Progress) -> Report:
    """Run all arms in both dtypes, with the same chat."""
    steps = {dtype: await (await rig.services(Deployment(dtype))).steps() for dtype in DTYPES}
    arms = [arm for dtype in DTYPES for arm in _arms(rig, plan, dtype)]
    made = await written(arms, plan.repeats, progress, "one session")
    for dtype, before in steps.items():
        steps[dtype] = (await (await rig.services(Deployment(dtype))).steps()).since(before)
    return report_of(made, steps)


def report_of(made: Written, steps: dict[Dtype, Steps]) -> Report:
    """Return the figures; the bar is on the tokens per second of whole calls."""
    calls = Rates.of(made, lambda outputs: outputs[0].call_rate)
    decode = Rates.of(made, lambda outputs: outputs[0].decode_rate)
    against = {dtype: calls.against(dtype, PEERS) for dtype in DTYPES}
    alike = {dtype: _alike(made, dtype) for dtype in DTYPES}
    ratios = ("ratio to the better one", *(with_interval(against[dtype].ratio) for dtype in DTYPES))
    extra: tuple[tuple[Cell, ...], ...] = (
        ("tokens until the texts part", *(str(alike[dtype]) for dtype in DTYPES)),
        ("step of the target, ms", *(steps[dtype].step_ms for dtype in DTYPES)),
        ("laws and evidence of it, ms", *(steps[dtype].evidence_ms for dtype in DTYPES)),
    )
    return Report(
        Part.ONE,
        figures={
            "tokens_per_s": calls.json(),
            "decode_tokens_per_s": decode.json(),
            "ratio": {dtype.value: comparison_json(against[dtype]) for dtype in DTYPES},
            "common_tokens": {dtype.value: alike[dtype] for dtype in DTYPES},
            "step_ms": {dtype.value: steps[dtype].step_ms for dtype in DTYPES},
            "evidence_ms": {dtype.value: steps[dtype].evidence_ms for dtype in DTYPES},
        },
        bars=_bars(against),
        tables=[
            calls.table("One session, tokens/s from call to last token", [ratios]),
            decode.table("One session, tokens/s from first token to last", extra),
        ],
        draw=partial(calls.draw, label="one session, tokens/s"),
        notes=("texts in bfloat16 part at near-ties; the steps are means, those that read the prompt included",),
    )


def _arms(rig: Rig, plan: Plan, dtype: Dtype) -> list[Arm]:
    async def ours(repeat: int) -> list[Output]:
        prompt = (await rig.prompts()).chat
        services = await rig.services(Deployment(dtype))
        return [await services.output(prompt, _tokens(plan, repeat), salt=f"one {repeat}".encode())]

    async def theirs(repeat: int, environment: Environment) -> list[Output]:
        prompt = (await rig.prompts()).chat
        return await rig.written("generate", environment, dtype, [prompt], _tokens(plan, repeat))

    peers = [Arm(environment.value, dtype, partial(theirs, environment=environment)) for environment in Environment]
    return [Arm(FOREWORD, dtype, ours), *peers]


def _tokens(plan: Plan, repeat: int) -> int:
    return _WARM_TOKENS if repeat == WARM_UP else plan.tokens


def _alike(made: Written, dtype: Dtype) -> int:
    """Return how long the texts of ours and of transformers are the same; the median of repeats."""
    pairs = zip(made[dtype, FOREWORD], made[dtype, PEERS[0]], strict=True)
    return round(median([float(common_start(a[0].ids, b[0].ids)) for a, b in pairs]))


def _bars(against: dict[Dtype, Comparison]) -> list[Bar]:
    return [
        Bar(f"one session, {dtype.value}: tokens/s over generate's", against[dtype].ratio.median, bound)
        for dtype, bound in BARS.items()
    ]
