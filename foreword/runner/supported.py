"""Which models the ragged runner computes rightly; others are refused when they are loaded, with the reason.

Some causes can be read from the config and are named. Whatever else a model does beyond causal attention over cached
keys shows when a few tokens, appended in pieces with a rollback between, score otherwise than in the model's own pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from foreword.errors import Mismatch
from foreword.runner.checks import check_cache
from foreword.runner.port import Logits, Rows, Runner

_LAYER_TYPES = ("full_attention", "sliding_attention")
_ROPE_TYPES_BY_LENGTH = ("dynamic", "longrope")
_TOLERANCE = {torch.float32: 3e-4, torch.float16: 0.05, torch.bfloat16: 0.2}
"""Largest difference of the probe's logits, as root mean square in standard deviations of the logits.

A wrong cache makes about 1. In bfloat16 a module is off by 0.07 from its own arithmetic in float32, with single logits
off by 0.25: whoever rounds less than the module is no nearer to it than that.
"""

_TOLERANCE_NARROW = 0.2
"""The same where products round their inputs to 8 bits beside weights of 8 or 4; measured 0.08."""


def check_config(module: PreTrainedModel) -> None:
    """Raise Mismatch, naming the config field and its value, for a model whose cache or attention is another kind."""
    config = module.config.get_text_config()
    if getattr(config, "is_encoder_decoder", False):
        raise _refusal("is_encoder_decoder", True, "a decoder-only model")
    if not module._supports_attention_backend:
        raise _refusal("model_type", config.model_type, "a model whose attention transformers lets us replace")
    for kind in getattr(config, "layer_types", None) or ():
        if kind not in _LAYER_TYPES:
            raise _refusal("layer_types", kind, f"only {' and '.join(_LAYER_TYPES)}")
    if getattr(config, "attn_temperature_tuning", None) and 0 in (getattr(config, "no_rope_layers", None) or ()):
        raise _refusal("attn_temperature_tuning", True, "False: it counts positions by the rows of a pass")
    for kind in _rope_types(getattr(config, "rope_parameters", None) or {}):
        if kind in _ROPE_TYPES_BY_LENGTH:
            raise _refusal("rope_type", kind, "rotations that do not change with the length of the text")


def probe_logits(module: PreTrainedModel, vocabulary_size: int) -> Logits:
    """Return the module's own logits [n, V] for the probe's tokens."""
    with torch.inference_mode():
        ids = torch.tensor([_probe(vocabulary_size)], device=module.device)
        logits: Logits = module(input_ids=ids, use_cache=False).logits[0, :, :vocabulary_size].float().cpu().numpy()
    return logits


def check_probe(runner: Runner, wanted: Logits, model_type: str, dtype: torch.dtype, *, narrow: bool = False) -> None:
    """Raise Mismatch unless `runner` scores the probe's tokens as the module did, in pieces and after a rollback."""
    tokens = _probe(runner.vocabulary_size)
    check_cache(runner.memory, len(tokens))
    for slot in (0, 1):
        runner.open(slot)
    runner.forward([Rows(0, tokens[:2], 0), Rows(1, tokens[4:], 0)])
    runner.forward([Rows(1, tokens[:3], 0), Rows(0, tokens[::-1][:3], 0)])
    runner.truncate(0, 2)
    runner.truncate(1, 0)
    first, second = runner.forward([Rows(0, tokens[2:], len(tokens) - 2), Rows(1, tokens, len(tokens))])
    for slot in (0, 1):
        runner.close(slot)
    if not np.isfinite(wanted).all():
        raise Mismatch(f"model type {model_type}: its own pass gives logits that are no finite numbers: broken weights")
    scale = max(float(wanted.std()), 1e-9)
    off = max(_rms(first - wanted[2:]), _rms(second - wanted)) / scale
    most = max(_TOLERANCE[dtype], _TOLERANCE_NARROW) if narrow else _TOLERANCE[dtype]
    if not off <= most:
        raise Mismatch(
            f"model type {model_type}: cached logits are off by {off:.3g} standard deviations, wanted at most "
            f"{most:g}: its attention or cache is of a kind that this runner does not compute"
        )


def _rms(values: Logits) -> float:
    return float(np.sqrt(np.square(values).mean()))


def _probe(vocabulary_size: int) -> tuple[int, ...]:
    return tuple(int(i) for i in np.random.default_rng(7).integers(0, vocabulary_size, 7))


def _rope_types(parameters: dict[str, Any]) -> set[str]:
    """Return the kinds of rotary embedding, of which some models have one for each type of layer."""
    nested = [value for value in parameters.values() if isinstance(value, dict)]
    return {str(value["rope_type"]) for value in (parameters, *nested) if "rope_type" in value}


def _refusal(field: str, seen: object, wanted: str) -> Mismatch:
    return Mismatch(f"model config {field}: got {seen!r}, wanted {wanted}")
