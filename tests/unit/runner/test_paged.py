"""The paged runner against the models' own forward pass, in many families; what it refuses; planted bugs."""

from __future__ import annotations

import numpy as np
import pytest
import structlog
import torch
from structlog.testing import capture_logs
from transformers import PreTrainedModel

from foreword.errors import EngineFailure, InvalidField, Mismatch
from foreword.runner import key_values, real, tiles, ways
from foreword.runner.budget import CacheBudget
from foreword.runner.fused.layers import run_layers
from foreword.runner.fused.model import FusedModel, can_fuse
from foreword.runner.key_values import TorchKeyValues
from foreword.runner.module_model import ModuleModel
from foreword.runner.paged import PagedRunner
from foreword.runner.port import Logits, Rows
from foreword.runner.real import real_runner
from foreword.runner.tiles import TiledKeyValues
from tests.unit.runner.tiny import FAMILIES, LONGEST, V, config, module

RANDOM = np.random.default_rng(5)
TEXTS = [tuple(int(i) for i in RANDOM.integers(0, V, size)) for size in (60, 41, 23)]


def own_logits(model: PreTrainedModel, text: tuple[int, ...]) -> Logits:
    """Return what the model itself computes, without a cache."""
    with torch.inference_mode():
        logits: Logits = model(input_ids=torch.tensor([text]), use_cache=False).logits[0].float().numpy()
    return logits


BUDGET = CacheBudget(4 * LONGEST)
FUSED = {"llama", "llama3", "qwen2", "qwen3", "mistral", "mistral with a window"}


def run(model: PreTrainedModel, *, chunk: int = 512, page_size: int = 16) -> PagedRunner:
    budget = CacheBudget(4 * LONGEST, page_size=page_size)
    return real_runner(model, vocabulary_size=V, longest_context=LONGEST, budget=budget, chunk=chunk)


@pytest.fixture
def by_modules(monkeypatch):
    """Leave every layer to its module."""
    monkeypatch.setattr(ways, "can_fuse", lambda _: False)


@pytest.fixture
def by_torch(monkeypatch, by_modules):
    """Have torch attend, as on a device that has no kernels."""
    monkeypatch.setattr(TiledKeyValues, "fits", staticmethod(lambda *_: False))


def replay(runner: PagedRunner, *, seed: int = 0) -> list[Logits]:
    """Append all texts side by side in ragged blocks with rollbacks; return the logits of every position."""
    random = np.random.default_rng(seed)
    found: list[list[Logits]] = [[] for _ in TEXTS]
    done = [0] * len(TEXTS)
    for slot in range(len(TEXTS)):
        runner.open(slot)
    while any(done[slot] < len(text) for slot, text in enumerate(TEXTS)):
        batch = []
        for slot, text in enumerate(TEXTS):
            rest = text[done[slot] : done[slot] + int(random.integers(1, 8))]
            if rest:
                wrong = tuple(int(i) for i in random.integers(0, V, int(random.integers(0, 4))))
                batch.append(Rows(slot, rest + wrong, len(rest + wrong)))
        for rows, logits in zip(batch, runner.forward(batch), strict=True):
            start, text = done[rows.slot], TEXTS[rows.slot]
            kept = 0
            while kept < len(rows.tokens) and rows.tokens[kept : kept + 1] == text[start + kept : start + kept + 1]:
                kept += 1
            found[rows.slot].append(logits[:kept])
            done[rows.slot] += kept
            runner.truncate(rows.slot, done[rows.slot])
    for slot in range(len(TEXTS)):
        runner.close(slot)
    return [np.concatenate(pieces) for pieces in found]


