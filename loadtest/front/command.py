"""`foreword bench front`: time to the first token over gRPC and over HTTP, turn by turn, on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection
from typing import Annotated, Any

import typer

from foreword.client import Client
from foreword.extras import check_installed
from foreword.stack.config import StackConfig
from foreword.stack.stack import Stack
from loadtest.bench import options
from loadtest.bench.bar import Bar, Side
from loadtest.bench.command import bench_command
from loadtest.bench.findings import Findings, Table
from loadtest.bench.frame import Destination, carry_out
from loadtest.bench.interleave import interleaved
from loadtest.bench.progress import Progress
from loadtest.bench.summary import median, quantile
from loadtest.front.callers import Answer, by_grpc, by_http

ADDED_MS = 5.0
"""What HTTP may add to the median time to the first token."""
_VOCABULARY, _WARM_UP = 64, 3


def front(
    tokens: Annotated[int, typer.Option(help="Output tokens of a request.", min=2, max=1024)] = 32,
    prompt: Annotated[int, typer.Option(help="Tokens of a prompt.", min=3, max=1024)] = 64,
    target_ms: Annotated[float, typer.Option(help="Step time of the target.", min=0, max=1000)] = 5.0,
    repeats: options.Repeats = 100,
    json: options.Json = None,
    plot: options.Plot = None,
) -> None:
    """Ask one server for the same texts over gRPC and over HTTP in turn, with synthetic models."""
    check_installed("fastapi", "uvicorn")
    settings = {"tokens": tokens, "prompt": prompt, "target_ms": target_ms, "repeats": repeats}
    carry_out(partial(_measure, settings), settings, Destination(json, plot))


command = bench_command("front", front)


async def _measure(settings: dict[str, Any], progress: Progress) -> Findings:
    model = f"synthetic:vocab={_VOCABULARY},agreement=0.8,seed=1,context={settings['prompt'] + settings['tokens'] + 64}"
    config = StackConfig(
        target=f"{model},step_ms={settings['target_ms']}",
        draft=f"{model},step_ms={settings['target_ms'] / 10}",
        http_port=0,
    )
    progress.begin(settings["repeats"] * 2)
    progress.now("starting the services")
    async with Stack(config) as stack:
        answers = await asyncio.to_thread(_ask, stack.address, stack.http_address or "", settings, progress)
    return _findings(answers)


def _ask(address: str, http: str, settings: dict[str, Any], progress: Progress) -> dict[str, list[Answer]]:
    """Ask in turn; the first few of each, with which connections come about, do not count."""
    host, _, port = http.rpartition(":")
    connection = HTTPConnection(host, int(port), timeout=60)
    answers: dict[str, list[Answer]] = {"grpc": [], "http": []}
    with Client(address) as client:
        ways: dict[str, Callable[[tuple[int, ...], int], Answer]] = {
            "grpc": partial(by_grpc, client),
            "http": partial(by_http, connection),
        }
        for repeat, way in interleaved(tuple(ways), settings["repeats"] + _WARM_UP):
            text = _prompt(repeat * len(ways) + list(ways).index(way), settings["prompt"])
            answer = ways[way](text, settings["tokens"])
            if repeat >= _WARM_UP:
                progress.now(way)
                answers[way].append(answer)
                progress.done()
    connection.close()
    return answers


def _prompt(number: int, length: int) -> tuple[int, ...]:
    """Return a prompt that no other request has, so that none finds its beginning in the cache."""
    head = tuple(number // _VOCABULARY**place % _VOCABULARY for place in range(3))
    return (*head, *(place % _VOCABULARY for place in range(length - 3)))


def _findings(answers: dict[str, list[Answer]]) -> Findings:
    firsts = {way: [1000 * one.first_s for one in each] for way, each in answers.items()}
    rates = {
        way: median([(one.tokens - 1) / (one.last_s - one.first_s) for one in each]) for way, each in answers.items()
    }
    added = {share: quantile(firsts["http"], share) - quantile(firsts["grpc"], share) for share in (0.5, 0.95)}
    rows = tuple((way, median(firsts[way]), quantile(firsts[way], 0.95), rates[way]) for way in answers)
    return Findings(
        figures={
            "first_token_ms": {way: {"p50": median(each), "p95": quantile(each, 0.95)} for way, each in firsts.items()},
            "added_ms": {"p50": added[0.5], "p95": added[0.95]},
            "tokens_per_s": rates,
        },
        bars=[Bar("HTTP beside gRPC, first token, p50, ms", added[0.5], ADDED_MS, Side.AT_MOST)],
        tables=[Table("One request at a time", ("over", "first token p50, ms", "p95, ms", "tokens/s"), rows)],
        draw=partial(_draw, firsts),
    )


def _draw(firsts: dict[str, list[float]], figure: Any) -> None:
    axes = figure.add_subplot()
    for way, each in firsts.items():
        axes.ecdf(each, label=way)
    axes.set_xlabel("time to the first token, ms")
    axes.set_ylabel("share of requests")
    axes.legend()
