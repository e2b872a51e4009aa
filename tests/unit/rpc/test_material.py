"""PEM files that do not fit are named before gRPC sees them, by servers and by clients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from foreword.client import AsyncClient, Tls
from foreword.errors import InvalidField
from foreword.rpc.tls import TlsFiles, check_files, open_channel, server_credentials


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two certificates of one authority with their keys, a key with a password, and a file in PEM that is neither."""
    made, authority = tmp_path_factory.mktemp("pem"), trustme.CA()
    authority.cert_pem.write_to_path(made / "ca.pem")
    for name in ("one", "two"):
        issued = authority.issue_cert(f"{name}.example")
        (made / f"{name}.pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(made / f"{name}.key")
    key = load_pem_private_key((made / "one.key").read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    (made / "locked.key").write_bytes(locked)
    (made / "broken.pem").write_text("-----BEGIN CERTIFICATE-----\nhello\n-----END CERTIFICATE-----\n")
    (made / "text.pem").write_text("hello")
    return made


WRONG = [
    ("one.pem", "two.key", "ca.pem", "key", r"two\.key.*wanted the key of the certificate in .*one\.pem"),
    ("one.key", "one.key", "ca.pem", "cert", r"one\.key.*wanted a PEM file with a certificate"),
    ("broken.pem", "one.key", "ca.pem", "cert", r"broken\.pem.*wanted a PEM file with a certificate"),
    ("one.pem", "one.pem", "ca.pem", "key", r"one\.pem.*wanted a PEM file with a private key that has no password"),
    ("one.pem", "locked.key", "ca.pem", "key", r"locked\.key.*private key that has no password"),
    ("one.pem", "one.key", "one.key", "ca", r"one\.key.*wanted a PEM file with a certificate"),
    ("one.pem", "one.key", "text.pem", "ca", r"text\.pem.*wanted a PEM file"),
]


@pytest.mark.parametrize("use", [check_files, server_credentials, lambda files: open_channel("a:1", tls=files)])
@pytest.mark.parametrize(("certificate", "key", "authority", "field", "message"), WRONG)
def test_a_server_names_the_file_that_does_not_fit(
    folder: Path,
    use: Callable[[TlsFiles], object],
    certificate: str,
    key: str,
    authority: str,
    field: str,
    message: str,
) -> None:
    with pytest.raises(InvalidField, match=rf"tls\.{field}: got .*{message}"):
        use(TlsFiles(folder / certificate, folder / key, folder / authority))


@pytest.mark.parametrize(("certificate", "key", "authority", "field", "message"), WRONG)
def test_a_client_does_before_it_calls(
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    certificate: str,
    key: str,
    authority: str,
    field: str,
    message: str,
) -> None:
    names = {"cert": "certificate", "key": "key", "ca": "authority"}
    with pytest.raises(InvalidField, match=rf"tls\.{names[field]}: got .*{message}"):
        AsyncClient("a.example:1", tls=Tls(folder / authority, folder / certificate, folder / key))
    assert capfd.readouterr().err == ""


def test_files_that_fit_are_taken(folder: Path) -> None:
    check_files(TlsFiles(folder / "one.pem", folder / "one.key", folder / "ca.pem"))
    server_credentials(TlsFiles(folder / "two.pem", folder / "two.key", folder / "ca.pem"))
