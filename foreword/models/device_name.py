"""What a device may be called; without torch, which knows what there is."""

from __future__ import annotations

import re

from foreword.errors import InvalidField

DEVICES = "auto, cpu, cuda or cuda:N"
"""Names of devices, for messages."""
_NAME = re.compile(r"auto|cpu|cuda(:\d+)?")


def check_device_name(name: str) -> None:
    """Raise InvalidField for what names a device on no machine."""
    if not _NAME.fullmatch(name):
        raise InvalidField("device", name, DEVICES)
