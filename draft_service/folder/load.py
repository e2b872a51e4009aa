"""From a folder that distillation made to a model that runs: its layers between its target's embedding and head."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
import torch
from torch import nn
from transformers import PreTrainedModel

from draft_service.drafters.vocabulary import VocabularyMap
from draft_service.folder.card import DraftCard, read_card
from draft_service.folder.student import Student
from draft_service.folder.target import Frame, load_frame
from draft_service.folder.weights import fill, read_weights
from foreword.errors import Mismatch
from foreword.models.progress import Progress, silent
from foreword.models.source import parse_source
from foreword.protocol.info import ModelInfo
from foreword.values import replace

_log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedDraft:
    """A distilled draft in memory, in float32 on the CPU."""

    module: PreTrainedModel
    """Its logits are those of the vocabulary map's columns."""
    info: ModelInfo
    vocabulary: VocabularyMap
    card: DraftCard


def load_draft(
    folder: Path, *, target: str = "", cache: Path, threads: int | None = None, progress: Progress = silent
) -> LoadedDraft:
    """Load a draft, and of its target what it takes over; `target` is a source, empty for the one it was made from.

    Raises Corrupted for files that are not as they were written, Mismatch for another target or another vocabulary
    map, and what loading the target raises.
    """
    card = read_card(folder)
    weights, ids = read_weights(folder, card)
    vocabulary = VocabularyMap(ids, card.target.vocabulary_size)
    if vocabulary.digest != card.vocabulary_map_digest or len(ids) != card.head:
        raise Mismatch(
            f"draft {folder}: vocabulary map of {len(ids)} ids with digest {vocabulary.digest[:12]}, "
            f"wanted {card.head} with {card.vocabulary_map_digest[:12]}"
        )
    frame = load_frame(parse_source(target or card.target.source), cache=cache, threads=threads, progress=progress)
    _check_target(card, frame, folder)
    student = Student(frame.module, [0] * len(card.layers), ids.tolist())
    if card.layer_types is not None:
        student.config.layer_types = list(card.layer_types)
    fill(student.trained(), weights, str(folder))
    info = replace(
        frame.info,
        name=card.name,
        source=str(folder),
        weights_digest=card.weights_digest,
        made_for=frame.info.weights_digest,
    )
    return LoadedDraft(as_causal_model(frame.module, student), info, vocabulary, card)


def as_causal_model(frame: PreTrainedModel, student: Student) -> PreTrainedModel:
    """Return a causal LM that computes what the student does; `frame` is changed into it."""
    rows = student.get_buffer("head")
    head = nn.Linear(rows.shape[1], rows.shape[0], bias=False)
    head.weight = nn.Parameter(rows, requires_grad=False)
    model: Any = frame
    student.config.tie_word_embeddings = False
    model.config = student.config
    model.model = student.decoder
    model.set_output_embeddings(head)
    model.to(torch.float32).requires_grad_(False).train(mode=False)
    return frame


def _check_target(card: DraftCard, frame: Frame, folder: Path) -> None:
    wanted, seen = card.target, frame.info
    if (seen.vocabulary_size, seen.tokenizer_digest) != (wanted.vocabulary_size, wanted.tokenizer_digest):
        raise Mismatch(
            f"draft {folder}: made for a target with {wanted.vocabulary_size} ids and tokenizer "
            f"{wanted.tokenizer_digest[:12]}; {seen.source} has {seen.vocabulary_size} and {seen.tokenizer_digest[:12]}"
        )
    if frame.embedding_digest != wanted.embedding_digest:
        raise Mismatch(
            f"draft {folder}: made for a target whose embedding has digest {wanted.embedding_digest[:12]} "
            f"({wanted.source}); that of {seen.source} has {frame.embedding_digest[:12]}"
        )
    if seen.weights_digest != wanted.weights_digest:
        _log.warning(
            "the draft's target has other files or another config than when it was made; its embedding is the same",
            draft=str(folder),
            made_with=wanted.weights_digest,
            loaded=seen.weights_digest,
        )
