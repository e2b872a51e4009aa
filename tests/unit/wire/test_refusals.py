"""What a decoder refuses: each by the name of its field, for its own session, with the others untouched."""

import math
import struct
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foreword.errors import ForewordError, InvalidField, ProtocolFault
from foreword.protocol.messages import Receipt
from foreword.protocol.words import ReceiptCode
from foreword.v1 import draft_pb2, target_pb2
from foreword.wire.blocks import BadBlock
from foreword.wire.frames import (
    DraftAttachClient,
    DraftAttachServer,
    PushBlocksClient,
    PushBlocksServer,
    TargetAttachClient,
    TargetAttachServer,
    build_frame,
)
from foreword.wire.info import decode_draft_info, decode_target_info
from foreword.wire.limits import Limits
from tests.unit.wire import specimens
from tests.unit.wire.strategies import LIMITS

V = LIMITS.vocabulary


def u32(*values):
    return struct.pack(f"<{len(values)}I", *values)


def f64(*values):
    return struct.pack(f"<{len(values)}d", *values)


def f32(*values):
    return struct.pack(f"<{len(values)}f", *values)


def u16(*values):
    return struct.pack(f"<{len(values)}H", *values)


def changed(kind, sender, message, change, field=3):
    """Encode a message, change its protobuf form, return the frame."""
    frame = kind.FromString(build_frame(sender.encode(message).entries))
    change(frame)
    return frame.SerializeToString()