@pytest.mark.parametrize("chunk", [512, 5])
@pytest.mark.parametrize("family", FAMILIES)
def test_ragged_rows_score_as_in_the_model_itself(family, chunk):
    model = module(config(family))
    wanted = [own_logits(model, text) for text in TEXTS]
    for got, own in zip(replay(run(model, chunk=chunk)), wanted, strict=True):
        np.testing.assert_allclose(got, own, atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_modules_and_torch_alone_score_the_same(family, by_torch):
    model = module(config(family))
    wanted = [own_logits(model, text) for text in TEXTS]
    for got, own in zip(replay(run(model)), wanted, strict=True):
        np.testing.assert_allclose(got, own, atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", sorted(FUSED))
def test_modules_with_tiles_score_the_same(family, by_modules):
    model = module(config(family))
    wanted = [own_logits(model, text) for text in TEXTS]
    for got, own in zip(replay(run(model, page_size=48)), wanted, strict=True):
        np.testing.assert_allclose(got, own, atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_layers_are_fused_where_they_are_known(family):
    model = module(config(family))
    assert can_fuse(model) == (family in FUSED)
    assert isinstance(run(model)._model, FusedModel) == (family in FUSED)


@pytest.mark.parametrize("family", ["llama", "qwen3", "mistral with a window", "gemma2"])
def test_a_row_has_the_same_bits_in_any_company(family):
    runner = run(module(config(family)))
    first = replay(runner)
    for text, logits in zip(TEXTS, first, strict=True):
        runner.open(0)
        (at_once,) = runner.forward([Rows(0, text, len(text))])
        runner.close(0)
        np.testing.assert_array_equal(logits, at_once)
    for again, logits in zip(replay(runner, seed=1), first, strict=True):
        np.testing.assert_array_equal(again, logits)


@pytest.mark.parametrize("family", ["llama", "mistral with a window"])
def test_long_texts_have_the_same_bits_wherever_they_are_cut(family):
    text = tuple(int(i) for i in np.random.default_rng(8).integers(0, V, 300))
    runner = run(module(config(family)))
    runner.open(0)
    (at_once,) = runner.forward([Rows(0, text, len(text))])
    for size, start in ((130, 0), (7, 0), (1, 240)):
        runner.truncate(0, start)
        for first in range(start, len(text), size):
            piece = text[first : first + size]
            (logits,) = runner.forward([Rows(0, piece, len(piece))])
            np.testing.assert_array_equal(logits, at_once[first : first + size])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_short_formats_agree_to_their_precision(dtype, by_modules):
    model = module(config("llama")).to(dtype)
    wanted = [own_logits(model, text) for text in TEXTS]
    for got, own in zip(replay(run(model)), wanted, strict=True):
        assert got.dtype == np.float32
        assert np.abs(got - own).max() < 0.2 * own.std()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_fused_layers_with_short_weights_are_nearer_to_exact_arithmetic_than_the_modules(dtype):
    model = module(config("llama")).to(dtype)
    rounded = [own_logits(model, text) for text in TEXTS]
    exact = [own_logits(module(config("llama")).to(dtype).float(), text) for text in TEXTS]
    for got, own, right in zip(replay(run(model)), rounded, exact, strict=True):
        assert got.dtype == np.float32
        assert np.abs(got - right).mean() < 0.6 * np.abs(own - right).mean()


def test_padding_rows_of_the_embedding_are_cut_off():
    model = module(config("llama"))
    wanted = own_logits(model, (1, 2, 3))
    runner = real_runner(model, vocabulary_size=V - 6, longest_context=LONGEST, budget=BUDGET)
    runner.open(0)
    (logits,) = runner.forward([Rows(0, (1, 2, 3), 3)])
    np.testing.assert_allclose(logits, wanted[:, : V - 6], atol=1e-4)
    with pytest.raises(InvalidField, match=f"from 0 to {V - 7}"):
        runner.forward([Rows(0, (V - 6,), 1)])


def test_memory_of_a_long_prompt_is_bounded_by_chunks(by_modules):
    model = module(config("llama"))
    seen = []
    model.register_forward_pre_hook(lambda _, __, kwargs: seen.append(kwargs["input_ids"].shape[1]), with_kwargs=True)
    runner = run(model, chunk=16)
    seen.clear()
    runner.open(0)
    runner.open(1)
    first, second = runner.forward([Rows(0, TEXTS[0][:40], 20), Rows(1, TEXTS[1][:5], 1)])
    assert seen == [16, 16, 13]
    assert (first.shape, second.shape) == ((20, V), (1, V))


@pytest.mark.parametrize(
    ("page_size", "changes", "reasons"),
    [
        (10, {}, ["page_size: 10 is not a multiple of 16, which compiled attention wants"]),
        (32, {}, []),
        (10, {"head_dim": 12}, []),  # no page would do for these heads
    ],
)
def test_pages_that_bar_compiled_attention_are_said_once(monkeypatch, page_size, changes, reasons):
    monkeypatch.setattr(real, "_log", structlog.get_logger())
    with capture_logs() as logs:
        run(module(config("llama", **changes)), page_size=page_size)
    assert [line["reason"] for line in logs if line["log_level"] == "warning"] == reasons
    assert logs[-1]["way"] == ("fused" if page_size == 32 else "with_torch")


@pytest.mark.parametrize("failing_pass", [1, 2])
def test_a_failed_pass_leaves_lengths_alone(by_modules, failing_pass):
    model = module(config("llama"))
    wanted = own_logits(model, TEXTS[0])
    runner = run(model, chunk=16)
    runner.open(0)
    runner.forward([Rows(0, TEXTS[0][:10], 0)])
    passes = iter(range(1, 100))

    def hook(_: torch.nn.Module, __: object) -> None:
        if next(passes) == failing_pass:
            raise RuntimeError("out of memory")

    handle = model.register_forward_pre_hook(hook)
    with pytest.raises(EngineFailure, match="out of memory"):
        runner.forward([Rows(0, TEXTS[0][10:], 1)])
    handle.remove()
    assert runner.length(0) == 10
    (logits,) = runner.forward([Rows(0, TEXTS[0][10:], 50)])
    np.testing.assert_allclose(logits, wanted[10:], atol=1e-4)


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (
            lambda: config("llama", rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}),
            "dynamic",
        ),
        (lambda: config("qwen3", layer_types=["full_attention", "chunked_attention", "full_attention"]), "chunked"),
    ],
)
def test_what_is_not_computed_is_refused_by_its_config(made, named):
    with pytest.raises(Mismatch, match=named):
        run(module(made()))


