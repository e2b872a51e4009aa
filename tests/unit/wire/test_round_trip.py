"""decode(encode(x)) == x for every message of every stream, through whole frames."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foreword.errors import InvalidField
from foreword.protocol.info import Hello, Liveness
from foreword.wire import blocks, draft, events, prompts, target
from foreword.wire.frames import (
    DraftAttachClient,
    DraftAttachServer,
    PushBlocksClient,
    PushBlocksServer,
    TargetAttachClient,
    TargetAttachServer,
    build_frame,
)
from foreword.wire.handles import HandleDecoder
from foreword.wire.info import decode_draft_info, decode_target_info, encode_draft_info, encode_target_info
from tests.unit.wire import specimens
from tests.unit.wire import strategies as s

LIMITS = s.LIMITS
u64 = st.integers(0, 2**64 - 1)
quick = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
hellos = st.builds(Hello, protocol_min=s.u32, protocol_max=s.u32, instance=s.short, liveness_ms=st.integers(1, 600_000))
livenesses = st.builds(Liveness, sequence=u64, echo_sequence=st.none() | u64, echo_held_us=u64)


def through(sender, receiver, messages):
    """Send each message in frames of one entry, so that prompts cross frames; return what comes out, in order."""
    out = []
    for message in messages:
        for entry in sender.encode(message).entries:
            out.extend(receiver.decode(build_frame([entry])).entries)
    return out


@quick
@given(st.lists(s.target_commands, max_size=4, unique_by=lambda m: m.sid))
def test_target_commands(messages):
    got = through(TargetAttachClient(LIMITS), TargetAttachServer(LIMITS), messages)
    assert got == [(message.sid, message) for message in messages]


@quick
@given(st.lists(s.target_events, max_size=4))
def test_target_events(messages):
    got = through(TargetAttachServer(LIMITS), TargetAttachClient(LIMITS), messages)
    assert got == [(getattr(message, "sid", None), message) for message in messages]


@quick
@given(st.lists(s.draft_commands, max_size=4, unique_by=lambda m: m.sid))
def test_draft_commands(messages):
    got = through(DraftAttachClient(LIMITS), DraftAttachServer(LIMITS), messages)
    assert got == [(message.sid, message) for message in messages]


@quick
@given(st.lists(s.draft_events, max_size=4))
def test_draft_events(messages):
    got = through(DraftAttachServer(LIMITS), DraftAttachClient(LIMITS), messages)
    assert got == [(getattr(message, "sid", None), message) for message in messages]


@quick
@given(st.data())
def test_blocks_and_their_answers(data):
    tickets = st.sampled_from([bytes([number] * 16) for number in range(3)])
    client, server = PushBlocksClient(LIMITS), PushBlocksServer(LIMITS)
    sent = data.draw(st.lists(s.blocks(tickets), min_size=1, max_size=5))
    assert through(client, server, sent) == sent
    named = st.sampled_from([block.ticket for block in sent])
    answers = data.draw(st.lists(s.answers(named), max_size=5))
    assert through(server, client, answers) == [(answer.ticket, answer) for answer in answers]


@quick
@given(s.servers, s.draft_infos)
def test_infos(server, drafting):
    assert decode_target_info(encode_target_info(server), LIMITS) == server
    assert decode_draft_info(encode_draft_info(drafting), LIMITS) == drafting


@quick
@given(st.none() | hellos, st.none() | livenesses, st.lists(s.target_events, max_size=3))
def test_one_frame_carries_header_liveness_and_messages_in_order(hello, liveness, messages):
    sender = TargetAttachServer(LIMITS)
    entries = [entry for message in messages for entry in sender.encode(message).entries]
    frame = TargetAttachClient(LIMITS).decode(build_frame(entries, hello=hello, liveness=liveness))
    assert (frame.hello, frame.liveness) == (hello, liveness)
    assert [message for _, message in frame.entries] == messages


def streams():
    """Both directions of each stream, with specimens that travel on it."""
    client, server = PushBlocksClient(LIMITS), PushBlocksServer(LIMITS)
    return [
        (TargetAttachClient(LIMITS), TargetAttachServer(LIMITS), specimens.TARGET_COMMANDS),
        (TargetAttachServer(LIMITS), TargetAttachClient(LIMITS), specimens.TARGET_EVENTS),
        (DraftAttachClient(LIMITS), DraftAttachServer(LIMITS), specimens.DRAFT_COMMANDS),
        (DraftAttachServer(LIMITS), DraftAttachClient(LIMITS), specimens.DRAFT_EVENTS),
        (client, server, specimens.BLOCKS),
        (server, client, specimens.ANSWERS),
    ]


def test_specimens_set_every_field_and_arrive_whole():
    for sender, receiver, messages in streams():
        got = through(sender, receiver, messages)
        assert [entry[1] if isinstance(entry, tuple) else entry for entry in got] == list(messages)


def test_receipts_come_before_verdicts_of_their_frame():
    client, server = PushBlocksClient(LIMITS), PushBlocksServer(LIMITS)
    through(client, server, specimens.BLOCKS)
    receipt, other, verdict = specimens.ANSWERS
    frame = build_frame([entry for answer in (verdict, receipt, other) for entry in server.encode(answer).entries])
    assert [answer for _, answer in client.decode(frame).entries] == [receipt, other, verdict]


def patched(module, name, change):
    """Plant a bug: `change` wraps the function of this name."""
    return lambda monkeypatch: monkeypatch.setattr(module, name, change(getattr(module, name)))


PLANTED = {
    "h is sent in 32 bits": patched(events, "pack_f64", lambda f: lambda n, v: f(n, [s.f32_of(x) for x in v])),
    "final is lost": patched(events, "_fill_result", lambda f: lambda m, v: f(m, replace(v, final=False))),
    "token 0 means none": patched(events, "_read_emit", lambda f: lambda *a: tuple(x or None for x in f(*a))),
    "digest is cut": patched(target, "fill_commit", lambda f: lambda m, v: f(m, replace(v, digest=v.digest % 2**32))),
    "law is forgotten": patched(draft, "fill_law", lambda f: lambda m, v: None),
    "counts keep their one": patched(blocks, "unpack_counts", lambda f: lambda *a, **k: [c - 1 for c in f(*a, **k)]),
    "ids are cut to 16 bits": patched(blocks, "_is_wide", lambda f: lambda v: False),
    "handles mix tickets": patched(HandleDecoder, "resolve", lambda f: lambda *a: specimens.TICKET),
    "kept and emitted change places": patched(
        blocks, "verdict_message", lambda f: lambda v, h: f(replace(v, kept=v.emitted, emitted=v.kept), h)
    ),
    "chunks come twice": patched(prompts, "chunks", lambda f: lambda t, n: [*f(t, n), f(t, n)[-1]]),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_caught(monkeypatch, bug):
    test_specimens_set_every_field_and_arrive_whole()
    PLANTED[bug](monkeypatch)
    monkeypatch.setattr(target, "chunks", prompts.chunks)
    with pytest.raises((AssertionError, InvalidField)):
        test_specimens_set_every_field_and_arrive_whole()
