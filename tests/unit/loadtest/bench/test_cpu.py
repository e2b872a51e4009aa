"""CPU times, from a made-up /proc and from the real one."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from loadtest.bench.cpu import busy_ns, children, cpu_ns, difference_ms, family, spent_ns


def plant(proc: Path, pid: int, *, threads: dict[int, tuple[str, str]]) -> None:
    for thread, (schedstat, started) in threads.items():
        folder = proc / str(pid) / "task" / str(thread)
        folder.mkdir(parents=True)
        (folder / "schedstat").write_text(schedstat)
        (folder / "children").write_text(started)


def test_threads_are_added_up_and_children_found(tmp_path: Path) -> None:
    plant(tmp_path, 7, threads={7: ("1000 5 2", "8 9 "), 71: ("234 1 1", "")})
    assert cpu_ns(7, tmp_path) == 1234
    assert children(7, tmp_path) == [8, 9]


def test_what_the_kernel_does_not_tell_is_left_out(tmp_path: Path) -> None:
    plant(tmp_path, 7, threads={7: ("", "")})
    assert cpu_ns(7, tmp_path) is None
    assert cpu_ns(8, tmp_path) is None
    assert children(8, tmp_path) == []
    assert spent_ns({"gone": 2**22 + 1}) == {}


def test_idle_and_waiting_cores_are_not_busy(tmp_path: Path) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    (tmp_path / "stat").write_text(f"cpu  {ticks} {2 * ticks} {3 * ticks} 999999 888888 1 2 3 0 0\ncpu0 1 2 3\n")
    assert busy_ns(tmp_path) == 6 * 10**9 + 6 * 10**9 // ticks
    assert busy_ns(tmp_path / "nowhere") is None


def test_only_names_of_both_readings_count() -> None:
    assert difference_ms({"a": 1_000_000, "b": 5}, {"a": 3_500_000, "c": 9}, ("a", "b", "c")) == {"a": 2.5}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_this_process_is_the_client() -> None:
    pids = family({"target": None, "draft": os.getppid()})
    assert pids["client"] == os.getpid()
    assert pids["draft"] == os.getppid()
    before = spent_ns(pids)
    began_s = time.process_time()
    while time.process_time() - began_s < 0.05:  # the kernel counts a running thread when it is interrupted, every 4 ms
        pass
    assert difference_ms(before, spent_ns(pids), ["client"])["client"] > 0.0
