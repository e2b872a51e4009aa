"""Checks and times what only a GPU can: `make gpu-check`, under five minutes; exits with 1 if something is wrong.

Attention over block tables against the reference, deterministic mode, greedy text against the CPU's, times of steps,
and NCCL ranks against one where there are several GPUs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from foreword.client import AsyncClient
from foreword.errors import ForewordError
from foreword.models.dtype import Dtype
from foreword.models.load import LoadedModel, load_model
from foreword.models.source import parse_source
from foreword.protocol.generation import TokenPrompt
from foreword.runner.budget import CacheBudget
from foreword.runner.key_values import TorchKeyValues
from foreword.runner.layers import CacheShape, Manner
from foreword.runner.paged import PagedRunner
from foreword.runner.plan import Span, StepPlan
from foreword.runner.port import Rows
from foreword.runner.real import real_runner
from foreword.runner.varlen import VarlenKeyValues
from foreword.settings.environment import cache_folder
from foreword.stack.config import StackConfig
from foreword.stack.stack import Stack

GPU = torch.device("cuda")
TOLERANCE = 0.03
"""Of attention in short formats, whose values are about 1."""
PROMPT = tuple(range(20, 84))


def main() -> int:
    """Run all parts and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="embedded", help="what is timed and compared: any model source")
    parser.add_argument("--json", action="store_true", help="write the report as JSON to stdout")
    chosen = parser.parse_args()
    if not torch.cuda.is_available():
        sys.stderr.write("gpu-check: torch finds no GPU here, wanted one\n")
        return 1
    report: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    failures = []
    for part in (attention, text, deterministic, steps, ranks):
        name = part.__name__
        started = time.perf_counter()
        try:
            report[name] = part(chosen.model)
        except Exception as error:  # the other parts are of interest all the same
            report[name] = f"{type(error).__name__}: {error}"
            failures.append(name)
        sys.stderr.write(f"{name}: {json.dumps(report[name])} ({time.perf_counter() - started:.0f} s)\n")
    report["failed"] = failures
    sys.stdout.write((json.dumps(report, indent=2) if chosen.json else f"failed: {failures or 'nothing'}") + "\n")
    return 1 if failures else 0


def attention(_: str) -> dict[str, str]:
    """Compare attention over block tables with the reference; which page sizes the kernel takes is a finding."""
    found: dict[str, str] = {}
    for page_size in (16, 32, 64, 128, 256):
        try:
            worst = max(_difference(page_size, dtype, shape, manner) for dtype, shape, manner in _cases())
        except (RuntimeError, ValueError) as error:
            found[f"pages of {page_size}"] = f"not taken: {str(error).splitlines()[0]}"
            continue
        found[f"pages of {page_size}"] = f"off by {worst:.2g}"
        if not worst <= TOLERANCE:
            raise AssertionError(f"pages of {page_size}: off by {worst:.3g}, wanted at most {TOLERANCE}")
    if all("not taken" in finding for finding in found.values()):
        raise AssertionError(f"no page size is taken: {found}")
    return found


def _cases() -> Iterator[tuple[torch.dtype, CacheShape, Manner]]:
    for dtype in (torch.bfloat16, torch.float16):
        for groups, size in ((3, 64), (8, 128)):
            for window in (0, 100):
                yield dtype, CacheShape(1, groups, size), Manner(size**-0.5, window)


