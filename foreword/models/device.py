"""Where a model runs."""

from __future__ import annotations

import re

import torch

from foreword.errors import InvalidField

_CUDA = re.compile(r"cuda(:\d+)?")


def find_device(name: str) -> torch.device:
    """Return the device of this name, for "auto" the first GPU or else the CPU; raises InvalidField without it."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cpu":
        return torch.device("cpu")
    if not _CUDA.fullmatch(name):
        raise InvalidField("device", name, "auto, cpu, cuda or cuda:N")
    device, count = torch.device(name), torch.cuda.device_count()
    if (device.index or 0) >= count:
        raise InvalidField("device", name, f"a device of this machine, where torch finds {count} GPUs")
    return device
