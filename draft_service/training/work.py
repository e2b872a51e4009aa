"""What the commands of `foreword distill` do: models are loaded, progress is shown, results are written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from draft_service.folder.bundled import draft_folder
from draft_service.folder.card import Measured, MeasuredText, read_card, write_card
from draft_service.folder.export import export_draft
from draft_service.folder.load import load_draft
from draft_service.training.comparing import Comparison, with_figures
from draft_service.training.corpus import Answer, Corpus
from draft_service.training.evaluating import figures_of, step_seconds, worth_of
from draft_service.training.folders import make_folder
from draft_service.training.making import StudentPlan, check_layers, check_text, make_draft
from draft_service.training.prompts import BUILT_IN, HELD_OUT, HELD_OUT_SEED, PromptGenerator, held_out
from draft_service.training.remaining import Remaining
from draft_service.training.sampling import FIRST_GUESS, Sampler, SamplingPlan, first_answers, sample_until
from draft_service.training.scripts import Scripts, read_prompts
from draft_service.training.trainer import Progress, TrainingPlan
from foreword.cli.model_progress import ModelProgress
from foreword.cli.output import stderr, stdout, write_json
from foreword.errors import InvalidField
from foreword.models.device_name import check_device_name
from foreword.models.dtype import Dtype
from foreword.models.load import layers_of, load_model
from foreword.models.local import check_there
from foreword.models.source import parse_source
from foreword.runner.budget import CacheBudget
from foreword.runner.build import BuiltRunner, build_runner
from foreword.runner.real import real_runner
from foreword.settings.environment import cache_folder
from foreword.testing.synthetic import Side
from foreword.values import replace

__all__ = ["Measuring", "SamplingPlan", "StudentPlan", "TargetChoice", "TrainingPlan"]


@dataclass(frozen=True, slots=True)
class TargetChoice:
    """A target, and how it runs; an empty source is that of the draft at hand."""

    source: str
    dtype: Dtype
    device: str
    threads: int
    """0 takes all cores."""

    def check(self) -> None:
        """Raise NotFound or InvalidField for what needs no model to be seen as wrong."""
        check_there(self.source, field="target")
        check_device_name(self.device)

    @property
    def cores(self) -> int:
        """Threads of a forward pass."""
        return self.threads or len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class Measuring:
    """Text to measure a draft on."""

    tokens: int
    prompts: Path | None
    """None takes those that training cannot ask."""
    corpus: Path | None
    """Where it is kept, or found; None keeps none."""


@dataclass(frozen=True, slots=True)
class Text:
    """What the target is to write."""

    tokens: int
    prompts: str
    """What they are called in the corpus."""
    scripts: Scripts


def sample(corpus: Path, target: TargetChoice, *, tokens: int, prompts: Path | None, plan: SamplingPlan) -> None:
    """Fill a corpus."""
    target.check()
    text = _text(tokens, prompts, PromptGenerator(plan.seed), BUILT_IN)
    make_folder(corpus, field="corpus")
    held = _sampled(_built(target), Corpus(corpus), plan, text)
    stderr().print(f"{corpus}: {held.tokens():,} tokens in {len(held.shards())} shards")


def train(out: Path, corpora: Sequence[Path], target: TargetChoice, *, plan: StudentPlan) -> None:
    """Train a draft and write it."""
    target.check()
    held = [Corpus(one) for one in corpora]
    check_text(held)
    source = parse_source(target.source, field="target")
    with ModelProgress() as progress:
        check_layers(plan.layers, layers_of(source, cache=cache_folder(), progress=progress))
        make_folder(out, field="out")
        loaded = load_model(
            source,
            dtype=target.dtype,
            cache=cache_folder(),
            threads=target.cores,
            progress=progress,
        )
    plan = replace(plan, name=plan.name or f"{loaded.info.name}-draft")
    with Remaining(stderr(), "step") as bar:

        def note(at: Progress) -> None:
            bar.at(at.step, at.steps, f"loss {at.loss:.3f}, refused {at.refusal:.3f}")

        card = make_draft(loaded, held, out, plan=plan, device=target.device, progress=note)
    stderr().print(f"{out}: {card.name}, {len(card.layers)} layers, {card.head} ids")


def evaluate(draft: Path, target: TargetChoice, on: Measuring, *, write: bool, as_json: bool) -> None:
    """Measure a draft on what its target writes, to prompts that training cannot ask if none are named."""
    draft = _distilled(str(draft))
    card = read_card(draft)
    target = replace(target, source=target.source or card.target.source)
    target.check()
    text = _text(on.tokens, on.prompts, held_out(), HELD_OUT)
    if on.corpus is not None:
        make_folder(on.corpus, field="corpus")
    built = _built(target)
    with tempfile.TemporaryDirectory() as temporary:
        # A shard is the least that is sampled: it has each law once, and no more than is asked for. Short passes, so
        # that an interruption is heard.
        corpus = Corpus(on.corpus or Path(temporary))
        shard = corpus.begun_with("shard") or max(len(SamplingPlan().laws), min(32, on.tokens // FIRST_GUESS))
        plan = SamplingPlan(seed=HELD_OUT_SEED, shard=shard, chunk=128)
        answers = first_answers(_sampled(built, corpus, plan, text), on.tokens)
    on_text = MeasuredText(
        prompts=on.prompts.name if on.prompts else text.prompts,
        prompts_digest=text.scripts.digest,
        tokens=on.tokens,
        dtype=built.info.dtype,
    )
    measured = Measured.model_validate({"text": on_text, **_figures(draft, target, built, answers)})
    if write:
        write_card(draft, with_figures(card, measured))
    found = Comparison(card, measured)
    if as_json:
        write_json(stdout(), {"draft": str(draft), **found.json()})
    else:
        stdout().print(found.shown(), markup=False)


def export(draft: str, out: Path, *, target: str) -> None:
    """Write a draft as a plain model; raises InvalidField for what is no distilled draft."""
    folder = _distilled(draft)
    if target:
        check_there(target, field="target")
    make_folder(out, field="out")
    if any(out.iterdir()):
        raise InvalidField("out", str(out), "a folder that is empty or not there yet")
    export_draft(folder, out, target=target, cache=cache_folder())
    files = [file for file in out.iterdir() if file.is_file()]
    stderr().print(f"{out}: {len(files)} files, {sum(file.stat().st_size for file in files) / 1e6:.1f} MB")


def _distilled(draft: str) -> Path:
    folder = draft_folder(draft)
    if folder is None:
        raise InvalidField("draft", draft, "a folder that foreword distill made")
    return folder


def _text(tokens: int, prompts: Path | None, built_in: Scripts, name: str) -> Text:
    return Text(tokens, name, built_in) if prompts is None else Text(tokens, str(prompts), read_prompts(prompts))


def begun(named: str) -> Path | None:
    """Return the folder of the draft that another one begins as; raise InvalidField for what is none."""
    if not named:
        return None
    folder = draft_folder(named)
    if folder is None:
        raise InvalidField("begin", named, "the folder of a distilled draft, or bundled")
    return folder


def _figures(draft: Path, target: TargetChoice, built: BuiltRunner, answers: Sequence[Answer]) -> dict[str, Any]:
    stderr().print(f"measure {draft.name} on {len(answers)} answers")
    loaded = load_draft(draft, target=target.source, cache=cache_folder(), threads=target.cores)
    found = worth_of(loaded, answers)
    info = loaded.info
    runner = real_runner(
        loaded.module,
        vocabulary_size=info.vocabulary_size,
        longest_context=info.longest_context,
        budget=CacheBudget(1024),
        bits=Dtype.INT4.bits,
    )
    return figures_of(found, cost=step_seconds(runner) / step_seconds(built.runner))


def _built(target: TargetChoice) -> BuiltRunner:
    source = parse_source(target.source, field="target")
    if source.synthetic is not None:
        raise InvalidField("target", target.source, "a real model")
    with ModelProgress() as progress:
        return build_runner(
            source,
            side=Side.TARGET,
            cache=cache_folder(),
            dtype=target.dtype,
            threads=target.cores,
            device=target.device,
            chunk=1024,
            budget=CacheBudget(64 * 1024),
            progress=progress,
        )


def _sampled(built: BuiltRunner, corpus: Corpus, plan: SamplingPlan, text: Text) -> Corpus:
    laws = [asdict(law) for law in plan.laws]
    # A corpus from before digests of prompts were kept goes on without; its name of them has to do.
    new = corpus.begun_with("prompts") is None or corpus.begun_with("prompts_digest") is not None
    corpus.claim(
        {
            "target": built.info.weights_digest,
            "dtype": built.info.dtype,
            "seed": plan.seed,
            "prompts": text.prompts,
            **({"prompts_digest": text.scripts.digest} if new else {}),
            "laws": [{name: law[name] for name in ("temperature", "top_p")} for law in laws],
            "most_tokens": plan.most_tokens,
            "shard": plan.shard,
        }
    )
    sampler = Sampler(built.runner, built.tokenizer, corpus, plan, text.scripts)
    with Remaining(stderr(), "token") as bar:
        sample_until(sampler, corpus, tokens=text.tokens, shard=plan.shard, progress=bar.at)
    return corpus
