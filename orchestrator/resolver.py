"""Looks names up as the machine does: hosts file, DNS and search domains alike."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from foreword.errors import Unavailable
from orchestrator.pools.names import Answer, Name


class SystemResolver:
    """Implements `LookUp` with getaddrinfo, in threads of the running loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, name: Name, answered: Callable[[Answer], None]) -> None:
        """Look a name up; `answered` is called on the loop."""
        task = asyncio.get_running_loop().create_task(_look_up(name, answered))
        self._tasks.add(task)  # the loop itself keeps no task alive
        task.add_done_callback(self._tasks.discard)


async def _look_up(name: Name, answered: Callable[[Answer], None]) -> None:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(name.host, name.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # a label that is too long fails as UnicodeError
        answered(Unavailable(f"name {name.host}: cannot be resolved: {error}"))
    else:
        answered(frozenset(_address(family, place) for family, _, _, _, place in found))


def _address(family: int, place: tuple[Any, ...]) -> str:
    """Return `ip:port` of a socket address; IPv6 in brackets."""
    ip, port = place[0], place[1]
    return f"[{ip}]:{port}" if family == socket.AF_INET6 else f"{ip}:{port}"