def _difference(page_size: int, dtype: torch.dtype, shape: CacheShape, manner: Manner) -> float:
    random = torch.Generator(GPU).manual_seed(0)
    pools = [kind(shape, pages=64, page_size=page_size, dtype=dtype, device=GPU)
             for kind in (VarlenKeyValues, TorchKeyValues)]  # fmt: skip
    pools[0]._keys.fill_(torch.nan)  # as a lost session may leave a page: what no row sees may not be read
    pools[0]._values.fill_(torch.nan)
    lengths, worst = [0, 0, 0], 0.0
    for rows in ([70, 5, 130], [1, 9, 1], [4, 1, 1]):
        first, spans = 0, []
        for slot, count in enumerate(rows):
            end = lengths[slot] + count
            pages = tuple(range(20 * slot, 20 * slot - (-end // page_size)))
            spans.append(Span(first, first + count, lengths[slot], pages))
            first, lengths[slot] = first + count, end
        plan = StepPlan.of([0] * first, [], spans)
        query, key, value = (
            torch.randn((heads, first, shape.size), generator=random, device=GPU, dtype=torch.float32).to(dtype)
            for heads in (3 * shape.groups, shape.groups, shape.groups)
        )
        got, wanted = (pool.attend(0, query, key, value, plan, manner).float() for pool in pools)
        worst = max(worst, float((got - wanted).abs().max()))
    return worst


def text(model: str) -> str:
    """Compare greedy text in float32 with the CPU's; only a near-tie may tell them apart."""
    texts = [_greedy(_runner(_load(model, Dtype.FLOAT32, device)), 48) for device in ("cpu", "cuda")]
    same = next((n for n, (a, b) in enumerate(zip(*texts, strict=True)) if a != b), len(texts[0]))
    if same < len(texts[0]) // 2:
        raise AssertionError(f"text parts from the CPU's after {same} of {len(texts[0])} tokens")
    return f"{same} of {len(texts[0])} tokens as on the CPU"


def deterministic(model: str) -> dict[str, str]:
    """Say in which formats deterministic mode holds on this GPU; a refusal is a finding and no failure."""
    found = {}
    for dtype in (one for one in Dtype if one.exact):
        try:
            _runner(_load(model, dtype, "cuda"), deterministic=True)
            found[dtype.value] = "holds"
        except ForewordError as error:
            found[dtype.value] = f"refused: {error.message}"
    return found


def steps(model: str) -> dict[str, dict[str, float]]:
    """Return milliseconds of a pass by dtype, and by sessions x rows at a context of 64 tokens."""
    found: dict[str, dict[str, float]] = {}
    for dtype in (one for one in Dtype if one.exact):
        runner = _runner(_load(model, dtype, "cuda"))
        times: dict[str, float] = {}
        for sessions, rows in ((1, 1), (1, 2), (1, 4), (1, 8), (1, 16), (16, 1), (16, 5), (64, 1), (64, 5)):
            times[f"{sessions} x {rows}"] = _milliseconds(runner, sessions, rows)
        found[dtype.value] = times
    return found


def ranks(model: str) -> str:
    """Compare greedy text in float32 of a target of several ranks on NCCL with that of one."""
    config = _load(model, Dtype.FLOAT32, "cpu").module.config.get_text_config()
    heads = (config.num_attention_heads, config.num_key_value_heads)
    sizes = [n for n in range(2, torch.cuda.device_count() + 1) if all(count % n == 0 for count in heads)]
    if not sizes:
        return f"not run: {torch.cuda.device_count()} GPUs, {heads[0]} and {heads[1]} heads"
    one, several = (asyncio.run(_served(model, size)) for size in (1, sizes[-1]))
    same = next((n for n, (a, b) in enumerate(zip(one, several, strict=True)) if a != b), len(one))
    if same < len(one) // 2:
        raise AssertionError(f"text of {sizes[-1]} ranks parts from one's after {same} of {len(one)} tokens")
    return f"{sizes[-1]} ranks: {same} of {len(one)} tokens as with one"


async def _served(model: str, size: int) -> Sequence[int]:
    flags = ("--device", "cuda", "--tensor-parallel-size", str(size))
    config = StackConfig(target=model, draft=None, dtype=Dtype.FLOAT32.value, arguments={"target": flags})
    async with Stack(config) as stack, AsyncClient(stack.address) as client:
        made = await client.generate(TokenPrompt(PROMPT), temperature=0.0, max_tokens=48, ignore_eos=True)
    return made.ids


def _milliseconds(runner: PagedRunner, sessions: int, rows: int) -> float:
    for slot in range(sessions):
        runner.open(slot)
    runner.forward([Rows(slot, PROMPT, 0) for slot in range(sessions)])

    def step() -> None:
        runner.forward([Rows(slot, PROMPT[:rows], rows) for slot in range(sessions)])
        for slot in range(sessions):
            runner.truncate(slot, len(PROMPT))

    taken = _timed(step)
    for slot in range(sessions):
        runner.close(slot)
    return round(1000 * taken, 2)


def _timed(step: Callable[[], None]) -> float:
    times = []
    for _ in range(15):
        started = time.perf_counter()
        step()  # ends with the logits on the host
        times.append(time.perf_counter() - started)
    return statistics.median(times[5:])


def _greedy(runner: PagedRunner, count: int) -> Sequence[int]:
    runner.open(0)
    (logits,) = runner.forward([Rows(0, PROMPT, 1)])
    ids = [int(np.argmax(logits[0]))]
    while len(ids) < count:
        (logits,) = runner.forward([Rows(0, (ids[-1],), 1)])
        ids.append(int(np.argmax(logits[0])))
    return ids


def _load(model: str, dtype: Dtype, device: str) -> LoadedModel:
    return load_model(parse_source(model), dtype=dtype, cache=cache_folder(), device=device)


def _runner(loaded: LoadedModel, *, deterministic: bool = False) -> PagedRunner:
    return real_runner(
        loaded.module,
        vocabulary_size=loaded.info.vocabulary_size,
        longest_context=loaded.info.longest_context,
        budget=CacheBudget(1 << 15),
        deterministic=deterministic,
    )


if __name__ == "__main__":
    sys.exit(main())