def test_attention_behind_no_interface_is_refused():
    import transformers

    made = transformers.MptConfig(d_model=32, n_heads=4, n_layers=2, vocab_size=V, max_seq_len=64)
    with pytest.raises(Mismatch, match="mpt"):
        run(transformers.MptForCausalLM(made).eval())


def test_sinks_are_refused():
    import transformers

    sizes = {"num_local_experts": 2, "num_experts_per_tok": 1, "layer_types": ["full_attention"] * 2}
    made = transformers.GptOssConfig(
        vocab_size=V, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, rope_parameters={"rope_type": "default", "rope_theta": 1e4}, **sizes,
    )  # fmt: skip
    with pytest.raises(Mismatch, match="s_aux"):
        run(transformers.AutoModelForCausalLM.from_config(made).eval())


def _sees_the_future(span, window, groups, like):
    return 0, None


def _forgets_the_window(span, window, groups, like, _right=key_values._visible):
    return _right(span, 0, groups, like)


def _window_off_by_one(span, window, groups, like, _right=key_values._visible):
    return _right(span, window + 1 if window else 0, groups, like)


@pytest.mark.parametrize(
    ("family", "bug"),
    [("llama", _sees_the_future), ("gemma3", _forgets_the_window), ("mistral with a window", _window_off_by_one)],
)
def test_planted_bugs_are_refused_when_the_model_is_loaded(monkeypatch, by_torch, family, bug):
    monkeypatch.setattr(key_values, "_visible", bug)
    with pytest.raises(Mismatch, match="standard deviations"):
        run(module(config(family)))


def test_stale_keys_are_refused_when_the_model_is_loaded(monkeypatch, by_torch):
    right = TorchKeyValues._written

    def written(self, pool, span, new):
        held = right(self, pool, span, new)
        return held if span.start == 0 else held.roll(1, dims=1)

    monkeypatch.setattr(TorchKeyValues, "_written", written)
    with pytest.raises(Mismatch, match="standard deviations"):
        run(module(config("llama")))


@pytest.mark.parametrize("family", ["llama", "mistral with a window"])
def test_kernels_that_compute_something_else_are_not_used(monkeypatch, family):
    right = tiles.store

    def store(rows, heads, positions, *rest):
        right(rows, heads, positions + (positions > 2), *rest)

    monkeypatch.setattr(tiles, "store", store)
    monkeypatch.setattr("foreword.runner.fused.model.run_layers", backwards)
    model = module(config(family))
    wanted = [own_logits(model, text) for text in TEXTS]
    runner = run(model)
    assert isinstance(runner._model._key_values, TorchKeyValues)
    for got, own in zip(replay(runner), wanted, strict=True):
        np.testing.assert_allclose(got, own, atol=1e-4, rtol=0)


def backwards(*args):
    """Run layers, and turn what they say around."""
    return run_layers(*args)[:, ::-1].copy()


def test_layers_that_are_fused_wrongly_are_left_to_their_modules(monkeypatch):
    monkeypatch.setattr("foreword.runner.fused.model.run_layers", backwards)
    runner = run(module(config("llama")))
    assert isinstance(runner._model, ModuleModel)
    assert isinstance(runner._model._key_values, TiledKeyValues)


def test_pages_that_are_shared_are_copied_before_they_are_written():
    runner = run(module(config("llama")))
    text = TEXTS[0][:40]
    runner.open(0)
    (wanted,) = runner.forward([Rows(0, text, 40)])
    runner.commit(0, text)
    runner.open(1)
    assert runner.adopt(1, text) == 32
    runner.truncate(1, 20)
    runner.forward([Rows(1, TEXTS[1][:20], 0)])  # writes into a page that slot 0 holds too
    runner.truncate(0, 32)
    (again,) = runner.forward([Rows(0, text[32:], 8)])
    np.testing.assert_allclose(again, wanted[32:], atol=1e-5)
    runner._pool.check_integrity()


def test_a_chunk_of_nothing_is_refused():
    with pytest.raises(InvalidField, match="chunk"):
        run(module(config("llama")), chunk=0)