COMMITS = {
    "commit.tokens": [
        lambda c: setattr(c, "tokens", b"12345"),
        lambda c: setattr(c, "tokens", u32(V)),
        lambda c: setattr(c, "base", 2),
    ],
    "commit.base": [lambda c: setattr(c, "base", LIMITS.tokens + 1)],
    "commit.rule": [lambda c: setattr(c, "rule", 0), lambda c: setattr(c, "rule", 77)],
    "commit.order": [lambda c: c.ClearField("block")],
    "commit.block.gamma": [lambda c: setattr(c.block, "gamma", 0), lambda c: setattr(c.block, "gamma", 7)],
    "commit.block.wait_us": [lambda c: setattr(c.block, "wait_us", 2**32 - 1)],
    "commit.block.ticket": [lambda c: setattr(c.block, "ticket", b"short"), lambda c: c.block.ClearField("ticket")],
    "commit.plain.limit": [lambda c: setattr(c.plain, "limit", 65), lambda c: c.plain.SetInParent()],
    "commit.local.drafter": [lambda c: setattr(c.local, "limit", 5)],
}
OPENS = {
    "open.token_count": [lambda o: setattr(o, "token_count", 65), lambda o: setattr(o, "token_count", 0)],
    "open.tokens": [lambda o: setattr(o, "tokens", u32(*range(9))), lambda o: setattr(o, "tokens", b"")],
    "open.prompt_len": [lambda o: setattr(o, "prompt_len", 21), lambda o: setattr(o, "prompt_len", 0)],
    "open.keys.coin": [lambda o: o.keys.ClearField("coin")],
    "open.max_output": [lambda o: setattr(o, "max_output", 65)],
    "open.top_logprobs": [lambda o: setattr(o, "top_logprobs", 5)],
    "open.cache_salt": [lambda o: setattr(o, "cache_salt", bytes(65))],
    "open.ticket": [lambda o: setattr(o, "ticket", b"")],
    "open.first.sid": [lambda o: setattr(o.first, "sid", 8)],
    "commit.rule": [lambda o: setattr(o.first, "rule", 9)],
    "temperature": [lambda o: setattr(o.law, "temperature", math.nan), lambda o: setattr(o.law, "temperature", -1)],
    "top_k": [lambda o: setattr(o.law, "top_k", 0)],
    "top_p": [lambda o: setattr(o.law, "top_p", 1.5)],
    "law.bias_values": [
        lambda o: setattr(o.law, "bias_values", f32(1.0)),
        lambda o: setattr(o.law, "bias_values", b"x"),
    ],
    "law.bias_ids": [
        lambda o: setattr(o.law, "bias_ids", u32(V, 1)),
        lambda o: setattr(o.law, "bias_ids", u32(*[1] * 7)),
    ],
    "law.stop_ids": [lambda o: setattr(o.law, "stop_ids", u32(V))],
    "grammar.kind": [lambda o: setattr(o.law.grammar, "kind", 0)],
    "grammar.source": [lambda o: setattr(o.law.grammar, "source", "x" * 41)],
    "trace.traceparent": [lambda o: setattr(o.trace, "traceparent", "x" * 81)],
}
RESULTS = {
    "result.kind": [lambda r: setattr(r, "kind", 0)],
    "result.ids": [lambda r: setattr(r, "kind", 2), lambda r: setattr(r, "ids", u32(V, 0))],
    "result.emit": [lambda r: setattr(r, "emit", u32(1, 2)), lambda r: setattr(r, "emit", u32(1, 2, V))],
    "result.acceptance": [
        lambda r: setattr(r, "acceptance", f64(0.5)),
        lambda r: setattr(r, "acceptance", f64(0.5, 1.0000001)),
        lambda r: setattr(r, "acceptance", f64(0.5, -0.1)),
        lambda r: setattr(r, "acceptance", f64(math.nan, 0.5)),
    ],
    "result.ratios": [
        lambda r: setattr(r, "ratios", f64(1.0, math.inf)),
        lambda r: setattr(r, "ratios", f64(-1.0, 1.0)),
    ],
    "result.parents": [lambda r: setattr(r, "parents", u16(0)), lambda r: setattr(r, "parents", u16(1, 0))],
    "result.drafter": [lambda r: setattr(r, "drafter", 99)],
    "result.emit_logprobs.chosen": [
        lambda r: setattr(r.emit_logprobs, "chosen", f32(-1.0)),
        lambda r: setattr(r.emit_logprobs, "chosen", f32(-1.0, math.nan, -1.0)),
        lambda r: setattr(r.emit_logprobs, "chosen", f32(-1.0, math.inf, -1.0)),
    ],
    "result.emit_logprobs.top_ids": [
        lambda r: setattr(r.emit_logprobs, "top_ids", u32(1)),
        lambda r: setattr(r.emit_logprobs, "top_ids", u32(1, 2, V)),
    ],
    "result.emit_logprobs.top_count": [lambda r: setattr(r.emit_logprobs, "top_count", 5)],
}
BLOCK_FAULTS = {
    "block.ids": [
        lambda b: setattr(b, "ids", u32(V, 0)),
        lambda b: setattr(b, "ids", u32(*[0] * 7)),
        lambda b: setattr(b, "ids", u32(0, 6)),  # off the support of its law
    ],
    "block.base": [lambda b: setattr(b, "base", 65)],
    "block.drafter": [lambda b: setattr(b, "drafter", 0)],
    "block.parents": [lambda b: setattr(b, "parents", u16(0, 2))],
    "block.law": [lambda b: b.law.ClearField("counts")],
    "block.law.total_bits": [
        lambda b: setattr(b.law.counts, "total_bits", 17),
        lambda b: setattr(b.law.counts, "total_bits", 0),
    ],
    "block.law.sizes": [
        lambda b: setattr(b.law.counts, "sizes", u16(6)),
        lambda b: setattr(b.law.counts, "sizes", u16(6, 0)),
        lambda b: setattr(b.law.counts, "sizes", u16(9, 1)),
    ],
    "block.law.ids": [
        lambda b: setattr(b.law.counts, "ids", u32(5, 0, V, 5, 0, 69_999)),
        lambda b: setattr(b.law.counts, "ids", u32(0, 0, 69_999, 5, 0, 69_999)),  # one id twice
    ],
    "block.law.counts": [
        lambda b: setattr(b.law.counts, "counts", u16(0, 65_533, 0, 0, 65_533)),
        lambda b: setattr(b.law.counts, "counts", u16(0, 65_533, 1, 0, 65_533, 0)),  # sum 2**16 + 1
    ],
    "block.draft_queue_us": [lambda b: setattr(b, "draft_queue_us", 2**63)],
}
ADVANCES = {
    "advance.stop_threshold": [
        lambda a: setattr(a, "stop_threshold", math.nan),
        lambda a: setattr(a, "stop_threshold", 1.01),
    ],
    "advance.lookup_threshold": [lambda a: setattr(a, "lookup_threshold", -0.1)],
    "advance.gamma": [lambda a: setattr(a, "gamma", 7)],
    "advance.tokens": [lambda a: setattr(a, "base", 1)],
    "advance.new_target.ticket": [lambda a: setattr(a.new_target, "ticket", b"1")],
    "advance.send_by_us": [lambda a: setattr(a, "send_by_us", 2**32 - 1)],
}


