"""Keys: RFC 5869, separation of purposes, salts."""

import itertools

import pytest

from foreword.addresses import Address, Purpose, derive_key, draft_address, verification_address
from foreword.addresses.keys import hkdf_sha256
from foreword.errors import InvalidField

SALT = b"attempt"


@pytest.mark.parametrize(
    ("secret", "salt", "info", "length", "expected"),
    [
        (
            "0b" * 22,
            "000102030405060708090a0b0c",
            "f0f1f2f3f4f5f6f7f8f9",
            42,
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
        ),
        (
            bytes(range(0x50)).hex(),
            bytes(range(0x60, 0xB0)).hex(),
            bytes(range(0xB0, 0x100)).hex(),
            82,
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09"
            "da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87",
        ),
        (
            "0b" * 22,
            "",
            "",
            42,
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
        ),
    ],
    ids=["basic", "long", "no salt, no info"],
)
def test_vectors_of_rfc_5869(secret: str, salt: str, info: str, length: int, expected: str) -> None:
    output = hkdf_sha256(bytes.fromhex(secret), salt=bytes.fromhex(salt), info=bytes.fromhex(info), length=length)
    assert output.hex() == expected


def test_a_key_is_pinned() -> None:
    # A change here changes every seeded text.
    assert derive_key(7, 0, Purpose.MATCH).hex() == "6834306e8b6a139cabbe6e9898f34917"
    assert derive_key(7, 0, Purpose.COIN, SALT).hex() == "c8bce0d132cf01840509f682630bf8c1"


def test_every_seed_choice_purpose_and_salt_has_its_own_key() -> None:
    keys = {
        derive_key(seed, choice, purpose, salt)
        for seed, choice, purpose, salt in itertools.product(
            (-1, 0, 1, 2**64 - 1), (0, 1, 256), (Purpose.EMIT, Purpose.COIN, Purpose.DRAFT), (b"a", b"b")
        )
    }
    keys |= {derive_key(seed, choice, Purpose.MATCH) for seed in (-1, 0, 1, 2**64 - 1) for choice in (0, 1, 256)}
    assert len(keys) == 4 * 3 * (3 * 2 + 1)
    assert {len(key) for key in keys} == {16}


def test_the_match_key_takes_no_salt_and_the_others_need_one() -> None:
    with pytest.raises(InvalidField, match="salt: got '61', wanted no salt for the match key"):
        derive_key(1, 0, Purpose.MATCH, b"a")
    for purpose in (Purpose.EMIT, Purpose.COIN, Purpose.DRAFT):
        with pytest.raises(InvalidField, match=f"random salt for the {purpose.value} key"):
            derive_key(1, 0, purpose)


@pytest.mark.parametrize(("seed", "choice", "field"), [(2**127, 0, "seed"), (0, -1, "choice"), (0, 2**32, "choice")])
def test_out_of_range(seed: int, choice: int, field: str) -> None:
    with pytest.raises(InvalidField, match=f"^{field}: got"):
        derive_key(seed, choice, Purpose.MATCH)


def test_too_much_output_is_refused() -> None:
    with pytest.raises(InvalidField, match="length"):
        hkdf_sha256(b"", salt=b"", info=b"", length=8161)


def test_addresses_differ_where_something_may_be_tried_again() -> None:
    assert draft_address(9, 3, 5) == Address(5, 3, 9)
    assert verification_address(3, 4, 1) == Address(5, 3, 4)
    # Two blocks of one lease look at position 5 from different bases.
    assert verification_address(3, 4, 1) != verification_address(3, 5, 0)
