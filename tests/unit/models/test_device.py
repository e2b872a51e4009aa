"""Names of devices."""

from __future__ import annotations

import pytest
import torch

from foreword.errors import InvalidField
from foreword.models.device import find_device


def test_auto_takes_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == find_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert find_device("auto") == torch.device("cuda")


@pytest.mark.parametrize(("name", "wanted"), [("gpu", "auto, cpu, cuda or cuda:N"), ("cuda:7", "finds 2 GPUs")])
def test_what_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, name: str, wanted: str) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert find_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(InvalidField, match=f"device: got '{name}', wanted .*{wanted}"):
        find_device(name)
