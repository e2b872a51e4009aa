"""Codec of what drafts and targets exchange: blocks with their laws, receipts, verdict notices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate, chain

from foreword.errors import ForewordError, InvalidField, NotFound, ProtocolFault
from foreword.protocol.messages import Block, BlockLaw, OneHot, Receipt, SparseCounts, VerdictNotice
from foreword.protocol.words import ReceiptCode
from foreword.v1 import target_pb2
from foreword.wire.common import DRAFTERS, read_count, read_enum, read_text, shorten
from foreword.wire.events import read_parents
from foreword.wire.handles import HandleDecoder, HandleEncoder
from foreword.wire.limits import Limits
from foreword.wire.packing import pack_counts, pack_ids, pack_u16, unpack_counts, unpack_ids, unpack_u16

_RECEIPTS: Mapping[int, ReceiptCode] = {int(code): code for code in ReceiptCode}
_U16_IDS = 1 << 16
MOST_TOTAL_BITS = 16
"""Counts are sent minus one in 16 bits, so that the sum of a law is at most 2**16."""


@dataclass(frozen=True, slots=True)
class BadBlock:
    """A block that could not be read; sent back, it becomes its receipt: bad, or unknown without a known ticket."""

    handle: int
    ticket: bytes | None
    round: int
    digest: int
    error: ForewordError


@dataclass(frozen=True, slots=True)
class BlockBody:
    """A block as bytes of its message, without its ticket, which every stream names in its own way."""

    ticket: bytes
    data: bytes


def encode_body(value: Block) -> BlockBody:
    """Return a block's body; raises InvalidField for a value that does not fit its field."""
    try:
        return BlockBody(value.ticket, _body(value).SerializeToString())
    except ValueError as error:  # protobuf's word for a number that does not fit its field
        raise InvalidField("message", str(error), "numbers that fit their fields") from error


def encode_block(value: Block | BlockBody, handles: HandleEncoder) -> bytes:
    """Return a block's message as bytes; the first one of a ticket names it. Raises InvalidField."""
    body = encode_body(value) if isinstance(value, Block) else value
    handle, first = handles.name(body.ticket)  # last, so that a block that cannot be sent names nothing
    named = target_pb2.Block(handle=handle, ticket=body.ticket if first else None)
    return named.SerializeToString() + body.data  # fields of a message may come in any order


def _body(value: Block) -> target_pb2.Block:
    wide = _is_wide(value)
    m = target_pb2.Block(
        round=value.round,
        base=value.base,
        digest=value.digest,
        wide_ids=wide,
        ids=pack_ids("block.ids", value.ids, wide=wide),
        drafter=int(value.drafter),  # type: ignore[arg-type]
        draft_queue_us=value.draft_queue_us,
        draft_compute_us=value.draft_compute_us,
    )
    if value.parents is not None:
        m.parents = pack_u16("block.parents", value.parents)
    if isinstance(value.law, OneHot):
        m.law.one_hot.SetInParent()
    elif value.law is not None:
        _fill_counts(m.law.counts, value.law, wide=wide)
    return m


def read_block(
    m: target_pb2.Block, handles: HandleDecoder, limits: Limits, *, known: Callable[[bytes], bool]
) -> Block | BadBlock:
    """Return the block in `m`, or what is wrong with it beside its ticket; raises nothing."""
    ticket: bytes | None = None
    try:
        named = handles.resolve(m.handle, m.ticket if m.HasField("ticket") else None)
        if not known(named):  # before the law, which is most of the work
            raise NotFound("block.ticket: got one that no session has, wanted that of an open session")
        ticket = named
        ids = unpack_ids("block.ids", m.ids, most=limits.gamma, vocabulary=limits.vocabulary, wide=m.wide_ids)
        return Block(
            ticket=ticket,
            round=m.round,
            base=read_count("block.base", m.base, most=limits.tokens),
            digest=m.digest,
            ids=ids,
            drafter=read_enum("block.drafter", DRAFTERS, m.drafter),
            law=_read_law(m, ids, limits) if m.HasField("law") else None,
            parents=read_parents("block.parents", m.parents, len(ids)) if m.HasField("parents") else None,
            draft_queue_us=read_count("block.draft_queue_us", m.draft_queue_us, most=limits.wait_us),
            draft_compute_us=read_count("block.draft_compute_us", m.draft_compute_us, most=limits.wait_us),
        )
    except ForewordError as error:
        return BadBlock(m.handle, ticket, m.round, m.digest, error)


def receipt_message(value: Receipt | BadBlock, handles: HandleDecoder, limits: Limits) -> target_pb2.Receipt:
    """Return `value` as a message; raises ProtocolFault for a ticket that this stream never named."""
    if isinstance(value, BadBlock):
        handle, message = value.handle, value.error.message
        code = ReceiptCode.UNKNOWN if value.ticket is None else ReceiptCode.BAD
    else:
        handle, message, code = handles.handle(value.ticket), value.message, value.code
    return target_pb2.Receipt(
        handle=handle,
        round=value.round,
        digest=value.digest,
        code=int(code),  # type: ignore[arg-type]
        message=shorten(message, limits.text),
    )


