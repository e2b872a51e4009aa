"""`foreword distill`: make a draft for any target, and measure it; the work itself needs the extra for real models."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from foreword.cli.commands import new_app
from foreword.cli.interrupts import quietly_interrupted
from foreword.cli.numbers import read_numbers
from foreword.extras import check_installed
from foreword.models.dtype import Dtype, exact_dtype
from foreword.telemetry.logs import LogFormat, LogLevel, configure_logs

app = new_app()

Target = Annotated[str, typer.Option(help="The target: embedded, a folder, a .gguf file or a hub id.")]
Device = Annotated[str, typer.Option(help="Where models run: cpu, cuda, cuda:N; auto takes a GPU if there is one.")]
Threads = Annotated[int, typer.Option(help="Threads of a forward pass; 0 takes all cores.", min=0)]
Seed = Annotated[int, typer.Option(help="Of prompts and of what is drawn.", min=0)]
Prompts = Annotated[Path | None, typer.Option(help="JSON lines with prompts; the built-in generator by default.")]
NewPrompts = Annotated[
    Path | None,
    typer.Option("--prompts", help="JSON lines with prompts; by default built-in ones that training never asks."),
]
Arithmetic = Annotated[str, typer.Option("--dtype", help="Arithmetic of the target: float32, bfloat16 or float16.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout.")]


@app.callback()
def distill() -> None:
    """Make a draft for a target: sample the target's own text, train a few of its layers on it, measure the result."""


@app.command()
def sample(
    corpus: Annotated[Path, typer.Argument(help="Folder for the text; what is there already counts.")],
    target: Target = "embedded",
    tokens: Annotated[int, typer.Option(help="Tokens that the target is to write.", min=1)] = 1_000_000,
    prompts: Prompts = None,
    seed: Seed = 0,
    dtype: Arithmetic = "bfloat16",
    shard: Annotated[int, typer.Option(help="Conversations of a file, written when all are over.", min=1)] = 128,
    side_by_side: Annotated[int, typer.Option(help="Conversations at a time.", min=1)] = 64,
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Let the target write text, with its 64 likeliest ids at every position; a run that was cut off goes on."""
    work = _work()
    work.sample(
        corpus,
        work.TargetChoice(target, exact_dtype(dtype), device, threads),
        tokens=tokens,
        prompts=prompts,
        plan=work.SamplingPlan(seed=seed, side_by_side=side_by_side, shard=shard),
    )


@app.command()
def train(
    out: Annotated[Path, typer.Argument(help="Folder for the draft, and for the checkpoint to go on from.")],
    corpus: Annotated[list[Path], typer.Option(help="Folder of sampled text; may be given several times.")],
    target: Target = "embedded",
    layers: Annotated[str, typer.Option(help="Layers of the target that the draft's begin as, from 0.")] = "0,10,20,29",
    head: Annotated[int, typer.Option(help="Ids that the draft can write.", min=1)] = 8192,
    epochs: Annotated[int, typer.Option(help="How often the text is gone through.", min=1)] = 2,
    sharpened: Annotated[float, typer.Option(help="Last share of steps, for 1 - Σ min(p, q).", min=0, max=1)] = 0.3,
    rate: Annotated[float, typer.Option(help="Largest learning rate, of matrices.", min=0)] = 5e-3,
    batch: Annotated[int, typer.Option(help="Tokens of a step.", min=64)] = 2048,
    seed: Seed = 0,
    name: Annotated[str, typer.Option(help="What requests call the draft; empty takes the target's name.")] = "",
    bfloat16: Annotated[
        bool, typer.Option(help="Matrix products in bfloat16: quicker on GPUs, and on CPUs with AVX512_BF16.")
    ] = False,
    rounding: Annotated[
        bool, typer.Option(help="Layers rounded to 4 bits, as they are served, in the sharpened steps.")
    ] = True,
    begin: Annotated[
        str, typer.Option(help="A draft whose weights the new one's begin as: its folder, or bundled.")
    ] = "",
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Train a draft on sampled text and write it; an interrupted run goes on, and ends with the same weights."""
    numbers = read_numbers("layers", layers, "numbers with commas, as 0,10,20,29")
    work = _work()
    training = work.TrainingPlan(
        epochs=epochs,
        sharpened=sharpened,
        tokens=batch,
        rate=rate,
        seed=seed,
        rounded=4 if rounding else None,
        bfloat16=bfloat16,
    )
    choice = work.TargetChoice(target, Dtype.FLOAT32, device, threads)
    work.train(out, corpus, choice, plan=work.StudentPlan(numbers, head, name, work.begun(begin), training))


@app.command("eval")
def evaluate(
    draft: Annotated[Path, typer.Argument(help="Folder of a draft, or bundled.")],
    target: Annotated[str, typer.Option(help="The target; empty takes the one that the draft was made from.")] = "",
    tokens: Annotated[int, typer.Option(help="Tokens that the target writes to measure it on.", min=100)] = 24_000,
    prompts: NewPrompts = None,
    corpus: Annotated[Path | None, typer.Option(help="Folder to keep that text in, or to find it.")] = None,
    dtype: Arithmetic = "bfloat16",
    device: Device = "auto",
    threads: Threads = 0,
    write: Annotated[
        bool, typer.Option("--write", help="Write the figures to draft.json, beside those of other texts.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure a draft on text that it was not trained on: overlap, agreement, cost, and the speed-up to expect."""
    work = _work()
    choice = work.TargetChoice(target, exact_dtype(dtype), device, threads)
    work.evaluate(draft, choice, work.Measuring(tokens, prompts, corpus), write=write, as_json=json)


@app.command()
def export(
    draft: Annotated[str, typer.Argument(help="Folder of a distilled draft.")],
    out: Annotated[Path, typer.Argument(help="Folder for the model.")],
    target: Annotated[str, typer.Option(help="The target; empty takes the one that the draft was made from.")] = "",
) -> None:
    """Write a draft as a plain model of Hugging Face, with the target's whole head, for what knows no other."""
    _work().export(draft, out, target=target)


def _work() -> Any:
    """Return the module that needs torch, or raise NotFound with how it is installed."""
    check_installed("torch", "transformers")
    configure_logs(LogLevel.WARNING, LogFormat.AUTO, stream=sys.stderr)
    with quietly_interrupted():
        from draft_service.training import work

    return work