def each(table):
    return [pytest.param(field, change, id=f"{field}-{i}") for field, c in table.items() for i, change in enumerate(c)]


def check_named(error, field):
    assert isinstance(error, ForewordError)
    assert error.message.startswith(f"{field}: got ")
    assert "\n" not in error.message


def check_command(field, message, change):
    """The broken command fails alone, between two good ones of other sessions."""
    sender, other = TargetAttachClient(LIMITS), specimens.TARGET_COMMANDS[4]

    def damage(frame):
        change(getattr(frame.commands[0], frame.commands[0].WhichOneof("command")))

    broken = changed(target_pb2.TargetServiceAttachRequest, sender, message, damage)
    around = build_frame(sender.encode(other).entries)
    got = TargetAttachServer(LIMITS).decode(around + broken + around).entries
    assert [got[0], got[-1]] == [(7, other), (7, other)]
    assert got[1][0] == 7
    check_named(got[1][1], field)


@pytest.mark.parametrize(("field", "change"), each(COMMITS))
def test_commits(field, change):
    check_command(field, specimens.COMMIT, change)


@pytest.mark.parametrize(("field", "change"), each(OPENS))
def test_opens(field, change):
    check_command(field, specimens.TARGET_OPEN, change)


@pytest.mark.parametrize(("field", "change"), each(RESULTS))
def test_results(field, change):
    sender = TargetAttachServer(LIMITS)
    kind = target_pb2.TargetServiceAttachResponse
    broken = changed(kind, sender, specimens.RESULT, lambda frame: change(frame.events[0].result))
    ((sid, error),) = TargetAttachClient(LIMITS).decode(broken).entries
    assert sid == 7
    check_named(error, field)


@pytest.mark.parametrize(("field", "change"), each(BLOCK_FAULTS))
def test_blocks_and_their_bad_receipt(field, change):
    client, server = PushBlocksClient(LIMITS), PushBlocksServer(LIMITS)
    kind = target_pb2.TargetServicePushBlocksRequest
    broken = changed(kind, client, specimens.BLOCK, lambda frame: change(frame.blocks[0]))
    (bad,) = server.decode(broken).entries
    assert isinstance(bad, BadBlock)
    assert (bad.ticket, bad.round, bad.digest) == (specimens.TICKET, 9, specimens.DIGEST)
    check_named(bad.error, field)
    ((ticket, receipt),) = client.decode(build_frame(server.encode(bad).entries)).entries
    wanted = Receipt(specimens.TICKET, 9, specimens.DIGEST, ReceiptCode.BAD, bad.error.message[: LIMITS.text])
    assert ticket == specimens.TICKET
    assert receipt.code is wanted.code
    assert receipt.message[:40] == wanted.message[:40]


@pytest.mark.parametrize(("field", "change"), each(ADVANCES))
def test_advances(field, change):
    sender = DraftAttachClient(LIMITS)
    kind = draft_pb2.DraftServiceAttachRequest
    broken = changed(kind, sender, specimens.DRAFT_COMMANDS[1], lambda frame: change(frame.commands[0].advance))
    ((sid, error),) = DraftAttachServer(LIMITS).decode(broken).entries
    assert sid == 7
    check_named(error, field)


def test_messages_that_are_not_known_belong_to_no_session():
    empty = build_frame([b"\x1a\x00"])
    for codec in (
        TargetAttachServer(LIMITS),
        TargetAttachClient(LIMITS),
        DraftAttachServer(LIMITS),
        DraftAttachClient(LIMITS),
    ):
        ((sid, error),) = codec.decode(empty).entries
        assert sid is None
        assert isinstance(error, ProtocolFault)


def test_a_block_whose_handle_names_nothing_gets_an_unknown_receipt():
    client, server = PushBlocksClient(LIMITS), PushBlocksServer(LIMITS)
    client.encode(specimens.BLOCK)  # named here, but this frame never arrives
    (bad,) = server.decode(build_frame(client.encode(specimens.BLOCK).entries)).entries
    assert (bad.ticket, bad.handle) == (None, 1)
    ((_, receipt),) = client.decode(build_frame(server.encode(bad).entries)).entries
    assert receipt == Receipt(specimens.TICKET, 9, specimens.DIGEST, ReceiptCode.UNKNOWN, bad.error.message)


