"""`foreword distill`: make a draft for any target, and measure it."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from draft_service.drafters.build import draft_folder
from draft_service.folder.card import CARD, read_card, write_card
from draft_service.folder.export import export_draft
from draft_service.folder.load import load_draft
from draft_service.training.corpus import Answer, Corpus
from draft_service.training.evaluating import HELD_OUT_SEED, figures_of, step_seconds, worth_of
from draft_service.training.making import StudentPlan, make_draft
from draft_service.training.remaining import Remaining
from draft_service.training.sampling import Sampler, SamplingPlan, sample_until
from draft_service.training.scripts import read_prompts
from draft_service.training.trainer import Progress, TrainingPlan
from foreword.cli.commands import new_app
from foreword.cli.model_progress import ModelProgress
from foreword.cli.output import stderr, stdout, write_json
from foreword.errors import InvalidField
from foreword.models.dtype import Dtype
from foreword.models.load import load_model
from foreword.models.source import parse_source
from foreword.runner.budget import CacheBudget
from foreword.runner.build import BuiltRunner, build_runner
from foreword.runner.real import real_runner
from foreword.settings.environment import cache_folder
from foreword.telemetry.logs import LogFormat, LogLevel, configure_logs
from foreword.testing.synthetic import Side

app = new_app()

Target = Annotated[str, typer.Option(help="The target: embedded, a folder, a .gguf file or a hub id.")]
Device = Annotated[str, typer.Option(help="Where models run: cpu, cuda, cuda:N; auto takes a GPU if there is one.")]
Threads = Annotated[int, typer.Option(help="Threads of a forward pass; 0 takes all cores.", min=0)]
Seed = Annotated[int, typer.Option(help="Of prompts and of what is drawn.", min=0)]
Prompts = Annotated[Path | None, typer.Option(help="JSON lines with prompts; the built-in generator by default.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout.")]


@app.callback()
def distill() -> None:
    """Make a draft for a target: sample the target's own text, train a few of its layers on it, measure the result."""
    configure_logs(LogLevel.WARNING, LogFormat.AUTO, stream=sys.stderr)


