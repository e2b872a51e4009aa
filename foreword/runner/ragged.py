"""Ragged runner: a transformers causal LM whose forward pass packs the rows of all slots in one sequence [1, N]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.modeling_utils import AttentionInterface

from foreword.errors import EngineFailure, ForewordError, InvalidField
from foreword.protocol.messages import Tokens
from foreword.runner.checks import check_batch, check_truncation, taken_slot, unknown_slot
from foreword.runner.kv_buffers import KeyValueBuffers
from foreword.runner.packed_linear import pack_linears
from foreword.runner.port import Logits, Memory, Rows
from foreword.runner.ragged_attention import NAME, Span, StepPlan, ragged_attention
from foreword.runner.supported import check_config, check_probe, probe_logits

_MOST_TOKENS = 1 << 40
"""Buffers grow as they are needed: their only bound is the memory."""


@dataclass(slots=True)
class _Slot:
    buffers: KeyValueBuffers
    length: int = 0


@dataclass(frozen=True, slots=True)
class _Part:
    """Tokens of one entry of the batch in one pass; the last `need` of them want logits."""

    index: int
    tokens: tuple[int, ...]
    need: int


class RaggedRunner:
    """A `Runner` on a causal LM of transformers, on whatever device and in whatever dtype the module is.

    The module belongs to the runner from then on: its attention function is replaced, and its linear layers on a CPU.
    A model whose attention this runner does not compute is refused with the reason: by its config where that says so,
    else by comparing a few tokens with the module's own forward pass. Logits beyond `vocabulary_size` (padding rows of
    the embedding) are cut off.
    """

    def __init__(
        self, module: PreTrainedModel, *, vocabulary_size: int, longest_context: int, chunk: int = 512
    ) -> None:
        """Take over `module`; `chunk` bounds the rows of one pass, so that a long prompt does not need more memory."""
        if chunk < 1:
            raise InvalidField("chunk", chunk, "a whole number from 1")
        check_config(module)
        self._module = module
        self._vocabulary_size = vocabulary_size
        self._longest_context = longest_context
        self._chunk = chunk
        self._layers = int(module.config.get_text_config().num_hidden_layers)
        self._slots: dict[int, _Slot] = {}
        wanted = probe_logits(module, vocabulary_size)
        AttentionInterface.register(NAME, ragged_attention)
        module.set_attn_implementation(NAME)
        with torch.inference_mode():
            pack_linears(module)
        check_probe(self, wanted, module.config.model_type, module.dtype)

    @property
    def vocabulary_size(self) -> int:
        """V: columns of the logits."""
        return self._vocabulary_size

    @property
    def longest_context(self) -> int:
        """Most tokens that a slot can hold."""
        return self._longest_context

    @property
    def resident_tokens(self) -> int:
        """Tokens cached over all slots."""
        return sum(slot.length for slot in self._slots.values())

    @property
    def memory(self) -> Memory:
        """The cache in pages of one token, as many as one likes."""
        return Memory(1, _MOST_TOKENS, _MOST_TOKENS - self.resident_tokens)

    def open(self, slot: int, *, salt: bytes = b"") -> None:
        """Start an empty slot; nothing is shared, whatever the salt."""
        if slot in self._slots:
            raise taken_slot(slot)
        self._slots[slot] = _Slot(KeyValueBuffers(self._layers))

    def close(self, slot: int) -> None:
        """Free a slot."""
        self._known(slot)
        del self._slots[slot]

    def length(self, slot: int) -> int:
        """Return how many tokens the slot holds."""
        return self._known(slot).length

    def truncate(self, slot: int, length: int) -> None:
        """Forget the tokens from position `length` on."""
        held = self._known(slot)
        check_truncation(length, held.length)
        held.length = length

    def adopt(self, slot: int, tokens: Tokens) -> int:
        """Return 0: nothing is shared."""
        if held := self._known(slot).length:
            raise InvalidField("slot", slot, f"an empty slot, this one holds {held} tokens")
        return 0

    def commit(self, slot: int, tokens: Tokens) -> None:
        """Do nothing: nothing is shared."""
        self._known(slot)

    def pages_wanted(self, slot: int, length: int) -> int:
        """Return how many tokens the slot lacks."""
        return max(0, length - self._known(slot).length)

    def forward(self, batch: Sequence[Rows]) -> list[Logits]:
        """Append all rows, in one pass where they are no more than `chunk`; return logits in the order of the batch."""
        check_batch(batch, self.length, vocabulary_size=self._vocabulary_size, longest_context=self._longest_context)
        slots = [self._slots[rows.slot] for rows in batch]
        lengths = [slot.length for slot in slots]
        pieces: list[list[Logits]] = [[] for _ in batch]
        try:
            for parts in _passes(batch, self._chunk):
                for part, logits in zip(parts, self._pass(parts, slots), strict=True):
                    pieces[part.index].append(logits)
        except Exception as error:
            for slot, length in zip(slots, lengths, strict=True):
                slot.length = length
            if isinstance(error, ForewordError):
                raise
            raise EngineFailure(f"forward pass of {sum(len(r.tokens) for r in batch)} rows: {error}") from error
        return [piece[0] if len(piece) == 1 else np.concatenate(piece) for piece in pieces]

    @torch.inference_mode()
    def _pass(self, parts: Sequence[_Part], slots: Sequence[_Slot]) -> list[Logits]:
        spans: list[Span] = []
        tokens: list[int] = []
        positions: list[int] = []
        wanted: list[int] = []
        for part in parts:
            slot, first = slots[part.index], len(tokens)
            tokens += part.tokens
            last, end = len(tokens), slot.length + len(part.tokens)
            slot.buffers.reserve(end)
            positions += range(slot.length, end)
            wanted += range(last - part.need, last)
            spans.append(Span(slot.buffers, first=first, last=last, start=slot.length))
        logits = self._run(torch.tensor([tokens, positions]), torch.tensor(wanted, dtype=torch.long), StepPlan(spans))
        for part in parts:
            slots[part.index].length += len(part.tokens)
        ends = np.cumsum([part.need for part in parts])
        return [logits[end - part.need : end] for end, part in zip(ends, parts, strict=True)]

    def _run(self, rows: torch.Tensor, wanted: torch.Tensor, plan: StepPlan) -> Logits:
        """Run `rows` [2, N] of ids and positions; return logits [K, V] of the K rows in `wanted`."""
        device = self._module.device
        rows = rows.to(device)
        output = self._module(
            input_ids=rows[:1],
            position_ids=rows[1:],
            use_cache=False,
            logits_to_keep=wanted.to(device),
            foreword_plan=plan,
        )
        logits: Logits = output.logits[0, :, : self._vocabulary_size].float().cpu().numpy()
        return logits

    def _known(self, slot: int) -> _Slot:
        held = self._slots.get(slot)
        if held is None:
            raise unknown_slot(slot)
        return held


def _passes(batch: Sequence[Rows], chunk: int) -> Iterator[list[_Part]]:
    """Cut a batch into passes of at most `chunk` rows; what is cut goes on in the next pass."""
    parts: list[_Part] = []
    room = chunk
    for index, rows in enumerate(batch):
        done, count = 0, len(rows.tokens)
        while done < count:
            end = min(count, done + room)
            need = max(0, end - max(done, count - rows.need))
            parts.append(_Part(index, rows.tokens[done:end], need))
            room -= end - done
            done = end
            if room == 0:
                yield parts
                parts, room = [], chunk
    if parts:
        yield parts
