"""Blocks leave the engine process as bytes."""

from __future__ import annotations

from dataclasses import replace

from draft_service.engine.encoding import encoded
from draft_service.engine_messages import Blocks, EncodedBlocks, Released
from foreword.protocol.messages import Block
from foreword.protocol.words import Drafter
from foreword.wire.frames import PushBlocksClient, PushBlocksServer, build_frame
from foreword.wire.limits import Limits

BLOCK = Block(b"t" * 16, 1, 0, 7, (1, 2), Drafter.MODEL, draft_queue_us=3, draft_compute_us=4)


def test_a_stream_names_the_ticket_of_a_body_once() -> None:
    (message, other) = encoded([Blocks("t:1", (BLOCK, replace(BLOCK, round=2))), Released(b"x")], count=[].append)
    assert isinstance(message, EncodedBlocks)
    assert (message.candidates, message.queue_us, message.compute_us) == ((2, 2), (3, 3), (4, 4))
    assert other == Released(b"x")
    client, server = PushBlocksClient(Limits()), PushBlocksServer(Limits())
    entries = [client.encode(body).entries[0] for body in message.blocks]
    assert len(entries[1]) == len(entries[0]) - 18
    assert server.decode(build_frame(entries)).entries == [BLOCK, replace(BLOCK, round=2)]


def test_a_block_that_does_not_fit_its_message_is_counted_and_harms_no_other() -> None:
    counted: list[str] = []
    (message,) = encoded([Blocks("t:1", (replace(BLOCK, base=-1), BLOCK))], counted.append)
    assert isinstance(message, EncodedBlocks)
    assert len(message.blocks) == len(message.candidates) == 1
    assert counted == ["block_not_encoded"]
