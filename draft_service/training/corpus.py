"""A folder of sampled text: shards of conversations, each written whole, so that sampling can go on where it ended."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import safe_open
from safetensors.numpy import save_file

from draft_service.training.folders import make_folder
from foreword.errors import InvalidField
from foreword.models.json_file import read_json
from foreword.models.weights_file import write_whole

TOP = 64
"""Probabilities of the target that are kept at every position."""
_NO_IDS = np.zeros(0, np.uint32)
_NO_TOPS = np.zeros((0, TOP), np.uint32)


@dataclass(frozen=True, slots=True)
class Answer:
    """One text of the target, with its law at every position of it."""

    number: int
    """Of the conversation."""
    kind: str
    temperature: float
    top_p: float
    prompt: npt.NDArray[np.uint32]
    output: npt.NDArray[np.uint32]
    ids: npt.NDArray[np.uint32]
    """[output, TOP], likeliest first."""
    logprobs: npt.NDArray[np.float16]
    """[output, TOP], natural logarithms at temperature 1, of the whole vocabulary."""


class Corpus:
    """Shards by number; a shard is there or is not. Reading makes no folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def shards(self) -> list[int]:
        """Return the numbers of what is there, in order."""
        return sorted(int(path.stem) for path in self.folder.glob("*.safetensors"))

    def tokens(self) -> int:
        """Return how many tokens the target wrote in all of it."""
        return sum(int(self._array(shard, "lengths")[:, 1].sum()) for shard in self.shards())

    def claim(self, made_with: Mapping[str, Any]) -> None:
        """Say how the corpus is made, in a file that appears whole or not at all.

        Raises InvalidField if it was begun in another way, which must not be mixed, Corrupted if the file does not say.
        """
        make_folder(self.folder, field="corpus")
        path, wanted = self.folder / "corpus.json", json.dumps(made_with, indent=2, sort_keys=True)
        if not path.exists():
            partial = path.with_suffix(".partial")
            partial.write_text(wanted + "\n", "utf-8")
            partial.replace(path)
            return
        begun = read_json(path)
        for name, value in json.loads(wanted).items():
            if begun.get(name) != value:
                raise InvalidField(name, value, f"{begun.get(name)!r}, with which {self.folder} was begun")

    def begun_with(self, name: str) -> Any:
        """Return what the corpus was begun with under this name; None if it is new. Raises Corrupted."""
        path = self.folder / "corpus.json"
        return read_json(path).get(name) if path.exists() else None

    def write(self, shard: int, answers: Sequence[Answer]) -> None:
        """Write a shard; it appears whole or not at all."""
        make_folder(self.folder, field="corpus")
        lengths = [(len(answer.prompt), len(answer.output)) for answer in answers]
        tensors = {
            "lengths": np.array(lengths, np.int32).reshape(-1, 2),
            "prompts": np.concatenate([_NO_IDS, *(answer.prompt for answer in answers)]),
            "outputs": np.concatenate([_NO_IDS, *(answer.output for answer in answers)]),
            "ids": np.concatenate([_NO_TOPS, *(answer.ids for answer in answers)]),
            "logprobs": np.concatenate([_NO_TOPS.astype(np.float16), *(answer.logprobs for answer in answers)]),
        }
        about = [{"number": a.number, "kind": a.kind, "temperature": a.temperature, "top_p": a.top_p} for a in answers]
        metadata = {"answers": json.dumps(about)}
        write_whole(self._path(shard), lambda partial: save_file(tensors, partial, metadata=metadata))

    def read(self, shard: int) -> Iterator[Answer]:
        """Return the answers of a shard."""
        with safe_open(self._path(shard), framework="numpy") as file:
            about = json.loads(file.metadata()["answers"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a mapping
        prompt = output = 0
        for one, (prompted, written) in zip(about, arrays["lengths"], strict=True):
            part = slice(output, output + written)
            yield Answer(
                prompt=arrays["prompts"][prompt : prompt + prompted],
                output=arrays["outputs"][part],
                ids=arrays["ids"][part],
                logprobs=arrays["logprobs"][part],
                **one,
            )
            prompt, output = prompt + prompted, output + written

    def _array(self, shard: int, name: str) -> npt.NDArray[Any]:
        with safe_open(self._path(shard), framework="numpy") as file:
            array: npt.NDArray[Any] = file.get_tensor(name)
            return array

    def _path(self, shard: int) -> Path:
        return self.folder / f"{shard:06d}.safetensors"


def digest_of(answers: Iterable[Answer]) -> str:
    """Return the SHA-256, in hexadecimal, of texts and laws in their order: what a student learns from."""
    digest = hashlib.sha256()
    for one in answers:
        digest.update(f"{one.temperature} {one.top_p} {len(one.prompt)} {len(one.output)}\n".encode())
        for array in (one.prompt, one.output, one.ids, one.logprobs):
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
