"""The Ray cluster that ranks run on: one that is there, or one of this machine that ends with the engine."""

from __future__ import annotations

import logging
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import ray

from foreword.engine.child import one_line
from foreword.errors import EngineFailure
from target_service.tensor_parallel.settings import GroupSettings

_LEAVE_S = 10.0
"""Time that a cluster of our own gets to be gone."""
_REACH_S = 10.0
"""Time in which the address of a cluster has to take a connection."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that this process has joined."""

    host: str
    """Address of this process's machine, as ranks reach it."""
    is_own: bool


@contextmanager
def joined_cluster(settings: GroupSettings) -> Iterator[Cluster]:
    """Join the cluster of the settings, or start one; raises EngineFailure if that fails. It is left at the end."""
    if settings.ray_address:
        with _joined(settings.ray_address):
            yield Cluster(ray.util.get_node_ip_address(), is_own=False)  # type: ignore[no-untyped-call]
    else:
        with _own_head(settings) as address, _joined(address):
            yield Cluster("127.0.0.1", is_own=True)


@contextmanager
def _joined(address: str) -> Iterator[None]:
    _check_reached(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # ConnectionError, ValueError, RuntimeError and others, as its parts please
        raise EngineFailure(f"Ray at {address}: {one_line(error)}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_reached(address: str) -> None:
    """Raise EngineFailure if nobody listens at `host:port`; Ray tries for minutes, and says nothing meanwhile."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit():
        return  # `auto`, or something that Ray refuses at once
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_S).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise EngineFailure(f"Ray at {address}: cannot be reached: {one_line(error)}") from error


@contextmanager
def _own_head(settings: GroupSettings) -> Iterator[str]:
    """Run `head` as a process of its own, which ends when this one does; yield its address."""
    folder = tempfile.mkdtemp(prefix="foreword-ray-")
    devices = "cpu" if settings.device == "cpu" else "all"
    command = [sys.executable, "-m", "target_service.tensor_parallel.head", folder, str(settings.cpus), devices]
    head = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert head.stdin is not None
    assert head.stdout is not None
    try:
        address = head.stdout.readline().strip()
        if not address:
            raise EngineFailure(f"Ray did not start on this machine: exit status {head.wait(_LEAVE_S)}")
        yield address
    finally:
        head.stdin.close()
        try:
            head.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            head.kill()
            head.wait()
        head.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)
