"""The only place that reads the process environment, other than the sources of settings."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path

import foreword
from foreword.errors import InvalidField

_DIRECT_POLLER = "-event_engine_client,-event_engine_listener"


_KERNELS = ("kernel.py", "runner/kernels/*.py", "runner/fused/*.py", "compiled/*.py")
"""Files of the package whose functions Numba compiles, and what says how."""
_SPINS = "3000"
"""How often a waiting thread looks before it sleeps: some 50 µs, which is what lies between two parallel loops."""


def engine_environment(
    threads: int = 0, extra: Mapping[str, str] | None = None, *, cache: Path | None = None
) -> dict[str, str]:
    """Return the environment of an engine process: this one's, and what keeps its threads from spinning for long.

    OpenMP's waiting threads spin without end by default, which is ruinous on shared cores (a 2-thread forward pass took
    1,900 ms instead of 54 ms beside another torch process); not at all, and every parallel loop waits for a thread to
    be woken (docs/decisions/0010-threads-that-wait.md). `threads` 0 leaves the number of threads alone. Compiled
    kernels are kept in the folder `cache`.
    """
    environment = dict(os.environ)
    _prepare(environment, cache)
    environment.setdefault("GOMP_SPINCOUNT", _SPINS)
    environment["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    if threads:
        environment["OMP_NUM_THREADS"] = str(threads)
    root = str(Path(foreword.__file__).parents[1])
    paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    if root not in paths:  # the engine must import what this process did, wherever that came from
        environment["PYTHONPATH"] = os.pathsep.join([root, *paths])
    environment.update(extra or {})
    return environment


def kernels_folder(cache: Path) -> Path:
    """Return where compiled kernels are kept: a folder for each state of their sources.

    Numba compiles again when the file changes that a kernel is in, but not when one does that it takes loops from.
    """
    digest = hashlib.sha256()
    for files in _KERNELS:
        for file in sorted(Path(foreword.__file__).parent.glob(files)):
            digest.update(file.read_bytes())
    return cache / "kernels" / digest.hexdigest()[:12]


def given_variables(names: Collection[str]) -> dict[str, str]:
    """Return those of the variables that are set; case does not matter, `names` are in capitals."""
    return {name.upper(): value for name, value in os.environ.items() if name.upper() in names}


def unknown_variables(prefix: str, known: Collection[str]) -> list[str]:
    """Return the variables that begin as those of a command's settings do and are none of the `known` ones."""
    return sorted(name for name in os.environ if name.upper().startswith(prefix) and name.upper() not in known)


def use_direct_poller() -> None:
    """Have gRPC poll for input in the thread that waits for its completions; call this before gRPC is imported.

    Its event engine hands every message through further threads: a message there and back between two processes took
    0.48 ms instead of 0.30, and a third more CPU time (docs/decisions/0005-grpc-poller.md). What GRPC_EXPERIMENTS says
    already is kept.
    """
    os.environ.setdefault("GRPC_EXPERIMENTS", _DIRECT_POLLER)


def use_own_kernels() -> None:
    """Have models that this process runs itself compute as those of engines do; call this before torch is imported.

    Compiled kernels are kept in the folder of their sources' state: beside their source they would outlive a change of
    the loops that they take in from other files. Waiting threads sleep.
    """
    cache: Path | None = None
    with suppress(InvalidField):  # without a home they are compiled anew
        cache = cache_folder()
    _prepare(os.environ, cache)


def _prepare(environment: MutableMapping[str, str], cache: Path | None) -> None:
    """Let threads sleep while they wait, and keep compiled kernels in a cache, if there is one; what is set stays."""
    environment.setdefault("OMP_WAIT_POLICY", "passive")
    if cache is not None:
        environment.setdefault("NUMBA_CACHE_DIR", str(kernels_folder(cache)))


def cache_folder(given: Path | None = None) -> Path:
    """Return where fetched models are kept: the given folder, FOREWORD_CACHE, or the user's cache folder.

    Raises InvalidField for a user without one.
    """
    if given is not None:
        return given
    if chosen := os.environ.get("FOREWORD_CACHE"):
        return Path(chosen)
    if users := os.environ.get("XDG_CACHE_HOME"):
        return Path(users) / "foreword"
    try:
        return Path.home() / ".cache" / "foreword"
    except RuntimeError:
        wanted = "a folder, because this user has no home folder (flag --cache or FOREWORD_CACHE)"
        raise InvalidField("cache", None, wanted) from None