def read_receipt(
    m: target_pb2.Receipt, handles: HandleEncoder, limits: Limits
) -> tuple[bytes | None, Receipt | ForewordError]:
    """Return the receipt in `m` or what is wrong with it, beside its ticket; raises nothing."""
    ticket = handles.ticket(m.handle)
    if ticket is None:
        return None, ProtocolFault(f"receipt.handle: got {m.handle}, wanted one that this stream has named")
    try:
        code = read_enum("receipt.code", _RECEIPTS, m.code)
        message = read_text("receipt.message", m.message, limits.text)
        return ticket, Receipt(ticket, m.round, m.digest, code=code, message=message)
    except ForewordError as error:
        return ticket, error


def verdict_message(value: VerdictNotice, handles: HandleDecoder) -> target_pb2.VerdictNotice:
    """Return `value` as a message; raises ProtocolFault for a ticket that this stream never named."""
    return target_pb2.VerdictNotice(
        handle=handles.handle(value.ticket),
        round=value.round,
        digest=value.digest,
        verdict=target_pb2.Verdict(kept=value.kept, emitted=value.emitted),
    )


def read_verdict(
    m: target_pb2.VerdictNotice, handles: HandleEncoder, limits: Limits
) -> tuple[bytes | None, VerdictNotice | ForewordError]:
    """Return the verdict notice in `m` or what is wrong with it, beside its ticket; raises nothing."""
    ticket = handles.ticket(m.handle)
    if ticket is None:
        return None, ProtocolFault(f"verdict.handle: got {m.handle}, wanted one that this stream has named")
    try:
        kept = read_count("verdict.kept", m.verdict.kept, most=limits.gamma)
        emitted = read_count("verdict.emitted", m.verdict.emitted, most=limits.vocabulary - 1)
        return ticket, VerdictNotice(ticket, m.round, m.digest, kept=kept, emitted=emitted)
    except ForewordError as error:
        return ticket, error


def _is_wide(value: Block) -> bool:
    if value.ids and max(value.ids) >= _U16_IDS:
        return True
    return isinstance(value.law, tuple) and any(law.ids and max(law.ids) >= _U16_IDS for law in value.law)


def _fill_counts(m: target_pb2.CountsLaw, laws: tuple[SparseCounts, ...], *, wide: bool) -> None:
    bits = {law.total_bits for law in laws}
    if len(bits) > 1:
        raise InvalidField("block.law.total_bits", sorted(bits), "one value for all candidates")
    m.total_bits = bits.pop() if bits else 1
    m.sizes = pack_u16("block.law.sizes", [len(law.ids) for law in laws])
    m.ids = pack_ids("block.law.ids", list(chain.from_iterable(law.ids for law in laws)), wide=wide)
    m.counts = pack_counts("block.law.counts", list(chain.from_iterable(law.counts for law in laws)))


def _read_law(m: target_pb2.Block, ids: tuple[int, ...], limits: Limits) -> BlockLaw:
    which = m.law.WhichOneof("law")
    if which == "one_hot":
        return OneHot()
    if which != "counts":
        raise ProtocolFault("block.law: got none that is known, wanted one of counts, one_hot")
    counts_law = m.law.counts
    bits = read_count("block.law.total_bits", counts_law.total_bits, least=1, most=MOST_TOTAL_BITS)
    sizes = unpack_u16("block.law.sizes", counts_law.sizes, most=len(ids))
    if len(sizes) != len(ids):
        raise InvalidField("block.law.sizes", len(sizes), f"{len(ids)} values, one for each candidate")
    if sizes and not 1 <= min(sizes) <= max(sizes) <= limits.support:
        raise InvalidField("block.law.sizes", (min(sizes), max(sizes)), f"supports of 1 to {limits.support} ids")
    total = sum(sizes)
    support = unpack_ids("block.law.ids", counts_law.ids, most=total, vocabulary=limits.vocabulary, wide=m.wide_ids)
    counts = unpack_counts("block.law.counts", counts_law.counts, most=total)
    if not len(support) == len(counts) == total:
        raise InvalidField("block.law.counts", len(counts), f"{total} counts and as many ids, the sum of sizes")
    ends = list(accumulate(sizes))
    return tuple(
        [
            _sparse(support[end - size : end], counts[end - size : end], bits=bits, candidate=candidate)
            for size, end, candidate in zip(sizes, ends, ids, strict=True)
        ]
    )


def _sparse(ids: tuple[int, ...], counts: list[int], *, bits: int, candidate: int) -> SparseCounts:
    """Build one law; raises InvalidField unless it is a law that the candidate can come from."""
    total = sum(counts)
    if total != 1 << bits:
        raise InvalidField("block.law.counts", total, f"counts whose sum is {1 << bits}")
    distinct = set(ids)
    if len(distinct) != len(ids):
        raise InvalidField("block.law.ids", len(ids) - len(distinct), "no id twice in one law")
    if candidate not in distinct:
        raise InvalidField("block.ids", candidate, "a candidate from the support of its law")
    return SparseCounts(ids, tuple(counts), bits)
