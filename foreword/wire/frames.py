"""Frames: one codec for each end of each long-lived stream.

A message is encoded when it is queued, to the bytes of one entry of its frame; a frame is those bytes joined, behind
the stream's header and liveness, whose field numbers are the same in all frames. So a message that cannot be encoded
fails where it is sent, byte budgets are exact, and building a frame copies bytes once. A codec belongs to one stream:
it holds the stream's handles and incomplete prompts. Receipts and verdict notices are two fields of their frame, so
that order between the two kinds is not kept within one frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from google.protobuf.message import Message

from foreword.errors import ForewordError, InvalidField
from foreword.protocol.info import Hello, Liveness
from foreword.protocol.messages import (
    Block,
    DraftCommand,
    DraftEvent,
    DraftOpen,
    Receipt,
    TargetCommand,
    TargetEvent,
    TargetOpen,
    VerdictNotice,
)
from foreword.v1 import draft_pb2, target_pb2
from foreword.wire import blocks, draft, events, target
from foreword.wire.bounds import check_entries
from foreword.wire.common import Attributed, hello_message, liveness_message, parsed, read_hello, read_liveness
from foreword.wire.handles import HandleDecoder, HandleEncoder
from foreword.wire.limits import Limits
from foreword.wire.prompts import Reassembler

Out = TypeVar("Out")
In = TypeVar("In")
Out_contra = TypeVar("Out_contra", contravariant=True)
In_co = TypeVar("In_co", covariant=True)

HELLO_FIELD, LIVENESS_FIELD, ENTRY_FIELD, VERDICT_FIELD = 1, 2, 3, 4
"""Field numbers that all frames share."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Entries of one message, in order; more than one only for a long prompt. `sid` is None for blocks and receipts."""

    sid: int | None
    entries: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Frame(Generic[In_co]):
    """A decoded frame: its header if it is the stream's first, liveness if it is due, and its messages in order."""

    hello: Hello | None
    liveness: Liveness | None
    entries: Sequence[In_co]


class FrameCodec(Protocol[Out_contra, In_co]):
    """Turns messages of one end of one stream into frames and frames into messages."""

    def encode(self, message: Out_contra) -> Encoded:
        """Return the entries of `message`; raises InvalidField for a value that does not fit its field."""

    def decode(self, data: bytes) -> Frame[In_co]:
        """Return the frame in `data`.

        What is wrong with one entry comes out in its place. Raises ProtocolFault or InvalidField when the frame as a
        whole cannot be read, which is the end of the stream.
        """


class TargetAttachClient(FrameCodec[TargetCommand, Attributed[TargetEvent]]):
    """The orchestrator's end of TargetService.Attach."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def encode(self, message: TargetCommand) -> Encoded:
        return Encoded(message.sid, _entries(target.command_messages, message, self._limits))

    def decode(self, data: bytes) -> Frame[Attributed[TargetEvent]]:
        m = _parse(target_pb2.TargetServiceAttachResponse, data, self._limits)
        return _frame(m, [events.read_event(entry, self._limits) for entry in m.events], self._limits)


class TargetAttachServer(FrameCodec[TargetEvent, Attributed[TargetCommand]]):
    """The target's end of TargetService.Attach; gives out Opens once, when their tokens are complete."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._prompts: Reassembler[TargetOpen] = Reassembler(limits)

    def encode(self, message: TargetEvent) -> Encoded:
        return Encoded(getattr(message, "sid", None), _entry(events.event_message, message, self._limits))

    def decode(self, data: bytes) -> Frame[Attributed[TargetCommand]]:
        m = _parse(target_pb2.TargetServiceAttachRequest, data, self._limits)
        read = (target.read_command(entry, self._limits) for entry in m.commands)
        return _frame(m, _joined(self._prompts, read), self._limits)


class DraftAttachClient(FrameCodec[DraftCommand, Attributed[DraftEvent]]):
    """The orchestrator's end of DraftService.Attach."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits.of_drafts()

    def encode(self, message: DraftCommand) -> Encoded:
        return Encoded(message.sid, _entries(draft.command_messages, message, self._limits))

    def decode(self, data: bytes) -> Frame[Attributed[DraftEvent]]:
        m = _parse(draft_pb2.DraftServiceAttachResponse, data, self._limits)
        return _frame(m, [draft.read_event(entry, self._limits) for entry in m.events], self._limits)


class DraftAttachServer(FrameCodec[DraftEvent, Attributed[DraftCommand]]):
    """The draft's end of DraftService.Attach; gives out Opens once, when their tokens are complete."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._prompts: Reassembler[DraftOpen] = Reassembler(limits)

    def encode(self, message: DraftEvent) -> Encoded:
        return Encoded(getattr(message, "sid", None), _entry(draft.event_message, message, self._limits))

    def decode(self, data: bytes) -> Frame[Attributed[DraftCommand]]:
        m = _parse(draft_pb2.DraftServiceAttachRequest, data, self._limits)
        read = (draft.read_command(entry, self._limits) for entry in m.commands)
        return _frame(m, _joined(self._prompts, read), self._limits)


