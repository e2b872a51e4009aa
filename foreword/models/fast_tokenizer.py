"""Tokenizer of a real model from the files of its folder, by the `tokenizers` library alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from foreword.errors import Corrupted, InvalidField, NotFound
from foreword.models.chat import ChatTemplate
from foreword.models.generation_config import end_ids, generation_defaults
from foreword.models.json_file import read_json
from foreword.models.text_stream import WindowStream
from foreword.models.tokenizer import ChatMessage, GenerationDefaults, TextStream, digest_of

_TEMPLATE_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token")


class FastTokenizer:
    """A `Tokenizer` on tokenizer.json; orchestrators need neither torch nor transformers for it."""

    def __init__(self, folder: Path) -> None:
        """Read the tokenizer of `folder`; raise NotFound or Corrupted, naming the file."""
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise NotFound(f"model {folder}: no tokenizer.json")
        try:
            self._backend = Tokenizer.from_file(str(path))
        except Exception as error:
            # The library raises plain Exception for whatever it cannot read.
            raise Corrupted(f"{path}: got what is no tokenizer ({error}), wanted the format of `tokenizers`") from error
        # Some files carry what their makers trained with; a prompt is never cut or filled up.
        self._backend.no_truncation()
        self._backend.no_padding()
        self._folder = folder
        self._config = read_json(folder / "tokenizer_config.json")
        added = self._backend.get_added_tokens_decoder()
        self._special = frozenset(token for token, added_token in added.items() if added_token.special)
        self._added = {token: added_token.content for token, added_token in added.items()}
        self._size = 1 + max(self._backend.get_vocab(with_added_tokens=True).values())
        self._eos = end_ids(folder, self._named_id("eos_token"), vocabulary_size=self._size)
        self._defaults = generation_defaults(folder)
        self._leading = self._named_id("bos_token") if self._config.get("add_bos_token") is True else None

    @property
    def vocabulary_size(self) -> int:
        """One more than the largest id."""
        return self._size

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Ids that end a text, by generation_config.json, config.json and the tokenizer."""
        return self._eos

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that stand for no text."""
        return self._special

    @cached_property
    def digest(self) -> str:
        """`digest_of` what the ids mean."""
        return digest_of((self.token_bytes(token) for token in range(self._size)), self._special)

    @property
    def has_chat_template(self) -> bool:
        """Whether the folder has a chat template."""
        return self._template is not None

    @property
    def defaults(self) -> GenerationDefaults:
        """Sampling parameters of generation_config.json."""
        return self._defaults

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the ids of a prompt, with the leading special ids that the model wants."""
        ids = self._ids(text)
        if self._leading is not None and ids[:1] != [self._leading]:
            ids = [self._leading, *ids]
        return tuple(ids)

    def chat(self, messages: Sequence[ChatMessage]) -> tuple[int, ...]:
        """Return the ids of a conversation up to where the assistant answers."""
        if self._template is None:
            raise InvalidField("messages", len(messages), "a prompt: this model has no chat template")
        return tuple(self._ids(self._template.render(messages), add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids` without special ids."""
        text: str = self._backend.decode(list(ids), skip_special_tokens=True)
        return text

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes that an id stands for; its name where it is added, nothing where it does not exist."""
        added = self._added.get(token)
        if added is not None:
            return added.encode()
        piece: str | None = self._backend.id_to_token(token)
        if piece is None:
            return b""
        return _from_byte_level(piece) if self._is_byte_level else piece.encode()

    def stream(self) -> TextStream:
        """Start the text of a new output."""
        return WindowStream(self.decode)

    @cached_property
    def _is_byte_level(self) -> bool:
        decoder = json.loads(self._backend.to_str())["decoder"] or {}
        return any(part.get("type") == "ByteLevel" for part in (decoder, *decoder.get("decoders", ())))

    @cached_property
    def _template(self) -> ChatTemplate | None:
        path = self._folder / "chat_template.jinja"
        source = path.read_text() if path.is_file() else self._config.get("chat_template")
        if isinstance(source, list):  # several templates by name
            source = next((entry["template"] for entry in source if entry["name"] == "default"), None)
        if source is None:
            return None
        texts = {name: _content(self._config.get(name)) for name in _TEMPLATE_NAMES}
        return ChatTemplate(source, {name: text for name, text in texts.items() if text is not None})

    def _ids(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Encode by the call for many texts: that for one keeps the interpreter lock, 5 s for a text of 1 MB."""
        ids: list[int] = self._backend.encode_batch_fast([text], add_special_tokens=add_special_tokens)[0].ids
        return ids

    def _named_id(self, name: str) -> int | None:
        text = _content(self._config.get(name))
        token: int | None = None if text is None else self._backend.token_to_id(text)
        return token


def _content(value: Any) -> str | None:
    """Return a special token's text, which configs hold plainly or in an object."""
    return value.get("content") if isinstance(value, dict) else value


@cache
def _byte_level_alphabet() -> dict[str, int]:
    """Return letter → byte of GPT-2's alphabet: printable bytes stand for themselves, the others from U+0100 on."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in kept]
    return {chr(byte): byte for byte in kept} | {chr(0x100 + i): byte for i, byte in enumerate(moved)}


def _from_byte_level(piece: str) -> bytes:
    alphabet = _byte_level_alphabet()
    return bytes(alphabet[letter] for letter in piece) if set(piece) <= alphabet.keys() else piece.encode()
