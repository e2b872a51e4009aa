"""From a corpus to a draft on disk: which ids the head gets, training, and what is written down about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from draft_service.drafters.vocabulary import VocabularyMap
from draft_service.folder.card import DraftCard, TargetCard, read_card, write_card
from draft_service.folder.student import Student
from draft_service.folder.target import embedding_digest
from draft_service.folder.weights import fill, read_weights, write_weights
from draft_service.training.corpus import Answer, Corpus
from draft_service.training.trainer import Progress, Trainer, TrainingPlan
from foreword.errors import InvalidField, NotFound
from foreword.models.device import find_device
from foreword.models.load import LoadedModel


@dataclass(frozen=True, slots=True)
class StudentPlan:
    """What is trained, and how."""

    layers: tuple[int, ...]
    """Of the target, from 0, that the student's begin as."""
    head: int = 8192
    """Ids that it can draw: those that the target writes most."""
    name: str = "draft"
    begin: Path | None = None
    """Folder of a draft of as many layers whose weights the student's begin as, instead of the target's."""
    training: TrainingPlan = field(default_factory=TrainingPlan)


def make_draft(
    target: LoadedModel,
    corpora: Sequence[Corpus],
    out: Path,
    *,
    plan: StudentPlan,
    device: str = "cpu",
    progress: Callable[[Progress], None],
) -> DraftCard:
    """Train a draft and write it to the folder `out`, where the checkpoint is kept that a second call goes on from.

    Raises NotFound for an empty corpus, InvalidField for layers that the target lacks or a checkpoint of another run.
    """
    check_text(corpora)
    answers = [answer for corpus in corpora for shard in corpus.shards() for answer in corpus.read(shard)]
    check_layers(plan.layers, int(target.module.config.get_text_config().num_hidden_layers))
    ids = most_frequent(answers, plan.head, always=target.info.eos_ids)
    out.mkdir(parents=True, exist_ok=True)
    student = Student(target.module, plan.layers, ids)
    origin: dict[str, Any] = {"layers": plan.layers, "target": target.info.weights_digest}
    if plan.begin is not None:
        origin["begin"] = _begin_as(student, plan.begin)
    student.to(find_device(device))
    checkpoint = out / "checkpoint.safetensors"
    trainer = Trainer(student, answers, ids, plan=plan.training, origin=origin, checkpoint=checkpoint)
    trainer.run(progress)
    tokens = sum(len(answer.output) for answer in answers)
    recipe = {
        "tokens": tokens,
        "answers_by_temperature": _by_temperature(answers),
        "prompts_digests": _prompts(corpora),
        "training": asdict(plan.training),
        "begun_as": origin.get("begin"),
        "torch": torch.__version__,
    }
    return _write(target, student, ids, out, plan=plan, recipe=recipe)


def _begin_as(student: Student, folder: Path) -> str:
    """Give a student the weights of a draft, and return their digest; raise what reading it raises, Mismatch too."""
    card = read_card(folder)
    weights, _ = read_weights(folder, card)
    fill(student.trained(), weights, str(folder))
    return card.weights_digest


def check_text(corpora: Sequence[Corpus]) -> None:
    """Raise InvalidField for a corpus that is no folder, NotFound if none of them has a text."""
    for corpus in corpora:
        if not corpus.folder.is_dir():
            raise InvalidField("corpus", str(corpus.folder), "a folder of sampled text: sample first")
    if not any(corpus.shards() for corpus in corpora):
        raise NotFound(
            f"corpus {', '.join(str(corpus.folder) for corpus in corpora)}: no text, wanted some: sample first"
        )


def check_layers(layers: Sequence[int], held: int) -> None:
    """Raise InvalidField for numbers that are not of layers of a target that has `held` of them."""
    if not layers or any(not 0 <= number < held for number in layers):
        raise InvalidField("layers", ",".join(map(str, layers)), f"numbers from 0 to {held - 1}, with commas")


def most_frequent(answers: Iterable[Answer], count: int, *, always: Iterable[int]) -> list[int]:
    """Return the ids that the target writes most, and those that must be there, ascending; at most `count`."""
    seen: Counter[int] = Counter()
    for answer in answers:
        seen.update(answer.output.tolist())
    kept = dict.fromkeys(always)
    for token, _ in sorted(seen.items(), key=lambda item: (-item[1], item[0])):
        if len(kept) >= count:
            break
        kept.setdefault(token)
    return sorted(kept)


def _prompts(corpora: Sequence[Corpus]) -> list[str]:
    """Return which prompts were answered, as far as the corpora say: with them the draft cannot be tested."""
    digests = [corpus.begun_with("prompts_digest") for corpus in corpora]
    return sorted({digest for digest in digests if isinstance(digest, str)})


def _by_temperature(answers: Sequence[Answer]) -> Mapping[str, int]:
    return dict(sorted(Counter(f"{answer.temperature:g}" for answer in answers).items()))


def _write(
    target: LoadedModel, student: Student, ids: Sequence[int], out: Path, *, plan: StudentPlan, recipe: dict[str, Any]
) -> DraftCard:
    array = np.array(ids, np.int32)
    digest = write_weights(out, student.trained(), array)
    info = target.info
    types = getattr(student.config, "layer_types", None)
    card = DraftCard(
        name=plan.name,
        target=TargetCard(
            source=info.source,
            weights_digest=info.weights_digest,
            embedding_digest=embedding_digest(target.module),
            tokenizer_digest=info.tokenizer_digest,
            vocabulary_size=info.vocabulary_size,
        ),
        layers=plan.layers,
        layer_types=None if types is None else tuple(types),
        head=len(ids),
        vocabulary_map_digest=VocabularyMap(array, info.vocabulary_size).digest,
        weights_digest=digest,
        recipe=recipe,
    )
    write_card(out, card)
    return card
