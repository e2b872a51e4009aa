"""What a draft may send in one frame, and that what belongs to no session costs next to nothing."""

import pytest

from foreword.errors import InvalidField
from foreword.protocol.messages import Block, Follow, SparseCounts
from foreword.protocol.words import Drafter, ReceiptCode
from foreword.rpc.outbox import Outbox
from foreword.v1 import target_pb2
from foreword.wire import blocks
from foreword.wire.blocks import BadBlock
from foreword.wire.frames import DraftAttachClient, DraftAttachServer, PushBlocksClient, PushBlocksServer, build_frame
from foreword.wire.limits import DRAFT_ENTRIES, DRAFT_FRAME, Limits, longest_block

LIMITS = Limits(vocabulary=1 << 20)
TICKET = b"t" * 16


def block(gamma: int, support: int) -> Block:
    first = (1 << 20) - support  # ids of 32 bits
    law = SparseCounts(tuple(range(first, 1 << 20)), ((1 << 16) - support + 1,) + (1,) * (support - 1), 16)
    return Block(TICKET, 1, 0, 2, (first,) * gamma, Drafter.MODEL, (law,) * gamma)


@pytest.mark.parametrize("support", [1, 128, 682, 4_096])
def test_the_longest_block_that_a_draft_may_be_set_to_fits(support: int) -> None:
    longest = min(256, longest_block(support))
    frame = build_frame(PushBlocksClient(LIMITS).encode(block(longest, support)).entries)
    (entry,) = PushBlocksServer(LIMITS).decode(frame).entries
    assert isinstance(entry, Block)


def test_a_larger_frame_is_refused_before_it_is_parsed() -> None:
    frame = build_frame(PushBlocksClient(LIMITS).encode(block(64, 4_096)).entries)
    with pytest.raises(InvalidField, match=f"frame: got '{len(frame)} bytes', wanted at most {DRAFT_FRAME} bytes"):
        PushBlocksServer(LIMITS).decode(frame)


@pytest.mark.parametrize("end", ["target", "orchestrator"])
def test_messages_in_a_frame_are_few_and_links_put_in_fewer(end: str) -> None:
    sender, receiver, message = (
        (PushBlocksClient(LIMITS), PushBlocksServer(LIMITS), block(0, 1))
        if end == "target"
        else (DraftAttachServer(LIMITS), DraftAttachClient(LIMITS), Follow(7, 3, compared=3, agreed=2))
    )
    entries = [entry for _ in range(DRAFT_ENTRIES + 1) for entry in sender.encode(message).entries]  # type: ignore[attr-defined]
    with pytest.raises(InvalidField, match=f"frame: got 'over {DRAFT_ENTRIES}'"):
        receiver.decode(build_frame(entries))
    outbox = Outbox()
    for _ in range(DRAFT_ENTRIES + 1):
        outbox.put(sender.encode(message))  # type: ignore[attr-defined]
    received = 0
    while outbox:
        received += len(receiver.decode(build_frame(outbox.take(1 << 20))).entries)
    assert received == DRAFT_ENTRIES + 1


def test_the_law_of_a_block_without_a_session_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    server = PushBlocksServer(LIMITS, known=lambda ticket: bool(asked.append(ticket)))
    monkeypatch.setattr(blocks, "_read_law", None)
    (entry,) = server.decode(build_frame(PushBlocksClient(LIMITS).encode(block(2, 3)).entries)).entries
    assert isinstance(entry, BadBlock)
    assert (entry.ticket, asked) == (None, [TICKET])
    answer = target_pb2.TargetServicePushBlocksResponse.FromString(build_frame(server.encode(entry).entries))
    assert [(r.round, r.digest, r.code) for r in answer.receipts] == [(1, 2, ReceiptCode.UNKNOWN)]
