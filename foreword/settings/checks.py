"""Checks that do not depend on each other: what all of them find is told, not only what the first does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from foreword.errors import ForewordError, InvalidField


def check_all(*checks: Callable[[], object]) -> None:
    """Run all checks and raise the first error, a value that is wrong before others, with those behind it as notes."""
    found = list(_errors(checks))
    if not found:
        return
    first = next((error for error in found if isinstance(error, InvalidField)), found[0])
    for message in dict.fromkeys(message for error in found for message in messages_of(error)):
        if message not in messages_of(first):
            first.add_note(message)
    raise first


def messages_of(error: ForewordError) -> tuple[str, ...]:
    """Return what an error says, and what its notes say of others."""
    return error.message, *getattr(error, "__notes__", ())


def _errors(checks: tuple[Callable[[], object], ...]) -> Iterator[ForewordError]:
    for check in checks:
        try:
            check()
        except ForewordError as error:
            yield error
