"""Long prompts: chunks, their order, and the bounds on what is incomplete."""

from dataclasses import replace

import pytest

from foreword.errors import Full, InvalidField, ProtocolFault
from foreword.protocol.messages import TargetClose
from foreword.wire.frames import (
    DraftAttachClient,
    DraftAttachServer,
    TargetAttachClient,
    TargetAttachServer,
    build_frame,
)
from foreword.wire.prompts import chunks
from tests.unit.wire import specimens
from tests.unit.wire.strategies import LIMITS


def entries_of(message):
    return TargetAttachClient(LIMITS).encode(message).entries


def decoded(server, *entries):
    return [entry for data in entries for entry in server.decode(build_frame([data])).entries]


def opened(sid, length=20):
    tokens = tuple(range(length))
    return replace(specimens.TARGET_OPEN, sid=sid, tokens=tokens, prompt_len=length, first=None)


def test_chunks_cover_the_tokens_once():
    assert chunks((), 4) == [()]
    assert chunks((1, 2, 3, 4), 4) == [(1, 2, 3, 4)]
    assert chunks((1, 2, 3, 4, 5), 4) == [(1, 2, 3, 4), (5,)]


@pytest.mark.parametrize("length", [1, 8, 9, 16, 64])
def test_an_open_comes_out_once_and_whole(length):
    message = opened(3, length)
    entries = entries_of(message)
    assert len(entries) == -(-length // LIMITS.chunk)
    assert decoded(TargetAttachServer(LIMITS), *entries) == [(3, message)]


def test_drafts_get_prompts_in_the_same_way():
    message = specimens.DRAFT_COMMANDS[0]
    entries = DraftAttachClient(LIMITS).encode(message).entries
    assert len(entries) == 3
    assert decoded(DraftAttachServer(LIMITS), *entries) == [(7, message)]


def test_prompts_of_sessions_interleave():
    one, two = opened(1), opened(2)
    a, b = entries_of(one), entries_of(two)
    got = decoded(TargetAttachServer(LIMITS), a[0], b[0], b[1], a[1], b[2], a[2])
    assert got == [(2, two), (1, one)]


def test_a_close_ends_a_prompt_that_is_not_complete():
    first, second, _ = entries_of(opened(1))
    (close,) = entries_of(TargetClose(1, 0))
    server = TargetAttachServer(LIMITS)
    assert decoded(server, first, close) == [(1, TargetClose(1, 0))]
    ((sid, error),) = decoded(server, second)
    assert sid == 1
    assert isinstance(error, ProtocolFault)


def test_faults_belong_to_their_session_and_free_its_memory():
    server = TargetAttachServer(replace(LIMITS, partial_opens=1))
    first, second, third = entries_of(opened(1))
    ((_, error),) = decoded(server, first, first)
    assert isinstance(error, ProtocolFault)
    assert decoded(server, first, second, third) == [(1, opened(1))]
    assert decoded(server, *entries_of(opened(2))) == [(2, opened(2))]


def test_incomplete_prompts_are_bounded_in_number_and_size():
    server = TargetAttachServer(replace(LIMITS, partial_opens=2))
    got = decoded(server, *(entries_of(opened(sid))[0] for sid in (1, 2, 3)))
    assert [sid for sid, _ in got] == [3]
    assert isinstance(got[0][1], Full)

    server = TargetAttachServer(replace(LIMITS, partial_tokens=30))
    got = decoded(server, *(entries_of(opened(sid))[0] for sid in (1, 2)))
    assert [sid for sid, _ in got] == [2]
    assert isinstance(got[0][1], InvalidField)
    assert decoded(server, *entries_of(opened(1))[1:]) == [(1, opened(1))]
    assert decoded(server, *entries_of(opened(2))) == [(2, opened(2))]


def test_a_chunk_beyond_the_count_is_refused():
    server = TargetAttachServer(LIMITS)
    short = entries_of(opened(1, 10))
    long = entries_of(opened(1, 20))
    ((sid, error),) = decoded(server, short[0], long[1])
    assert sid == 1
    assert error.message == "tokens.tokens: got 8, wanted from 1 to 2 tokens"
