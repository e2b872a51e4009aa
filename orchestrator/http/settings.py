"""Settings of the HTTP API; importing this needs no web framework."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, SecretStr

from foreword.errors import InvalidField
from foreword.extras import check_installed
from foreword.rpc.material import read_pair
from foreword.rpc.tls import check_listen, is_loopback
from foreword.settings.base import check_address_file
from foreword.settings.checks import check_all
from foreword.settings.fields import CommaList, Section, setting, split

SecretList = Annotated[tuple[SecretStr, ...], BeforeValidator(split)]
"""Texts that are never printed, given as a list or separated by commas."""

_ORIGIN = re.compile(r"https?://[^/?#\s]+")
_ROOT = re.compile(r"(/[A-Za-z0-9._~-]+)*")
_KEY_WANTED = "keys of printable ASCII characters without spaces or commas"


class HttpSettings(Section):
    """How the API over HTTP is served.

    Raises InvalidField for an address that is none, half a pair of TLS files, a key that no header can carry, and a
    prefix or an origin that is none.
    """

    listen: str = setting(
        "", "Address that the OpenAI-shaped API binds; empty serves none, port 0 takes a free one.", wanted="host:port"
    )
    address_file: Path | None = setting(None, "File that gets the bound address of HTTP once the service is ready.")
    api_keys: SecretList = setting(
        (),
        "Keys that clients show as a bearer token, separated by commas; none lets everybody in. Others see flags: "
        "prefer the variable or the file.",
        wanted=_KEY_WANTED,
        secret=True,
    )
    api_keys_file: Path | None = setting(None, "File with such keys, one a line; # begins a remark.")
    cert: Path | None = setting(None, "Certificate chain for HTTPS, PEM; none takes tls.cert where TLS is on.")
    key: Path | None = setting(None, "Private key of that certificate, PEM.")
    insecure: bool = setting(
        False, "Allow HTTP off loopback without TLS and without keys, behind a proxy that brings them."
    )
    served_model_names: CommaList = setting(
        (), "Names that the model also goes by, separated by commas; the first is the one that is listed."
    )
    root_path: str = setting("", "Prefix under which a proxy serves the API.", wanted="a path such as /llm")
    cors_origins: CommaList = setting(
        (), "Origins whose pages may call from a browser; * allows all.", wanted="origins separated by commas, or *"
    )
    keep_alive_s: float = setting(
        15.0, "Silence of a stream after which a comment is sent; 0 sends none.", unit="s", least=0, most=3_600
    )
    body_limit_mb: float = setting(4.0, "Largest body of a request.", unit="MB", least=0.001, most=1_024)
    page: bool = setting(True, "Whether / serves a page to try the model and watch its drafts.")
    generation_config: bool = setting(
        True, "Whether the model's generation_config.json says how to sample where a request does not."
    )

    def model_post_init(self, _: object) -> None:
        if self.listen:
            check_listen("http.listen", self.listen)
            if self.listen.startswith("unix:"):
                raise InvalidField("http.listen", self.listen, "host:port, the port from 0 to 65535")
        if (self.cert is None) != (self.key is None):
            name, path = ("cert", self.cert) if self.cert is not None else ("key", self.key)
            raise InvalidField(f"http.{name}", str(path), "http.cert and http.key together, or neither")
        _check_keys("http.api_keys", [key.get_secret_value() for key in self.api_keys])
        if not _ROOT.fullmatch(self.root_path):
            raise InvalidField("http.root_path", self.root_path, "a path such as /llm, without a slash at its end")
        for origin in self.cors_origins:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise InvalidField("http.cors_origins", origin, "origins such as https://example.com, or *")

    @property
    def enabled(self) -> bool:
        """Whether there is an HTTP API."""
        return bool(self.listen)

    @property
    def keyed(self) -> bool:
        """Whether clients have to show a key."""
        return bool(self.api_keys) or self.api_keys_file is not None

    @property
    def pair(self) -> tuple[Path, Path] | None:
        """Certificate chain and key of its own, None without them."""
        return None if self.cert is None or self.key is None else (self.cert, self.key)

    def check_exposure(self, *, tls: bool, insecure: bool) -> None:
        """Raise InvalidField for an API off loopback without TLS, or without keys, that was not asked for.

        `tls` tells whether the service has certificates, `insecure` whether it may do without.
        """
        if not self.enabled or insecure or self.insecure or is_loopback(self.listen):
            return
        if not tls and self.pair is None:
            wanted = "a loopback address without TLS; give --http-cert and --http-key, or --http-insecure"
            raise InvalidField("http.listen", self.listen, wanted)
        if not self.keyed:
            wanted = "a loopback address without keys; give --http-api-keys-file, or --http-insecure"
            raise InvalidField("http.listen", self.listen, wanted)

    def check_files(self) -> None:
        """Raise for files that are not there or hold something else, NotFound for the extra that is not installed."""
        if not self.enabled:
            return
        check_all(
            lambda: check_installed("fastapi", "uvicorn"),
            self.read_keys,
            self._check_pair,
            lambda: check_address_file("http.address_file", self.address_file),
        )

    def _check_pair(self) -> None:
        if self.cert is not None and self.key is not None:
            read_pair(("http.cert", self.cert), ("http.key", self.key))

    def read_keys(self) -> tuple[str, ...]:
        """Return all keys; raises InvalidField for a file without one. No message shows a key."""
        keys = [key.get_secret_value() for key in self.api_keys]
        return (*keys, *(read_keys_file(self.api_keys_file) if self.api_keys_file is not None else ()))


def read_keys_file(path: Path) -> tuple[str, ...]:
    """Return the keys in a file, one a line; raises InvalidField for one that cannot be read or has none."""
    field = "http.api_keys_file"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidField(field, str(path), f"a file that can be read ({why})") from error
    keys = tuple(line for line in (line.strip() for line in lines) if line and not line.startswith("#"))
    if not keys:
        raise InvalidField(field, str(path), "a file with at least one key")
    _check_keys(field, keys)
    return keys


def _check_keys(field: str, keys: tuple[str, ...] | list[str]) -> None:
    for key in keys:
        if not (key.isascii() and key.isprintable() and " " not in key and "," not in key):
            raise InvalidField(field, f"a key of {len(key)} characters", _KEY_WANTED)  # the message may be logged
