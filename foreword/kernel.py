"""Functions that are compiled for the CPU, each by options of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(
    *,
    fastmath: bool | set[str] = False,
    error_model: Literal["python", "numpy"] = "python",
    cache: bool = False,
    nogil: bool = False,
    parallel: bool = False,
    inline: Literal["never", "always"] = "never",
) -> Callable[[Function], Function]:
    """Return Numba's decorator with nothing left open.

    A function that leaves the first two open is compiled with those of whatever calls it first, and kept on disk so:
    its last bits would depend on which process came first.
    """
    made = njit(fastmath=fastmath, error_model=error_model, cache=cache, nogil=nogil, parallel=parallel, inline=inline)
    return cast("Callable[[Function], Function]", made)
