"""Number formats that weights are loaded in."""

from __future__ import annotations

from enum import Enum


class Dtype(Enum):
    """Names as torch has them."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    INT8 = "int8"
    """Weights of matrix products in 8 bits, arithmetic in float32; for drafts, whose rounding changes no text."""

    @property
    def exact(self) -> bool:
        """Whether weights are what the model's files say, to the format's precision: what a target needs."""
        return self is not Dtype.INT8

    @property
    def loaded(self) -> str:
        """What torch calls the format that weights are loaded in."""
        return Dtype.FLOAT32.value if self is Dtype.INT8 else self.value
