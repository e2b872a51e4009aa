"""`foreword doctor`: is a deployment well, and what is to be mended."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping
from typing import Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from foreword.cli import options
from foreword.cli.checks import Check, Health, deployment_checks, draft_check, plain_check, untried_check
from foreword.cli.failure import hint
from foreword.cli.output import stdout, write_json
from foreword.client import DEFAULT_ADDRESS, AsyncClient
from foreword.errors import ForewordError
from foreword.protocol.generation import Choice, DeploymentInfo, Timings

_MARKS: Final[Mapping[Health, tuple[str, str]]] = {
    Health.OK: ("ok     ", "green"),
    Health.WARNING: ("warning", "yellow"),
    Health.FAILED: ("failed ", "red"),
}
_ASKS = 5
_ANSWERS_OTHERWISE = "look at the address, and at the log of what answers there"
_PROMPT = "1 2 3 4 5 6 7 8"
"""Continues in any vocabulary, synthetic ones included."""
_TOKENS = 32
_TIMEOUT_S = 120.0


def command(
    json: options.Json = False,
    address: options.Address = DEFAULT_ADDRESS,
    token: options.Token = None,
    tls_ca: options.Ca = None,
    tls_cert: options.Cert = None,
    tls_key: options.Key = None,
    insecure: options.Insecure = False,
) -> None:
    """Check a deployment: reach, versions, fit of models, round trips, a short generation with and without draft."""
    client = options.connect(address, token=token, ca=tls_ca, cert=tls_cert, key=tls_key, insecure=insecure)
    examination = asyncio.run(_examine(client))
    if json:
        write_json(stdout(), examination.json())
    else:
        examination.show(stdout())
    raise typer.Exit(0 if examination.well else 1)


class Examination:
    """What was found."""

    def __init__(self) -> None:
        self.checks: list[Check] = []
        self.info: DeploymentInfo | None = None
        self.round: Timings | None = None

    @property
    def well(self) -> bool:
        """Whether nothing failed."""
        return all(check.health is not Health.FAILED for check in self.checks)

    def json(self) -> dict[str, Any]:
        """Return it as what JSON can say."""
        return {
            "well": self.well,
            "checks": self.checks,
            "deployment": self.info,
            "round": () if self.round is None else self.round.parts,
        }

    def show(self, console: Console) -> None:
        """Write it for people."""
        for check in self.checks:
            word, style = _MARKS[check.health]
            console.print(Text.assemble((word, style), f"  {check.name}: {check.detail}"))
            if check.mend:
                console.print(Text(f"         {check.mend}", style="dim"))
        if self.round is not None and self.round.parts:
            table = Table("part of a round", "median ms", "total ms", title=None, box=None)
            for part in self.round.parts:
                table.add_row(part.name.replace("_", " "), f"{part.p50_us / 1000:.2f}", f"{part.sum_us / 1000:.1f}")
            console.print(table)


async def _examine(client: AsyncClient) -> Examination:
    found = Examination()
    async with client:
        try:
            found.info, round_trip_ms = await _ask(client)
            found.checks.append(Check("orchestrator", Health.OK, f"answers in {round_trip_ms:.2f} ms"))
            found.checks.extend(deployment_checks(found.info))
            if any(peer.up for peer in found.info.targets):
                await _try_out(client, found)
        except ForewordError as error:
            mend = "look at the logs of the services" if found.info is not None else hint(error) or _ANSWERS_OTHERWISE
            found.checks.append(Check("orchestrator", Health.FAILED, error.message, mend))
    return found


async def _ask(client: AsyncClient) -> tuple[DeploymentInfo, float]:
    """Return what the orchestrator says of itself, and the median time of asking in milliseconds."""
    times, info = [], await client.info()
    for _ in range(_ASKS):
        began = time.perf_counter()
        info = await client.info()
        times.append(1000.0 * (time.perf_counter() - began))
    return info, statistics.median(times)


async def _try_out(client: AsyncClient, found: Examination) -> None:
    plain = await _generate(client, gamma=0)
    found.checks.append(plain_check(plain))
    assert found.info is not None
    if any(peer.up for peer in found.info.drafts):
        drafted = await _generate(client, gamma=max(1, found.info.gamma))
        found.checks.append(draft_check(drafted, plain, found.info))
        found.round = drafted.timings
    else:
        found.round = plain.timings
        if (untried := untried_check(found.info)) is not None:
            found.checks.append(untried)


async def _generate(client: AsyncClient, *, gamma: int) -> Choice:
    completion = await client.generate(
        _PROMPT, temperature=0, max_tokens=_TOKENS, ignore_eos=True, gamma=gamma, timeout_s=_TIMEOUT_S
    )
    return completion.choices[0]
