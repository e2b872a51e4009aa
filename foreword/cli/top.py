"""`foreword top`: what is at work, and how its blocks are chosen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from foreword.cli import options
from foreword.cli.output import harmless, plain, stdout, write_json
from foreword.client import DEFAULT_ADDRESS, AsyncClient
from foreword.protocol.activity import Activity, ChoiceActivity
from foreword.protocol.generation import DeploymentInfo, PeerInfo

_PLACES = 4
"""Survivals that are shown; `--json` has all."""
_COLUMNS = ("request", "s", "tokens", "tok/s", "a step", "draft", "γ", "why", "survival", "with γ", "with 0")
_NAME = 12
_WIDE = 160
"""Characters of a line where nobody knows how wide the terminal is."""


def command(
    interval: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.1, max=3600.0)] = 1.0,
    once: Annotated[
        bool, typer.Option("--once", help="Look once; so does output that is no terminal, unless it is --json.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Write one JSON object a look to stdout.")] = False,
    address: options.Address = DEFAULT_ADDRESS,
    token: options.Token = None,
    tls_ca: options.Ca = None,
    tls_cert: options.Cert = None,
    tls_key: options.Key = None,
    insecure: options.Insecure = False,
) -> None:
    """Show what is at work: how fast, with which γ, and from which estimates it was chosen."""
    client = options.connect(address, token=token, ca=tls_ca, cert=tls_cert, key=tls_key, insecure=insecure)
    console = stdout()
    if not console.is_terminal:
        console.width = _WIDE
    if json:
        asyncio.run(_tell(client, console, interval=0.0 if once else interval))
    elif once or not console.is_terminal:
        asyncio.run(_show_once(client, console))
    else:
        asyncio.run(_watch(client, console, interval=interval))


class Speeds:
    """Tokens a second of each choice, from two looks."""

    def __init__(self) -> None:
        self._at_s = 0.0
        self._tokens: dict[tuple[str, int], int] = {}

    def look(self, activity: Activity, now_s: float) -> Mapping[tuple[str, int], float]:
        """Return the speeds since the last look, of choices that were there then."""
        before, passed_s = self._tokens, now_s - self._at_s
        self._tokens = {_key(choice): choice.usage.output_tokens for choice in activity.choices}
        self._at_s = now_s
        return {key: (tokens - before[key]) / passed_s for key, tokens in self._tokens.items() if key in before}


def screen(info: DeploymentInfo, activity: Activity, speeds: Mapping[tuple[str, int], float]) -> Group:
    """Return what a terminal shows."""
    model = "no model yet" if info.model is None else info.model.name
    head = f"foreword {info.version}  {model}  {activity.requests} at work"
    if speeds or not activity.choices:
        head += f"  {sum(speeds.values()):.1f} tokens/s"
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in _COLUMNS:
        table.add_column(name, no_wrap=True)
    for choice in activity.choices:
        table.add_row(*_cells(choice, speeds.get(_key(choice))))
    peers = [_peer("target", peer) for peer in info.targets] + [_peer("draft", peer) for peer in info.drafts]
    return Group(harmless(head), *peers, Text(), table)


def look_json(info: DeploymentInfo, activity: Activity, speeds: Mapping[tuple[str, int], float]) -> dict[str, Any]:
    """Return the same as what JSON can say, with all estimates."""
    choices = [{**plain(choice), "tok_s": speeds.get(_key(choice))} for choice in activity.choices]
    return {
        "version": info.version,
        "model": None if info.model is None else info.model.name,
        "targets": [_peer_json(peer) for peer in info.targets],
        "drafts": [_peer_json(peer) for peer in info.drafts],
        "requests": activity.requests,
        "choices": choices,
    }


def _peer_json(peer: PeerInfo) -> dict[str, Any]:
    return {name: getattr(peer, name) for name in ("address", "up", "round_trip_us", "last_error")}


def _cells(choice: ChoiceActivity, speed: float | None) -> list[str | Text]:
    usage, chosen = choice.usage, choice.gamma
    length = usage.acceptance_length
    rates = chosen.tokens_per_s
    return [
        harmless(_name(choice)),
        f"{choice.age_us / 1e6:.1f}",
        str(usage.output_tokens),
        "" if speed is None else f"{speed:.1f}",
        "" if length is None else f"{length:.2f}",
        harmless(choice.draft or "none"),
        str(chosen.gamma),
        harmless(chosen.why),
        " ".join(f"{value:.2f}" for value in chosen.survival[:_PLACES]),
        f"{rates[chosen.gamma]:.1f}" if chosen.gamma < len(rates) else "",
        f"{rates[0]:.1f}" if rates else "",
    ]


def _name(choice: ChoiceActivity) -> str:
    """Return what tells a choice from others; `--json` has the whole request id, for `abort`."""
    short = choice.request_id[:_NAME]
    return f"{short}/{choice.choice}" if choice.choice else short


def _peer(role: str, peer: PeerInfo) -> Text:
    if not peer.up:
        down = harmless(f"{role} {peer.address} is down: {peer.last_error}")
        down.stylize("red")
        return down
    trip = "" if peer.round_trip_us is None else f", {peer.round_trip_us / 1000:.2f} ms away"
    return harmless(f"{role} {peer.address}{trip}")


def _key(choice: ChoiceActivity) -> tuple[str, int]:
    return choice.request_id, choice.choice


async def _tell(client: AsyncClient, console: Console, *, interval: float) -> None:
    speeds = Speeds()
    async with client:
        while True:
            info, activity = await client.info(), await client.activity()
            write_json(console, look_json(info, activity, speeds.look(activity, time.monotonic())))
            if not interval:
                return
            await asyncio.sleep(interval)


async def _show_once(client: AsyncClient, console: Console) -> None:
    async with client:
        console.print(screen(await client.info(), await client.activity(), {}))


async def _watch(client: AsyncClient, console: Console, *, interval: float) -> None:
    speeds = Speeds()
    async with client:
        with Live(console=console, auto_refresh=False, screen=True) as live:
            while True:
                info, activity = await client.info(), await client.activity()
                live.update(screen(info, activity, speeds.look(activity, time.monotonic())), refresh=True)
                await asyncio.sleep(interval)
