"""Distillation in small: what is asked, sampled, kept, and learned; and that an interruption changes nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from draft_service.folder.student import Student
from draft_service.training.batches import batches
from draft_service.training.corpus import TOP, Answer, Corpus
from draft_service.training.losses import Teacher, divergence, refusal
from draft_service.training.measuring import worth
from draft_service.training.picking import pick
from draft_service.training.prompts import FREE, PromptGenerator
from draft_service.training.rounding import rounded as rounding
from draft_service.training.sampling import Sampler, SamplingPlan
from draft_service.training.trainer import Progress, Trainer, TrainingPlan
from foreword.errors import InvalidField
from foreword.laws.parameters import LawParameters
from foreword.models.source import parse_source
from foreword.runner.build import build_runner
from foreword.runner.kernels.codes import Bits
from foreword.runner.narrow import narrowed
from foreword.testing.synthetic import Side
from foreword.values import replace
from tests.unit.runner.tiny import V, config, module


def test_scripts_are_a_function_of_their_number_and_of_many_kinds() -> None:
    generator = PromptGenerator(3)
    scripts = [generator.script(number) for number in range(600)]
    assert scripts == [PromptGenerator(3).script(number) for number in range(600)]
    assert scripts != [PromptGenerator(4).script(number) for number in range(600)]
    kinds = Counter(ask.kind for script in scripts for ask in script)
    assert set(kinds) == {FREE, *(kind.name for kind in generator.kinds)}
    assert len({ask.text for script in scripts for ask in script}) > 350
    for script in scripts:
        for ask in script:
            assert set(re.findall(r"\{(\w+)\}", ask.text)) <= {"previous"}
        assert "{previous}" not in script[0].text


def lawful(temperature: float, top_p: float | None = None) -> LawParameters:
    return LawParameters(temperature=temperature, top_p=top_p)


@pytest.mark.parametrize("law", [lawful(0.0), lawful(0.7, 0.9), lawful(1.0)])
def test_picked_tokens_have_their_law(law: LawParameters) -> None:
    logits = np.random.default_rng(0).normal(0, 2, (1, 40)).astype(np.float32)
    scores = logits[0].astype(float)
    p = np.exp((scores - scores.max()) / (law.temperature or 1e-3))
    p /= p.sum()
    if law.top_p is not None:
        order = np.argsort(-p)
        p[order[np.searchsorted(np.cumsum(p[order]), law.top_p) + 1 :]] = 0
        p /= p.sum()
    numbers = (np.arange(20_000) + 0.5) / 20_000
    found = np.bincount([pick(logits, [law], [u], top=4)[0].token for u in numbers], minlength=40) / len(numbers)
    assert abs(found - p).sum() / 2 < 2e-3


def test_what_lies_behind_the_likeliest_is_drawn_too() -> None:
    logits = np.zeros((1, 3000), np.float32)
    drawn = {pick(logits, [lawful(1.0)], [u], top=4)[0].token for u in (np.arange(3000) + 0.5) / 3000}
    assert len(drawn) > 2900


def sampler(folder: Path) -> tuple[Sampler, Corpus]:
    built = build_runner(parse_source("synthetic:vocab=200,eos=0.05,step_ms=0"), side=Side.TARGET, cache=folder)
    corpus = Corpus(folder)
    plan = SamplingPlan(side_by_side=4, shard=6, most_tokens=24)
    return Sampler(built.runner, built.tokenizer, corpus, plan), corpus


def test_sampling_goes_on_where_it_ended(tmp_path: Path) -> None:
    whole, parts = sampler(tmp_path / "a"), sampler(tmp_path / "b")
    heard: list[tuple[int, int]] = []
    whole[0].run(range(3), lambda *at: heard.append(at))
    assert heard[0] == (0, 0)
    assert heard[-1] == (3, whole[1].tokens())
    assert [at for at in heard if at[1] > 0 and at[0] == 0], "of what is written, too"
    parts[0].run([1], lambda *_: None)
    parts[0].run(range(3), lambda *_: None)
    assert whole[1].shards() == parts[1].shards() == [0, 1, 2]
    for shard in range(3):
        for one, other in zip(whole[1].read(shard), parts[1].read(shard), strict=True):
            assert (one.number, one.kind, one.temperature) == (other.number, other.kind, other.temperature)
            for name in ("prompt", "output", "ids", "logprobs"):
                assert (getattr(one, name) == getattr(other, name)).all()
            assert one.ids.shape == one.logprobs.shape == (len(one.output), TOP)
            if one.temperature == 0:
                assert (one.ids[:, 0] == one.output).all()


def test_losses_are_those_of_the_laws_with_the_rest_as_one() -> None:
    logits = torch.randn(5, 7, dtype=torch.float64)
    q = torch.softmax(logits, 1)
    p = torch.softmax(torch.randn(5, 9, dtype=torch.float64), 1)  # two ids that the head lacks
    teacher = Teacher(torch.arange(4).repeat(5, 1), p[:, :4], p[:, :4])
    rest_p, rest_q = 1 - p[:, :4].sum(1), 1 - q[:, :4].sum(1)
    wanted = (p[:, :4] * (p[:, :4] / q[:, :4]).log()).sum(1) + rest_p * (rest_p / rest_q).log()
    torch.testing.assert_close(divergence(logits, teacher), wanted)
    torch.testing.assert_close(refusal(logits, teacher), 1 - torch.minimum(p[:, :4], q[:, :4]).sum(1))


def answers(count: int) -> list[Answer]:
    """Return texts in which a token tells the next, and laws that know it."""
    random = np.random.default_rng(1)
    made = []
    for number in range(count):
        text = (random.integers(V) + 5 * np.arange(int(random.integers(20, 40)))) % V
        ids = (text[8:, None] + np.arange(TOP)) % V
        logprobs = np.tile(np.log([0.9] + [0.1 / TOP] * (TOP - 1)), (len(ids), 1)).astype(np.float16)
        made.append(
            Answer(number, "kind", 1.0, 1.0, *(part.astype(np.uint32) for part in (text[:8], text[8:], ids)), logprobs)
        )
    return made


def test_batches_hold_every_answer_once_and_know_their_rows() -> None:
    texts, ids = answers(30), range(0, V, 2)
    seen = []
    for batch in batches(texts, ids, tokens=200, seed=(0,)):
        assert batch.tokens.numel() <= 200
        assert len(batch.rows) == len(batch.follows) == len(batch.teacher.columns)
        flat = batch.tokens.flatten()
        assert ((flat[batch.rows] + 5) % V == batch.follows).all()
        odd = batch.follows % 2 == 1
        assert (batch.teacher.probabilities[:, 0][odd] == 0).all(), "the head lacks odd ids"
        assert (batch.teacher.columns[:, 0][~odd] * 2 == batch.follows[~odd]).all()
        seen += batch.follows.tolist()
    assert sorted(seen) == sorted(int(token) for text in texts for token in text.output)


def train(
    checkpoint: Path,
    stop: int | None = None,
    *,
    layers: tuple[int, ...] = (0, 2),
    target: str = "a",
    texts: Sequence[Answer] | None = None,
    head: Sequence[int] = range(V),
    rate: float = 3e-2,
    bfloat16: bool = False,
    rounded: Bits | None = 4,
) -> Student:
    student = Student(module(config("llama")), layers=layers, ids=head)
    plan = TrainingPlan(
        epochs=4, tokens=400, warmup=4, checkpoint_every=3, rate=rate, rounded=rounded, bfloat16=bfloat16
    )
    texts, origin = answers(40) if texts is None else texts, {"layers": layers, "target": target}
    trainer = Trainer(student, texts, head, plan=plan, origin=origin, checkpoint=checkpoint)

    def progress(at: Progress) -> None:
        if at.step == stop:
            raise KeyboardInterrupt

    trainer.run(progress)
    return student


@pytest.mark.parametrize("bfloat16", [False, True])
def test_an_interrupted_training_ends_with_the_same_weights_and_learns(tmp_path: Path, bfloat16: bool) -> None:
    whole = train(tmp_path / "a.safetensors", bfloat16=bfloat16)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "b.safetensors", stop=8, bfloat16=bfloat16)
    resumed = train(tmp_path / "b.safetensors", bfloat16=bfloat16)
    for name, parameter in whole.trained().items():
        assert parameter.dtype == torch.float32
        assert torch.equal(parameter, resumed.trained()[name]), name
    fresh = Student(module(config("llama")), layers=(0, 2), ids=range(V))
    before, after = (
        worth(lambda b, s=student: s(b.tokens, b.mask, b.rows), answers(10), range(V))["all"]
        for student in (fresh, whole)
    )
    assert after.overlap > 1.5 * before.overlap
    assert after.agreement > 5 * before.agreement
    assert not any("embed" in name for name in whole.trained()), "the target's own embedding is not trained"


def test_weights_are_rounded_inside_only_and_gradients_go_to_them_as_if_nothing_was() -> None:
    student = Student(module(config("llama")), layers=(0, 2), ids=range(V))
    before = {name: one.detach().clone() for name, one in student.trained().items()}
    with rounding(student, 4):
        for name, one in student.trained().items():
            if one.ndim == 2:
                codes, scales = narrowed(before[name], 4)
                assert torch.equal(one, codes.float() * scales), name
                assert not torch.equal(one, before[name]), name
            else:
                assert torch.equal(one, before[name]), name
        student(torch.tensor([[1, 2, 3]]), torch.ones(1, 3, dtype=torch.bool), torch.tensor([2])).sum().backward()
    for name, one in student.trained().items():
        assert torch.equal(one, before[name]), name
        assert one.grad is not None, name
        assert one.grad.abs().sum() > 0, name
    with pytest.raises(ZeroDivisionError), rounding(student, 4):
        raise ZeroDivisionError
    assert all(torch.equal(one, before[name]) for name, one in student.trained().items())


def test_a_draft_that_trains_rounded_is_better_when_it_is_served_so(tmp_path: Path) -> None:
    overlaps = []
    for bits in (None, 4):
        student = train(tmp_path / f"{bits}.safetensors", rounded=bits)
        with rounding(student, 4):
            found = worth(lambda b, s=student: s(b.tokens, b.mask, b.rows), answers(10), range(V))
        overlaps.append(found["all"].overlap)
    assert overlaps[1] > overlaps[0]


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of the plain run, at its third step."""
    checkpoint = tmp_path_factory.mktemp("begun") / "checkpoint.safetensors"
    with pytest.raises(KeyboardInterrupt):
        train(checkpoint, stop=4)
    return checkpoint


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"layers": (0, 1)}, r"of a run with layers \[0, 2\]', wanted one with layers \[0, 1\], or none"),
        ({"target": "b"}, "of a run with target a', wanted one with target b"),
        ({"head": [*range(1, V), 0]}, "of a run with head "),
        ({"bfloat16": True}, "of a run with bfloat16 False', wanted one with bfloat16 True"),
        ({"rounded": None}, "of a run with rounded 4', wanted one with rounded None"),
        ({"rate": 4e-3}, "of a run with rate 0.03', wanted one with rate 0.004"),
        ({"texts": [*answers(39), replace(answers(40)[-1], temperature=0.7)]}, "of a run with texts "),
        ({"texts": answers(40)[::-1]}, "of a run with texts "),
        (
            {"texts": [*answers(39), replace(answers(40)[-1], logprobs=answers(40)[-1].logprobs * np.float16(1.5))]},
            "of a run with texts ",
        ),
    ],
)
def test_a_checkpoint_of_another_run_is_not_gone_on_from(begun: Path, other: dict[str, Any], words: str) -> None:
    before = begun.read_bytes()
    with pytest.raises(InvalidField, match=words):
        train(begun, **other)
    assert begun.read_bytes() == before
