"""The monotonic clock for compiled code, so that a pass can say where its time went."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from foreword.kernel import kernel

_MONOTONIC = 1
"""CLOCK_MONOTONIC of Linux."""
_I64, _I32 = ir.IntType(64), ir.IntType(32)


@intrinsic
def _now_ns(context: Any) -> Any:

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_I32, [_I32, _I64.as_pointer()])
        function = cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")  # type: ignore[no-untyped-call]
        place = cgutils.alloca_once(builder, _I64, size=2)  # type: ignore[no-untyped-call]
        builder.call(function, [_I32(_MONOTONIC), place])
        seconds, rest = builder.load(place), builder.load(builder.gep(place, [_I32(1)]))
        return builder.add(builder.mul(seconds, _I64(10**9)), rest)

    return types.int64(), generate


@kernel(nogil=True)
def now_ns() -> int:
    """Return the time in ns, by libc's clock_gettime."""
    now: int = _now_ns()  # type: ignore[call-arg]  # compiled code leaves the context out
    return now
