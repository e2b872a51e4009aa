"""Text of an output, id by id, for any tokenizer that can decode a sequence.

A byte-level tokenizer may spread one character over several ids; until the last one is there, decoding shows U+FFFD in
its place, some decoders for the whole run of bytes that it ends. So U+FFFD at the end is held back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

_UNKNOWN = "\N{REPLACEMENT CHARACTER}"
_LACKING = 3
"""Most bytes, and so ids, that are there of a character that is not complete."""
_CONTEXT = 6
"""Ids kept for the decoder to see what stood before: some write a leading space only inside a text."""
_WINDOW, _LARGEST_WINDOW = 32, 256
"""Ids from which the window is cut where it can be, and where it must be."""


class WindowStream:
    """A `TextStream` that decodes the last few ids at every push."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._window: list[int] = []
        self._shown = 0  # characters of the window's text that were returned, or stood before the window was cut
        self._waiting = 0  # ids since text was last returned

    def push(self, token: int) -> str:
        """Return the text that is decided by now, "" while a character is incomplete."""
        self._window.append(token)
        self._waiting += 1
        text = self._decode(self._window)
        # After more ids than a character can lack, what is oldest is no part of one.
        lowest = self._shown if self._waiting <= _LACKING else max(self._shown, len(text) - _LACKING)
        end = len(text)
        while end > lowest and text[end - 1] == _UNKNOWN:
            end -= 1
        piece = text[self._shown : end]
        if piece:
            self._shown, self._waiting = end, 0
        if end == len(text) and len(self._window) >= _WINDOW:
            self._cut()
        return piece

    def finish(self) -> str:
        """Return what was held back; an incomplete character becomes U+FFFD."""
        rest = self._decode(self._window)[self._shown :]
        self._window, self._shown, self._waiting = [], 0, 0
        return rest

    def _cut(self) -> None:
        """Forget all but the last ids, from one on that begins a character."""
        must = len(self._window) >= _LARGEST_WINDOW
        for count in range(_CONTEXT, len(self._window)):
            text = self._decode(self._window[-count:])
            if must or _UNKNOWN not in text:
                self._window, self._shown = self._window[-count:], len(text)
                return