def test_a_frame_that_is_none_ends_the_stream():
    for codec in (TargetAttachServer(LIMITS), PushBlocksClient(LIMITS)):
        with pytest.raises(ProtocolFault, match="frame: got 3 bytes"):
            codec.decode(b"\x1a\xff\x01")


def test_a_frame_of_too_many_messages_ends_the_stream():
    with pytest.raises(InvalidField, match="frame: got 'over 2', wanted at most 2 messages"):
        TargetAttachServer(Limits(entries=2)).decode(b"\x1a\x00" * 3)


def test_an_answer_to_get_info_is_bounded_before_it_is_parsed():
    for decode in (decode_target_info, decode_draft_info):
        with pytest.raises(InvalidField, match="info: got 11, wanted at most 10 bytes"):
            decode(bytes(11), Limits(info_bytes=10))
        with pytest.raises(ProtocolFault, match="info: got 2 bytes that are no"):
            decode(b"\xff\xff", Limits())


def test_numbers_that_do_not_fit_fail_where_they_are_sent():
    with pytest.raises(InvalidField, match=r"commit\.tokens"):
        TargetAttachClient(LIMITS).encode(replace(specimens.COMMIT, tokens=(2**32,)))
    with pytest.raises(InvalidField, match="message"):
        TargetAttachClient(LIMITS).encode(replace(specimens.COMMIT, round=-1))
    mixed = (specimens.SPARSE, replace(specimens.SPARSE, total_bits=3))
    with pytest.raises(InvalidField, match=r"block\.law\.total_bits"):
        PushBlocksClient(LIMITS).encode(replace(specimens.BLOCK, law=mixed))


def test_a_block_that_cannot_be_sent_names_no_ticket():
    client, server = PushBlocksClient(LIMITS), PushBlocksServer(LIMITS)
    with pytest.raises(InvalidField):
        client.encode(replace(specimens.BLOCK, ids=(-1,)))
    assert server.decode(build_frame(client.encode(specimens.BLOCK).entries)).entries == [specimens.BLOCK]


def test_messages_for_people_are_cut_and_nothing_else_is():
    lost = replace(specimens.TARGET_EVENTS[4], message="x" * 500)
    entry = TargetAttachServer(LIMITS).encode(lost)
    ((_, got),) = TargetAttachClient(LIMITS).decode(build_frame(entry.entries)).entries
    assert got.message == "x" * (LIMITS.text - 1) + "…"


FUZZED = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
GOOD_FRAMES = [
    build_frame([entry for message in messages for entry in sender.encode(message).entries])
    for sender, messages in (
        (TargetAttachClient(LIMITS), specimens.TARGET_COMMANDS),
        (TargetAttachServer(LIMITS), specimens.TARGET_EVENTS),
        (DraftAttachClient(LIMITS), specimens.DRAFT_COMMANDS),
        (DraftAttachServer(LIMITS), specimens.DRAFT_EVENTS),
        (PushBlocksClient(LIMITS), specimens.BLOCKS),
    )
]


def decode_everywhere(data):
    """Decode by every codec; only ForewordError may come out, for the stream or for an entry."""
    ends = [TargetAttachClient, TargetAttachServer, DraftAttachClient, DraftAttachServer]
    for codec in (*ends, PushBlocksClient, PushBlocksServer):
        try:
            entries = codec(LIMITS).decode(data).entries
        except ForewordError:
            continue
        for entry in entries:
            assert isinstance(entry, tuple) or type(entry).__name__ in ("Block", "BadBlock")
    for decode in (decode_target_info, decode_draft_info):
        try:
            decode(data, LIMITS)
        except ForewordError:
            continue


@FUZZED
@given(st.binary(max_size=200))
def test_random_bytes(data):
    decode_everywhere(data)


@FUZZED
@given(st.sampled_from(GOOD_FRAMES), st.data())
def test_mutated_frames(frame, data):
    mutated = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(mutated) - 1))
        if data.draw(st.booleans()):
            mutated[place] = data.draw(st.integers(0, 255))
        else:
            del mutated[place : place + data.draw(st.integers(1, 8))]
            mutated += b"\x00"
    decode_everywhere(bytes(mutated))
