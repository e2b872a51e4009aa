"""Processes that compile the same function for different types at the same time find their own code again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FUNCTION = """
from numba import njit

from foreword.kernel_cache import share_kernels

share_kernels()


@njit(cache=True)
def twice(value):
    return value + value
"""
CALLER = """
import sys, time
import numpy as np
from numba.core.caching import IndexDataCacheFile
if sys.argv[2] == "slow":  # the index is read, and another process has its turn before a name is picked
    read = IndexDataCacheFile._load_index
    def late(self):
        found = read(self)
        time.sleep(0.2)
        return found
    IndexDataCacheFile._load_index = late
sys.path.insert(0, sys.argv[1])
from shared import twice
kinds = {"int": np.int32(3), "float": np.float64(1.5), "complex": np.complex128(1j), "short": np.int16(2)}
value = kinds[sys.argv[3]]
assert twice(value) == value + value, twice(value)
print(sum(twice.stats.cache_hits.values()))
"""
KINDS = ("int", "float", "complex", "short")


def start(folder: Path, pace: str, kind: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    return subprocess.Popen(
        [sys.executable, "-c", CALLER, str(folder), pace, kind], stdout=subprocess.PIPE, text=True, env=environment
    )


def test_every_process_finds_its_own_code_again(tmp_path: Path) -> None:
    (tmp_path / "shared.py").write_text(FUNCTION)
    for pace, hits in (("slow", "0"), ("quick", "1")):
        begun = [start(tmp_path, pace, kind) for kind in KINDS]
        assert [process.communicate()[0].strip() for process in begun] == [hits] * len(KINDS)
        assert [process.returncode for process in begun] == [0] * len(KINDS)


PARALLEL = """
import sys
import numpy as np
from numba import njit, prange

from foreword.kernel_cache import share_kernels

share_kernels()


@njit(parallel=True, cache=True)
def doubled(values):
    out = np.empty_like(values)
    for i in prange(len(values)):
        out[i] = values[i] * 2
    return out


@njit(cache=True)
def caller(values):
    return doubled(values).sum()
"""
IN_TURN = (
    "doubled(np.ones(8))",  # on disk
    "caller(np.ones(8))",  # compiled around what was found there
    "assert caller(np.ones(8)) == 16.0; assert sum(caller.stats.cache_hits.values())",
)


def test_a_function_from_disk_that_calls_a_parallel_one_has_its_threads(tmp_path: Path) -> None:
    (tmp_path / "parallel.py").write_text(PARALLEL)
    for what in IN_TURN:
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom parallel import *\n{what}"
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
