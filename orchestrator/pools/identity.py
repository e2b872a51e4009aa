"""Whether a target or a draft fits what the deployment serves; texts name both values."""

from __future__ import annotations

from foreword.protocol.info import ModelInfo, ServerInfo


def target_misfit(model: ModelInfo, info: ServerInfo) -> str:
    """Return why a target cannot serve `model`, or an empty text.

    Sessions move between targets, and their texts may not depend on which: name, weights and format are the same.
    """
    if info.model is None:
        return "model: the target names none, wanted one that it runs"
    seen = info.model
    if seen.name != model.name:
        return f"model: the target serves {seen.name!r}, the others serve {model.name!r}"
    if seen.weights_digest != model.weights_digest:
        return (
            f"weights: the target's {seen.name!r} has digest {_short(seen.weights_digest)}, "
            f"that of the others has {_short(model.weights_digest)}"
        )
    if seen.dtype != model.dtype:
        return f"dtype: the target runs {seen.dtype}, the others run {model.dtype}"
    return vocabulary_misfit(model, seen, "target")


def draft_misfit(model: ModelInfo, info: ServerInfo) -> str:
    """Return why a draft cannot write for `model`, or an empty text; one without a model, as lookup, always can."""
    seen = info.model
    if seen is None:
        return ""
    if seen.made_for and seen.made_for != model.weights_digest:
        return (
            f"target: the draft {seen.name!r} was made for weights with digest {_short(seen.made_for)}, "
            f"the target {model.name!r} has {_short(model.weights_digest)}"
        )
    return vocabulary_misfit(model, seen, "draft")


def vocabulary_misfit(model: ModelInfo, seen: ModelInfo, kind: str) -> str:
    """Return how two models' token ids differ in meaning, or an empty text."""
    if seen.vocabulary_size != model.vocabulary_size:
        return (
            f"vocabulary: the {kind} {seen.name!r} has {seen.vocabulary_size} ids, "
            f"the target {model.name!r} has {model.vocabulary_size}"
        )
    if seen.tokenizer_digest != model.tokenizer_digest:
        return (
            f"tokenizer: the {kind} {seen.name!r} has digest {_short(seen.tokenizer_digest)}, "
            f"the target {model.name!r} has {_short(model.tokenizer_digest)}"
        )
    return ""


def _short(digest: str) -> str:
    digest, mark, layers = digest.partition("#")
    return (digest[:12] or "none") + mark + layers
