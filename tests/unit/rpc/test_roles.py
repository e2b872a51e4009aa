"""Roles by names in certificates, and which addresses are loopback."""

from pathlib import Path

import pytest

from foreword.errors import InvalidField, Unauthorized
from foreword.rpc.roles import ALL_ROLES, Role, RolePolicy
from foreword.rpc.tls import TlsFiles, check_plaintext, is_loopback, open_channel, server_credentials

POLICY = RolePolicy(
    {
        "draft-1.example": frozenset({Role.DRAFT}),
        "*.drafts.example": frozenset({Role.DRAFT}),
        "both.example": frozenset({Role.ORCHESTRATOR, Role.CLIENT}),
    }
)


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        (("draft-1.example",), {Role.DRAFT}),
        (("a.drafts.example",), {Role.DRAFT}),
        (("a.b.drafts.example",), set()),
        (("drafts.example",), set()),
        (("*.drafts.example",), {Role.DRAFT}),
        (("x", "both.example", "draft-1.example"), {Role.DRAFT, Role.ORCHESTRATOR, Role.CLIENT}),
        (("evil-draft-1.example",), set()),
        ((), set()),
    ],
)
def test_roles_of_names(names, roles):
    assert POLICY.identity(names).roles == roles


def test_without_tls_everybody_has_every_role():
    assert RolePolicy(open=True).identity(()).roles == ALL_ROLES


def test_refusals_name_who_has_what_and_what_is_wanted():
    with pytest.raises(Unauthorized) as caught:
        POLICY.identity(("draft-1.example",)).require(frozenset({Role.ORCHESTRATOR}), "TargetService/Attach")
    wanted = "TargetService/Attach: got draft-1.example with role draft, wanted role orchestrator"
    assert caught.value.message == wanted
    for names, seen in (((), "none"), (("a.example", "b"), "a.example, b")):
        with pytest.raises(Unauthorized) as caught:
            POLICY.identity(names).require(frozenset({Role.CLIENT, Role.DRAFT}), "x")
        wanted = "wanted one that tls.roles of the server gives the role client or draft"
        assert caught.value.message == f"certificate: got {seen}, which has no role there, {wanted}"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:1",
        "127.9.9.9:1",
        "localhost:1",
        "[::1]:1",
        "unix:/run/x.sock",
        "ipv4:127.0.0.1:1",
        "dns:///localhost:1",
    ],
)
def test_loopback(address):
    assert is_loopback(address)
    check_plaintext(address, insecure=False)


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "example.org:1", "localhost.example.org:1", "127.0.0.1.example.org:1", ":1"],
)
def test_plaintext_off_loopback_must_be_asked_for(address):
    assert not is_loopback(address)
    with pytest.raises(InvalidField) as caught:
        check_plaintext(address, insecure=False)
    assert caught.value.message.startswith(f"listen: got '{address}', wanted a loopback address without TLS")
    assert "--insecure" in caught.value.message
    check_plaintext(address, insecure=True)
    with pytest.raises(InvalidField, match="--insecure"):
        open_channel(address, tls=None)


def test_files_that_are_no_pem_files_are_named(tmp_path):
    missing, junk = tmp_path / "missing.pem", tmp_path / "junk.pem"
    junk.write_text("hello")
    with pytest.raises(InvalidField, match=r"tls\.cert: got .*missing\.pem.*No such file"):
        server_credentials(TlsFiles(missing, junk, junk))
    with pytest.raises(InvalidField, match=r"tls\.cert: got .*junk\.pem.*wanted a PEM file"):
        server_credentials(TlsFiles(junk, Path(missing), junk))
