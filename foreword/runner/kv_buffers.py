"""Keys and values of one slot in contiguous buffers that grow by a quarter when full.

Rollback costs nothing: the length is kept by the slot, and what lies behind it is overwritten.
"""

from __future__ import annotations

import torch

_STEP = 64
"""Positions that a buffer is a multiple of, and grows by at least."""


class KeyValueBuffers:
    """Per layer one buffer for keys and one for values, each [KV heads, capacity, head size]."""

    __slots__ = ("_keys", "_values", "_wanted")

    def __init__(self, layers: int) -> None:
        self._wanted = 0
        self._keys: list[torch.Tensor | None] = [None] * layers
        self._values: list[torch.Tensor | None] = [None] * layers

    def reserve(self, length: int) -> None:
        """Make room for `length` positions; each layer's buffers grow when that layer is next written."""
        if length > self._wanted:
            roomy = length + max(_STEP, length // 4)
            self._wanted = -(-roomy // _STEP) * _STEP

    def write(
        self, layer: int, start: int, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Put keys [KV heads, n, D] and values at positions start…; return views of positions 0 to start + n."""
        end = start + keys.shape[1]
        key_buffer = self._keys[layer] = self._grown(self._keys[layer], keys, start)
        value_buffer = self._values[layer] = self._grown(self._values[layer], values, start)
        key_buffer[:, start:end] = keys
        value_buffer[:, start:end] = values
        return key_buffer[:, :end], value_buffer[:, :end]

    def _grown(self, buffer: torch.Tensor | None, like: torch.Tensor, held: int) -> torch.Tensor:
        if buffer is not None and buffer.shape[1] >= self._wanted:
            return buffer
        grown = like.new_empty((like.shape[0], self._wanted, like.shape[2]))
        if buffer is not None:
            grown[:, :held] = buffer[:, :held]
        return grown
