"""Counter-based random numbers: keys per purpose, addresses, and the numbers that live there."""

from __future__ import annotations

from foreword.addresses.keys import Address, Purpose, derive_key, draft_address, verification_address

__all__ = ["Address", "Purpose", "derive_key", "draft_address", "verification_address"]