@app.command()
def sample(
    corpus: Annotated[Path, typer.Argument(help="Folder for the text; what is there already counts.")],
    target: Target = "embedded",
    tokens: Annotated[int, typer.Option(help="Tokens that the target is to write.", min=1)] = 1_000_000,
    prompts: Prompts = None,
    seed: Seed = 0,
    dtype: Annotated[Dtype, typer.Option(help="Arithmetic of the target.")] = Dtype.BFLOAT16,
    shard: Annotated[int, typer.Option(help="Conversations of a file, written when all are over.", min=1)] = 128,
    side_by_side: Annotated[int, typer.Option(help="Conversations at a time.", min=1)] = 64,
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Let the target write text, with its 64 likeliest ids at every position; a run that was cut off goes on."""
    if seed == HELD_OUT_SEED:
        raise InvalidField("seed", seed, "another one: with this one drafts are measured, on what they have not seen")
    plan = SamplingPlan(seed=seed, side_by_side=side_by_side, shard=shard)
    with ModelProgress() as progress:
        built = _runner(target, dtype, device, threads, progress)
    held = _sampled(built, Corpus(corpus), plan, tokens=tokens, prompts=prompts)
    stderr().print(f"{corpus}: {held.tokens():,} tokens in {len(held.shards())} shards")


@app.command()
def train(
    out: Annotated[Path, typer.Argument(help="Folder for the draft, and for the checkpoint to go on from.")],
    corpus: Annotated[list[Path], typer.Option(help="Folder of sampled text; may be given several times.")],
    target: Target = "embedded",
    layers: Annotated[str, typer.Option(help="Layers of the target that the draft's begin as, from 0.")] = "0,10,29",
    head: Annotated[int, typer.Option(help="Ids that the draft can write.", min=1)] = 8192,
    epochs: Annotated[int, typer.Option(help="How often the text is gone through.", min=1)] = 3,
    sharpened: Annotated[float, typer.Option(help="Last share of steps, for 1 - Σ min(p, q).", min=0, max=1)] = 0.3,
    rate: Annotated[float, typer.Option(help="Largest learning rate.", min=0.000001)] = 1.5e-3,
    batch: Annotated[int, typer.Option(help="Tokens of a step.", min=64)] = 8192,
    seed: Seed = 0,
    name: Annotated[str, typer.Option(help="What requests call the draft; empty takes the target's name.")] = "",
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Train a draft on sampled text and write it; an interrupted run goes on, and ends with the same weights."""
    numbers = _numbers(layers)
    with ModelProgress() as progress:
        loaded = load_model(
            parse_source(target),
            dtype=Dtype.FLOAT32,
            cache=cache_folder(),
            threads=_threads(threads),
            progress=progress,
        )
    training = TrainingPlan(epochs=epochs, sharpened=sharpened, tokens=batch, rate=rate, seed=seed)
    plan = StudentPlan(numbers, head, name or f"{loaded.info.name}-draft", training)
    with Remaining(stderr(), "step") as bar:

        def progress_of(at: Progress) -> None:
            bar.at(at.step, at.steps, f"loss {at.loss:.3f}, refused {at.refusal:.3f}")

        card = make_draft(loaded, [Corpus(one) for one in corpus], out, plan=plan, device=device, progress=progress_of)
    size = sum(file.stat().st_size for file in out.iterdir() if file.suffix in (".json", ".safetensors"))
    stderr().print(
        f"{out}: {card.name}, {len(card.layers)} layers, {card.head} ids, {size / 1e6:.1f} MB with checkpoint"
    )


@app.command("eval")
def evaluate(
    draft: Annotated[Path, typer.Argument(help="Folder of a draft.")],
    target: Annotated[str, typer.Option(help="The target; empty takes the one that the draft was made from.")] = "",
    tokens: Annotated[int, typer.Option(help="Tokens that the target writes to measure it on.", min=100)] = 24_000,
    prompts: Prompts = None,
    corpus: Annotated[Path | None, typer.Option(help="Folder to keep that text in, or to find it.")] = None,
    dtype: Annotated[Dtype, typer.Option(help="Arithmetic of the target.")] = Dtype.BFLOAT16,
    device: Device = "auto",
    threads: Threads = 0,
    write: Annotated[bool, typer.Option("--write", help=f"Write the figures to {CARD}.")] = False,
    json: Json = False,
) -> None:
    """Measure a draft on text that it was not trained on: overlap, agreement, cost, and the speed-up to expect."""
    card = read_card(draft)
    source = target or card.target.source
    with ModelProgress() as progress:
        built = _runner(source, dtype, device, threads, progress)
    with tempfile.TemporaryDirectory() as temporary:
        plan = SamplingPlan(seed=HELD_OUT_SEED, shard=32)
        held = _sampled(built, Corpus(corpus or Path(temporary)), plan, tokens=tokens, prompts=prompts)
        answers = [answer for shard in held.shards() for answer in held.read(shard)]
    figures = _figures(draft, source, built, answers, threads)
    if write:
        write_card(draft, card.model_copy(update={"figures": figures}))
    if json:
        write_json(stdout(), {"draft": str(draft), "written": card.figures, "measured": figures})
    else:
        _show(figures, card.figures)


@app.command()
def export(
    draft: Annotated[str, typer.Argument(help="A distilled draft: bundled, or its folder.")],
    out: Annotated[Path, typer.Argument(help="Folder for the model.")],
    target: Annotated[str, typer.Option(help="The target; empty takes the one that the draft was made from.")] = "",
) -> None:
    """Write a draft as a plain model of Hugging Face, with the target's whole head, for what knows no other."""
    folder = draft_folder(draft)
    if folder is None:
        raise InvalidField("draft", draft, "bundled, or a folder that foreword distill made")
    export_draft(folder, out, target=target, cache=cache_folder())


def _figures(draft: Path, source: str, built: BuiltRunner, answers: Sequence[Answer], threads: int) -> dict[str, Any]:
    loaded = load_draft(draft, target=source, cache=cache_folder(), threads=_threads(threads))
    found = worth_of(loaded, answers)
    info = loaded.info
    runner = real_runner(
        loaded.module,
        vocabulary_size=info.vocabulary_size,
        longest_context=info.longest_context,
        budget=CacheBudget(1024),
        int8=True,
    )
    return figures_of(found, cost=step_seconds(runner) / step_seconds(built.runner))


def _runner(target: str, dtype: Dtype, device: str, threads: int, progress: ModelProgress) -> BuiltRunner:
    source = parse_source(target)
    if source.synthetic is not None:
        raise InvalidField("target", target, "a real model")
    return build_runner(
        source,
        side=Side.TARGET,
        cache=cache_folder(),
        dtype=dtype,
        threads=_threads(threads),
        device=device,
        chunk=1024,
        budget=CacheBudget(64 * 1024),
        progress=progress,
    )


def _sampled(built: BuiltRunner, corpus: Corpus, plan: SamplingPlan, *, tokens: int, prompts: Path | None) -> Corpus:
    scripts = None if prompts is None else read_prompts(prompts)
    laws = [asdict(law) for law in plan.laws]
    corpus.claim(
        {
            "target": built.info.weights_digest,
            "dtype": built.info.dtype,
            "seed": plan.seed,
            "prompts": "built in" if prompts is None else str(prompts),
            "laws": [{name: law[name] for name in ("temperature", "top_p")} for law in laws],
            "most_tokens": plan.most_tokens,
            "shard": plan.shard,
        }
    )
    sampler = Sampler(built.runner, built.tokenizer, corpus, plan, scripts)
    with Remaining(stderr(), "token") as bar:
        sample_until(sampler, corpus, tokens=tokens, shard=plan.shard, progress=bar.at)
    return corpus


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidField("layers", text, "numbers with commas, as 0,10,29") from None


def _threads(threads: int) -> int:
    return threads or len(os.sched_getaffinity(0))


def _show(figures: dict[str, Any], written: dict[str, Any]) -> None:
    console = stdout()
    before = f" (written: {written['overlap']:.3f})" if "overlap" in written else ""
    console.print(f"overlap Σ min(p, q) at temperature 1  {figures['overlap']:.3f}{before}")
    console.print(f"agreement at temperature 0            {figures['agreement']:.3f}")
    console.print(f"mass that the head covers             {figures['covered']:.3f}")
    console.print(f"cost of a step, in target steps       {figures['cost_ratio']:.3f}")
    best = figures["expected"]
    console.print(f"expected speed-up                     {best['speedup']:.2f} at γ {best['gamma']}")
    for name, one in figures["by"].items():
        console.print(
            f"  {name:<16} served {one['served']:.3f}  agreement {one['agreement']:.3f}  {one['positions']:,}"
        )
