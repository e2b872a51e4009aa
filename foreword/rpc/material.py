"""PEM files of TLS, read and checked before gRPC sees them: it writes lines of its own to stderr, and names no file."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

from foreword.errors import InvalidField

_MISMATCH = "KEY_VALUES_MISMATCH"
_NO_PASSWORD = ""


def read_authority(field: str, path: Path) -> bytes:
    """Return the bytes of a file with certificates; raises InvalidField for what is none."""
    data = _read(field, path)
    if not _taken(lambda context: context.load_verify_locations(cafile=path)):
        raise InvalidField(field, str(path), "a PEM file with a certificate")
    return data


def read_pair(certificate: tuple[str, Path], key: tuple[str, Path]) -> tuple[bytes, bytes]:
    """Return the bytes of a certificate chain and of its key, each given as its field and path.

    Raises InvalidField for what is no certificate, no key, and a key of another certificate.
    """
    chain = read_authority(*certificate)
    field, path = key
    secret = _read(field, path)
    try:
        # With a password to try, OpenSSL asks nobody at a terminal; gRPC reads no such keys either.
        _context().load_cert_chain(certificate[1], path, password=_NO_PASSWORD)
    except ssl.SSLError as error:
        if error.reason == _MISMATCH:
            raise InvalidField(field, str(path), f"the key of the certificate in {certificate[1]}") from error
        raise InvalidField(field, str(path), "a PEM file with a private key that has no password") from error
    return chain, secret


def _taken(load: Callable[[ssl.SSLContext], None]) -> bool:
    try:
        load(_context())
    except ssl.SSLError:
        return False
    return True


def _context() -> ssl.SSLContext:
    """Return a context that judges no strength: which keys are long enough is for gRPC to say."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    return context


def _read(field: str, path: Path) -> bytes:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InvalidField(field, str(path), f"a PEM file that can be read ({error.strerror})") from error
    if b"-----BEGIN " not in data:
        raise InvalidField(field, str(path), "a PEM file")
    return data
