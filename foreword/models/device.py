"""Where a model runs."""

from __future__ import annotations

import torch

from foreword.errors import InvalidField
from foreword.models.device_name import check_device_name


def find_device(name: str) -> torch.device:
    """Return the device of this name, for "auto" the first GPU or else the CPU; raises InvalidField without it."""
    check_device_name(name)
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cpu":
        return torch.device("cpu")
    device, count = torch.device(name), torch.cuda.device_count()
    if (device.index or 0) >= count:
        raise InvalidField("device", name, f"a device of this machine, where torch finds {count} GPUs")
    return device
