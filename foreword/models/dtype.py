"""Number formats that weights are loaded in."""

from __future__ import annotations

from enum import Enum


class Dtype(Enum):
    """Names as torch has them."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
