"""A Ray cluster of this machine, in a process: `python -m target_service.tensor_parallel.head FOLDER CPUS cpu|all`.

It writes the cluster's address to standard output and runs until its standard input ends, however the process at the
other end ended; then nothing of the cluster is left, neither processes nor files. Ray's agents outlive its daemons by
a minute and more when those are killed, so this process adopts what its descendants leave behind, and ends it.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import ray

_PR_SET_CHILD_SUBREAPER = 36
_OBJECT_STORE_BYTES = 80 << 20
"""Near the least that Ray takes: nothing is put into its object store but a few settings."""
_LEAVE_S = 3.0


def main(folder: str, cpus: int, devices: str) -> None:
    """Start Ray in `folder`, say where it is, and end it all at the end of standard input; does not return."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the engine decides when its cluster ends
        signal.signal(number, _ignore)  # SIG_IGN would pass on to Ray's processes, which shutdown could not end then
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        context: Any = ray.init(
            address="local",
            num_cpus=cpus,
            num_gpus=0 if devices == "cpu" else None,  # None takes those that there are
            include_dashboard=False,
            object_store_memory=_OBJECT_STORE_BYTES,
            logging_level=logging.ERROR,
            log_to_driver=False,
            _temp_dir=folder,
        )
        sys.stdout.write(context.address_info["gcs_address"] + "\n")
        sys.stdout.flush()
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # ends the pipe; Ray's threads may go on to print
        sys.stdin.read()
    except Exception:
        traceback.print_exc()
    end_children()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)  # without Ray's own leave-taking, which waits for what is gone


def end_children(wait_s: float = _LEAVE_S) -> None:
    """Kill all processes that descend from this one and return when they are gone."""
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        children = child_pids()
        if not children:
            return
        for pid in children:
            with contextlib.suppress(ProcessLookupError):  # Ray waits for some of its own
                os.kill(pid, signal.SIGKILL)
        for pid in children:  # their own children become ours
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def child_pids() -> list[int]:
    """Return this process's children, the dead that nobody has waited for among them; Linux only, elsewhere none."""
    pids: set[int] = set()
    for listed in Path("/proc/self/task").glob("*/children"):
        pids.update(map(int, listed.read_text().split()))
    return sorted(pids)


def _ignore(_: int, __: object) -> None:
    return None


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
