"""A failure in one line, in the words of the command line: flags for fields, what to do, when to ask again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from foreword.errors import DeadlineExceeded, ForewordError, InvalidField, NotFound, Unavailable, shown

_UNREACHED = "address: got "
_UNBOUND = ", which cannot be bound"
_TLS_TROUBLE = ("Socket closed", "handshake failed")
"""What gRPC says where only one end speaks TLS, or one does not take the other's certificate."""
_WRONG_AUTHORITY = "CERTIFICATE_VERIFY_FAILED"
_BROKEN_OFF = "Stream removed"
"""What gRPC says of a call that had been taken up."""
_NO_ANSWER = ("HTTP/2", "SETTINGS frame", "http1.x")
"""What gRPC says where a connection came about and nothing that speaks gRPC was heard on it."""
_TO_THE_SERVER = ", or None to leave it to the server"
_OTHERWISE: Final = {"tls.certificate": "tls_cert", "tls.authority": "tls_ca"}
"""Parameters that are called otherwise than the fields of the client."""
_PLACE = re.compile(r":\d+\b")
"""A line of a file, whose fields are no flags."""
_FIELD = re.compile(r"([a-z_.]+): ")
_KIND = re.compile(r"[a-z_]+")
_NAME = re.compile(r"(?:[a-z]+\.)?([a-z]+_[a-z_]+)")


def failure_line(error: ForewordError, flags: Mapping[str, str], words: Sequence[str]) -> str:
    """Return what to tell whoever typed `words`; `flags` are those of the command, by the names of its parameters."""
    text = _by_flags(error, flags, words)
    if advice := hint(error):
        text += f"; {advice}"
    if error.retry_after_ms is not None:
        text += f"; ask again in {error.retry_after_ms} ms"
    return text


def hint(error: ForewordError) -> str:
    """Return what to do about a server that does not answer, or nothing."""
    if not isinstance(error, Unavailable) or not error.message.startswith(_UNREACHED):
        return ""
    if _BROKEN_OFF in error.message:
        return "the connection was lost in the middle of the answer: ask again, or look at the server's log"
    if _WRONG_AUTHORITY in error.message:
        return "look at --tls-ca: it has to be the authority that signed the server's certificate"
    if any(words in error.message for words in _TLS_TROUBLE):
        return "look at --tls-ca, --tls-cert and --tls-key: both ends speak TLS, or neither"
    from foreword.client import DEFAULT_ADDRESS  # with gRPC, which whoever called a server has imported
    from foreword.rpc.tls import is_loopback

    address = error.message.removeprefix(_UNREACHED).partition(", wanted")[0]
    if not is_loopback(address):
        return "look at the address, and at whether it serves there"
    if any(words in error.message for words in _NO_ANSWER):
        return "something that is not Foreword, or does not answer, listens there"
    port = "" if address == DEFAULT_ADDRESS else f" --port {address.rpartition(':')[2]}"
    return f"start it: foreword up{port}"


def _by_flags(error: ForewordError, flags: Mapping[str, str], words: Sequence[str]) -> str:
    if isinstance(error, InvalidField) and _PLACE.search(error.field):
        return error.message
    if isinstance(error, InvalidField):
        wanted = error.wanted.replace(_TO_THE_SERVER, "")
        wanted = _NAME.sub(lambda name: flags.get(name[1], name[0]), wanted)
        name = _form(error, flags) or _flag(error.field, flags) or error.field
        return f"{name}: got {shown(error.seen)}, wanted {wanted}"
    found = _FIELD.match(error.message)
    # Of errors of other kinds the first word may be a service, and not what was asked for.
    told = error.message.startswith(_UNREACHED) or _UNBOUND in error.message
    asked = told or isinstance(error, NotFound | DeadlineExceeded)
    flag = _flag(found[1], flags) if asked and found is not None else None
    if found is None or flag is None:
        return error.message
    typed = _typed(flag, words) if isinstance(error, DeadlineExceeded) else ""
    return f"{flag}{typed}: {error.message[found.end() :]}"


def _form(error: InvalidField, flags: Mapping[str, str]) -> str | None:
    """Return the flag of the kind of grammar that an error is about, with which what was seen begins."""
    kind = _KIND.search(shown(error.seen)) if error.field == "law.grammar" else None
    return None if kind is None else flags.get(kind[0])


def _flag(field: str, flags: Mapping[str, str]) -> str | None:
    """Return the flag that sets a field of a request: `law.top_p`, `tls.key`, or `timeout_s`, whose unit it lacks."""
    last = field.rpartition(".")[2]
    names = (_OTHERWISE.get(field, ""), field.replace(".", "_"), last, last.removesuffix("_s"))
    return next((flags[name] for name in names if name in flags), None)


def _typed(flag: str, words: Sequence[str]) -> str:
    """Return the value that was typed for a flag, after a blank; nothing if none was."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == flag:
            return f" {following}"
        if word.startswith(f"{flag}="):
            return f" {word.partition('=')[2]}"
    return ""