class PushBlocksClient(
    FrameCodec["Block | blocks.BlockBody", "tuple[bytes | None, Receipt | VerdictNotice | ForewordError]"]
):
    """The draft's end of TargetService.PushBlocks."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._handles = HandleEncoder(limits.handles)

    def encode(self, message: Block | blocks.BlockBody) -> Encoded:
        return Encoded(None, (wrap(ENTRY_FIELD, blocks.encode_block(message, self._handles)),))

    def decode(self, data: bytes) -> Frame[tuple[bytes | None, Receipt | VerdictNotice | ForewordError]]:
        m = _parse(target_pb2.TargetServicePushBlocksResponse, data, self._limits)
        receipts = [blocks.read_receipt(entry, self._handles, self._limits) for entry in m.receipts]
        verdicts = [blocks.read_verdict(entry, self._handles, self._limits) for entry in m.verdicts]
        return _frame(m, [*receipts, *verdicts], self._limits)


class PushBlocksServer(FrameCodec["Receipt | VerdictNotice | blocks.BadBlock", "Block | blocks.BadBlock"]):
    """The target's end of TargetService.PushBlocks; a BadBlock that is sent back becomes its receipt.

    `known` says whether a session has a ticket: of a block whose ticket no session has, nothing more is read.
    """

    def __init__(self, limits: Limits, *, known: Callable[[bytes], bool] = lambda _: True) -> None:
        self._limits = limits.of_drafts()
        self._known = known
        self._handles = HandleDecoder(limits.handles)

    def encode(self, message: Receipt | VerdictNotice | blocks.BadBlock) -> Encoded:
        if isinstance(message, VerdictNotice):
            return Encoded(None, _entry(blocks.verdict_message, message, self._handles, field=VERDICT_FIELD))
        return Encoded(None, _entry(blocks.receipt_message, message, self._handles, self._limits))

    def decode(self, data: bytes) -> Frame[Block | blocks.BadBlock]:
        m = _parse(target_pb2.TargetServicePushBlocksRequest, data, self._limits)
        read = [blocks.read_block(entry, self._handles, self._limits, known=self._known) for entry in m.blocks]
        return _frame(m, read, self._limits)


def build_frame(entries: Iterable[bytes], *, hello: Hello | None = None, liveness: Liveness | None = None) -> bytes:
    """Return the bytes of a frame with these entries in this order."""
    head: list[bytes] = []
    if hello is not None:
        head.append(wrap(HELLO_FIELD, hello_message(hello).SerializeToString()))
    if liveness is not None:
        head.append(wrap(LIVENESS_FIELD, liveness_message(liveness).SerializeToString()))
    return b"".join([*head, *entries])


def wrap(field: int, payload: bytes) -> bytes:
    """Return `payload` as the length-delimited protobuf field with this number, which is under 16."""
    length = len(payload)
    if length < 0x80:
        return bytes((field << 3 | 2, length)) + payload
    head = bytearray((field << 3 | 2,))
    while length >= 0x80:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + payload


def _entries(messages: Callable[[Out, Limits], Sequence[Message]], value: Out, limits: Limits) -> tuple[bytes, ...]:
    try:
        return tuple([wrap(ENTRY_FIELD, m.SerializeToString()) for m in messages(value, limits)])
    except ValueError as error:  # protobuf's word for a number that does not fit its field
        raise InvalidField("message", str(error), "numbers that fit their fields") from error


def _entry(message: Callable[..., Message], *arguments: object, field: int = ENTRY_FIELD) -> tuple[bytes]:
    try:
        return (wrap(field, message(*arguments).SerializeToString()),)
    except ValueError as error:
        raise InvalidField("message", str(error), "numbers that fit their fields") from error


def _parse(kind: Any, data: bytes, limits: Limits) -> Any:
    if len(data) > limits.frame_bytes:
        raise InvalidField("frame", f"{len(data)} bytes", f"at most {limits.frame_bytes} bytes")
    check_entries(data, limits.entries)
    return parsed("frame", kind, data)


def _joined(prompts: Reassembler[Any], read: Iterable[tuple[int | None, object]]) -> list[Any]:
    return [complete for sid, value in read for complete in prompts.take(sid, value)]


def _frame(m: Any, entries: Sequence[In], limits: Limits) -> Frame[In]:
    return Frame(
        hello=read_hello(m.hello, limits) if m.HasField("hello") else None,
        liveness=read_liveness(m.liveness) if m.HasField("liveness") else None,
        entries=entries,
    )
