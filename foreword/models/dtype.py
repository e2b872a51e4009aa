"""Number formats that weights are loaded in."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from foreword.errors import InvalidField


class Dtype(Enum):
    """Names as torch has them."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    INT8 = "int8"
    """Weights of matrix products in 8 bits, arithmetic in float32; for drafts, whose rounding changes no text."""
    INT4 = "int4"
    """The same with 4 bits, and 8 for the head; for drafts that were trained for their target."""

    @property
    def exact(self) -> bool:
        """Whether weights are what the model's files say, to the format's precision: what a target needs."""
        return self.bits is None

    @property
    def bits(self) -> Literal[8, 4] | None:
        """What weights are rounded to, if they are."""
        if self is Dtype.INT8:
            return 8
        return 4 if self is Dtype.INT4 else None

    @property
    def loaded(self) -> str:
        """What torch calls the format that weights are loaded in."""
        return self.value if self.exact else Dtype.FLOAT32.value


EXACT = f"one of {', '.join(dtype.value for dtype in Dtype if dtype.exact)}"
"""What a target's setting is wanted to be."""


def exact_dtype(text: str, *, field: str = "dtype") -> Dtype:
    """Return the format of a target; raises InvalidField for what is none, and for one that rounds weights."""
    for dtype in Dtype:
        if dtype.value == text:
            return check_exact(dtype, field=field)
    raise InvalidField(field, text, EXACT)


def check_exact(dtype: Dtype, *, field: str = "dtype") -> Dtype:
    """Return the format of a target; raises InvalidField for one that rounds weights."""
    if not dtype.exact:
        raise InvalidField(field, dtype.value, f"{EXACT}: with rounded weights a target is another model")
    return dtype
