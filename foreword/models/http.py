"""Plain HTTP with the certificates, proxy and credentials that pip is configured with."""

from __future__ import annotations

import base64
import http.client
import netrc
import ssl
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from foreword.errors import NotFound, Unavailable

Response = http.client.HTTPResponse


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """How to reach a server."""

    certificates: str | None = None
    """File or folder of certificate authorities; None is the system's."""
    proxy: str | None = None
    """For all schemes; None follows the environment."""
    trusted_hosts: frozenset[str] = field(default_factory=frozenset)
    """Hosts, with or without a port, whose certificate is not checked."""
    timeout_s: float = 30.0
    """Longest silence on a connection, seconds."""


def get(url: str, settings: HttpSettings, *, headers: dict[str, str] | None = None) -> Response:
    """Return the open response to GET; raise NotFound for 404, Unavailable for anything else that is no success."""
    bare, credentials = _split_credentials(url)
    request = urllib.request.Request(bare, headers={"User-Agent": "foreword", **(headers or {})})
    if credentials is not None:
        # Not sent on to where a redirect leads.
        request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(credentials.encode()).decode())
    try:
        response: Response = _opener(bare, settings).open(request, timeout=settings.timeout_s)
    except urllib.error.HTTPError as error:
        error.close()
        kind = NotFound if error.code == 404 else Unavailable
        raise kind(f"{bare}: got HTTP status {error.code} {error.reason}, wanted 200") from None
    except (urllib.error.URLError, OSError) as error:
        raise Unavailable(f"{bare}: cannot be reached: {getattr(error, 'reason', error)}") from error
    return response


def _opener(url: str, settings: HttpSettings) -> urllib.request.OpenerDirector:
    handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=_context(url, settings))]
    if settings.proxy is not None:
        handlers.append(urllib.request.ProxyHandler({"http": settings.proxy, "https": settings.proxy}))
    return urllib.request.build_opener(*handlers)


def _context(url: str, settings: HttpSettings) -> ssl.SSLContext:
    parts = urllib.parse.urlsplit(url)
    where = settings.certificates
    is_folder = where is not None and Path(where).is_dir()
    context = ssl.create_default_context(cafile=None if is_folder else where, capath=where if is_folder else None)
    if parts.hostname in settings.trusted_hosts or parts.netloc in settings.trusted_hosts:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _split_credentials(url: str) -> tuple[str, str | None]:
    """Return the URL without user and password, and these as user:password, from the URL or ~/.netrc."""
    parts = urllib.parse.urlsplit(url)
    address, _, host = parts.netloc.rpartition("@")
    bare = urllib.parse.urlunsplit(parts._replace(netloc=host))
    if address:
        user, _, password = address.partition(":")
        return bare, f"{urllib.parse.unquote(user)}:{urllib.parse.unquote(password)}"
    try:
        found = netrc.netrc().authenticators(parts.hostname or "")
    except (FileNotFoundError, netrc.NetrcParseError):
        found = None
    return bare, None if found is None else f"{found[0]}:{found[2]}"
