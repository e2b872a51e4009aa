"""SHA-256 of files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from foreword.errors import Corrupted


def sha256_of(path: Path) -> str:
    """Return the digest of a file's bytes in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(path: Path, wanted: str) -> None:
    """Remove the file at `path` and raise Corrupted unless its digest is `wanted`."""
    seen = sha256_of(path)
    if seen != wanted:
        path.unlink()
        raise Corrupted(f"{path.name}: got sha256 {seen}, wanted {wanted}; the file was removed, fetch it again")
