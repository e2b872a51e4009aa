"""Text of an output, id by id, for any tokenizer that can decode a sequence.

A byte-level tokenizer may spread one character over several ids; until the last one is there, decoding shows U+FFFD in
its place. So U+FFFD at the end is held back, at most as many as there are bytes in an incomplete character of UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

_UNKNOWN = "\N{REPLACEMENT CHARACTER}"
_LACKING = 3
"""Most bytes that are there of a character that is not complete."""
_CONTEXT = 6
"""Ids kept for the decoder to see what stood before: some write a leading space only inside a text."""
_WINDOW = 32


class WindowStream:
    """A `TextStream` that decodes the last few ids at every push."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._window: list[int] = []
        self._shown = 0  # characters of the window's text that were returned, or stood before the window was cut

    def push(self, token: int) -> str:
        """Return the text that is decided by now, "" while a character is incomplete."""
        self._window.append(token)
        text = self._decode(self._window)
        end = len(text)
        while end > max(self._shown, len(text) - _LACKING) and text[end - 1] == _UNKNOWN:
            end -= 1
        piece = text[self._shown : end]
        self._shown = max(self._shown, end)
        if end == len(text) and len(self._window) >= _WINDOW:
            self._cut()
        return piece

    def finish(self) -> str:
        """Return what was held back; an incomplete character becomes U+FFFD."""
        rest = self._decode(self._window)[self._shown :]
        self._window, self._shown = [], 0
        return rest

    def _cut(self) -> None:
        self._window = self._window[-_CONTEXT:]
        self._shown = len(self._decode(self._window))
