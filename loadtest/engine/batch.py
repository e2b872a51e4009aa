"""Sessions side by side without a draft against continuous and padded batches of transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from foreword.models.dtype import Dtype
from loadtest.bench.bar import Bar
from loadtest.bench.findings import Cell
from loadtest.bench.progress import Progress
from loadtest.engine.arms import DTYPES, FOREWORD, WARM_UP, Arm, Rates, Written, comparison_json, written
from loadtest.engine.plan import Deployment, Part, Plan
from loadtest.engine.rates import Comparison, Output, steady_rate
from loadtest.engine.report import Report, with_interval
from loadtest.engine.rig import Rig
from loadtest.engine.sessions import Steps
from loadtest.engine.worker import Environment

CONTINUOUS = ("generate_batch", "generate_batch, our env.")
PADDED = "padded generate, our env."
ALONE = ("generate of one", "generate of one, our env.")
"""Arms of transformers, those with two names in the order of `Environment`."""
OVER_CONTINUOUS, OVER_ALONE = 1.0, 5.0
_WARM_TOKENS = 3


async def measure(rig: Rig, plan: Plan, progress: Progress) -> Report:
    """Run all arms in both dtypes, on the same prompts."""
    steps = {dtype: await (await rig.services(Deployment(dtype))).steps() for dtype in DTYPES}
    arms = [arm for dtype in DTYPES for arm in _arms(rig, plan, dtype)]
    made = await written(arms, plan.repeats, progress, f"{plan.sessions} sessions")
    for dtype, before in steps.items():
        steps[dtype] = (await (await rig.services(Deployment(dtype))).steps()).since(before)
    return report_of(made, steps, plan.sessions)


def report_of(made: Written, steps: Mapping[Dtype, Steps], sessions: int) -> Report:
    """Return the figures: tokens per second while all sequences are in their middle."""
    rates = Rates.of(made, _rate)
    continuous = {dtype: rates.against(dtype, CONTINUOUS) for dtype in DTYPES}
    padded = {dtype: rates.against(dtype, (PADDED,)) for dtype in DTYPES}
    alone = {dtype: rates.against(dtype, ALONE) for dtype in DTYPES}
    rows: list[tuple[Cell, ...]] = [
        ("ratio to generate_batch", *_cells(continuous)),
        ("ratio to padded generate", *_cells(padded)),
        ("ratio to generate of one", *_cells(alone)),
        ("step of the target, ms", *(steps[dtype].step_ms for dtype in DTYPES)),
        ("laws and evidence of it, ms", *(steps[dtype].evidence_ms for dtype in DTYPES)),
    ]
    return Report(
        Part.BATCH,
        figures={
            "tokens_per_s": rates.json(),
            "over_generate_batch": _json(continuous),
            "over_padded_generate": _json(padded),
            "over_one_sequence": _json(alone),
            "step_ms": {dtype.value: steps[dtype].step_ms for dtype in DTYPES},
            "evidence_ms": {dtype.value: steps[dtype].evidence_ms for dtype in DTYPES},
        },
        bars=[
            *_bars(f"{sessions} sessions, {{}}: tokens/s over generate_batch's", continuous, OVER_CONTINUOUS),
            *_bars(f"{sessions} sessions, {{}}: tokens/s over those of generate of one", alone, OVER_ALONE),
        ],
        tables=[rates.table(f"{sessions} sessions, tokens/s while all are in their middle", rows)],
        draw=partial(rates.draw, label=f"{sessions} sessions, tokens/s"),
        notes=("generate of one: from its first token to its last",),
    )


def _arms(rig: Rig, plan: Plan, dtype: Dtype) -> list[Arm]:
    async def ours(repeat: int) -> list[Output]:
        services = await rig.services(Deployment(dtype))
        tokens = 3 * _WARM_TOKENS if repeat == WARM_UP else plan.batch_tokens
        return await services.outputs((await rig.prompts()).short, tokens, salt=f"batch {repeat}".encode())

    async def theirs(repeat: int, kind: str, environment: Environment, *, prompts: int) -> list[Output]:
        tokens = _WARM_TOKENS if repeat == WARM_UP else plan.peer_tokens if prompts > 1 else 2 * plan.peer_tokens
        short = (await rig.prompts()).short
        return await rig.written(kind, environment, dtype, list(short[:prompts]), tokens)

    def peer(name: str, kind: str, environment: Environment, prompts: int) -> Arm:
        return Arm(name, dtype, partial(theirs, kind=kind, environment=environment, prompts=prompts))

    return [
        Arm(FOREWORD, dtype, ours),
        *(peer(name, "continuous", where, plan.sessions) for name, where in zip(CONTINUOUS, Environment, strict=True)),
        peer(PADDED, "generate", Environment.OURS, plan.sessions),
        *(peer(name, "generate", where, 1) for name, where in zip(ALONE, Environment, strict=True)),
    ]


def _rate(outputs: Sequence[Output]) -> float:
    return outputs[0].decode_rate if len(outputs) == 1 else steady_rate(outputs)


def _cells(against: Mapping[Dtype, Comparison]) -> list[str]:
    return [with_interval(against[dtype].ratio) for dtype in DTYPES]


def _json(against: Mapping[Dtype, Comparison]) -> dict[str, Any]:
    return {dtype.value: comparison_json(against[dtype]) for dtype in DTYPES}


def _bars(name: str, against: Mapping[Dtype, Comparison], bound: float) -> list[Bar]:
    return [Bar(name.format(dtype.value), against[dtype].ratio.median, bound) for dtype in DTYPES]
