"""Keys per purpose and the addresses of random numbers.

A random number in Foreword is a function of a key and an address. Keys differ by purpose, so no number ever serves two
purposes; addresses differ by everything that may be tried again, so no number serves twice. An address is spent as
soon as anything computed from it has been seen.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from enum import Enum

from foreword.errors import InvalidField

KEY_BYTES = 16
"""Length of a key: the two 64-bit words of Philox4x64."""

_INFO = b"foreword/v1/random/"


class Purpose(Enum):
    """What a key's numbers are for."""

    MATCH = "match"
    """The target's own samples under `match`; a coupled draft may hold this key too."""
    EMIT = "emit"
    """Residual samples, and plain steps under `token` and `block`."""
    COIN = "coin"
    """Acceptance coins."""
    DRAFT = "draft"
    """The draft's own samples."""


@dataclass(frozen=True, slots=True)
class Address:
    """One stream of numbers under a key: three unsigned 64-bit words.

    `position` is an output position. `round` is 0 where the number belongs to the position alone. `digest` tells apart
    what shares a round and a position: the digest of the assumed tokens for a draft, the base for a verification.
    """

    position: int
    round: int = 0
    digest: int = 0


def draft_address(digest: int, round: int, position: int) -> Address:
    """Address of a draft's own sample.

    `digest` names the tokens that the block assumes, so that alternatives for one round never share a number.
    """
    return Address(position, round, digest)


def verification_address(round: int, base: int, index: int) -> Address:
    """Address of the coin of candidate `index`, or of the token emitted after `index` kept ones, of a block at `base`.

    The base is part of it: a lease with a local drafter verifies many blocks in one round, and those overlap in
    positions when candidates are refused.
    """
    return Address(base + index, round, base)


def derive_key(seed: int, choice: int, purpose: Purpose, salt: bytes = b"") -> bytes:
    """Derive the 16-byte key of one purpose by HKDF-SHA256 (RFC 5869).

    `seed` is the request's, any integer of up to 127 bits and a sign; `choice` is the index of the choice, from 0.
    `salt` is the random salt of the attempt. `MATCH` takes none, so that a replay gives the same text; the others need
    one, because an attempt that is resumed starts its rounds again. Raises InvalidField.
    """
    if purpose is Purpose.MATCH and salt:
        raise InvalidField("salt", salt.hex(), "no salt for the match key: its numbers belong to seed and position")
    if purpose is not Purpose.MATCH and not salt:
        raise InvalidField("salt", "", f"the attempt's random salt for the {purpose.value} key")
    if not -(1 << 127) <= seed < 1 << 127:
        raise InvalidField("seed", seed, "an integer of up to 127 bits and a sign")
    if not 0 <= choice < 1 << 32:
        raise InvalidField("choice", choice, "a whole number under 2**32")
    info = _INFO + purpose.value.encode() + choice.to_bytes(4, "big")
    return hkdf_sha256(seed.to_bytes(16, "big", signed=True), salt=salt, info=info, length=KEY_BYTES)


def hkdf_sha256(secret: bytes, *, salt: bytes, info: bytes, length: int) -> bytes:
    """HKDF with SHA-256, extract then expand (RFC 5869); `length` is in bytes, at most 8160."""
    if not 0 < length <= 255 * 32:
        raise InvalidField("length", length, "1 to 8160 bytes")
    extracted = hmac.digest(salt, secret, hashlib.sha256)
    output, block = b"", b""
    for index in range(1, -(-length // 32) + 1):
        block = hmac.digest(extracted, block + info + bytes([index]), hashlib.sha256)
        output += block
    return output[:length]
