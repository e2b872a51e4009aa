"""Encodes blocks in the engine process, so that the gRPC process has bytes to pass on."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from draft_service.engine_messages import Blocks, EncodedBlocks, FromEngine, ToService
from foreword.errors import ForewordError
from foreword.wire.blocks import BlockBody, encode_body

_log = structlog.stdlib.get_logger(__name__)


def encoded(batch: list[FromEngine], count: Callable[[str], None]) -> list[ToService]:
    """Return what goes to the gRPC process; a block that no message can carry is counted and left out."""
    return [_encoded(message, count) if isinstance(message, Blocks) else message for message in batch]


def _encoded(message: Blocks, count: Callable[[str], None]) -> EncodedBlocks:
    bodies: list[BlockBody] = []
    sent = []
    for block in message.blocks:
        try:
            bodies.append(encode_body(block))
            sent.append(block)
        except ForewordError as error:
            _log.warning("block cannot be sent", target=message.target, reason=error.message)
            count("block_not_encoded")
    return EncodedBlocks(
        message.target,
        tuple(bodies),
        candidates=tuple([len(block.ids) for block in sent]),
        queue_us=tuple([block.draft_queue_us for block in sent]),
        compute_us=tuple([block.draft_compute_us for block in sent]),
    )
