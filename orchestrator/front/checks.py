"""What a request may ask for; every refusal names the field, the value seen and the values allowed."""

from __future__ import annotations

from dataclasses import dataclass

from foreword.errors import InvalidField, NotFound
from foreword.grammars.port import missing
from foreword.laws.parameters import LawParameters
from foreword.protocol.generation import GenerateRequest
from foreword.protocol.info import ModelInfo
from foreword.protocol.messages import Tokens
from foreword.protocol.words import Rule
from orchestrator.front.text import ModelText
from orchestrator.policy import Gamma
from orchestrator.pools.drafts import DraftPool, Wish


@dataclass(frozen=True, slots=True)
class FrontLimits:
    """Bounds and defaults of requests."""

    gamma: int | None = None
    """Candidates of a block where a request does not say; None takes what is best as far as is measured."""
    gamma_min: int = 0
    gamma_max: int = 16
    default_max_tokens: int = 1024
    most_choices: int = 16


def check_model(request: GenerateRequest, model: ModelInfo) -> None:
    """Raise NotFound for a model that is not the one that is served."""
    if request.model and request.model != model.name:
        raise NotFound.of("model", request.model, f"{model.name!r}, the one that is served")


def check_counts(request: GenerateRequest, limits: FrontLimits) -> None:
    """Raise InvalidField for numbers out of their range."""
    if not 1 <= request.n <= limits.most_choices:
        raise InvalidField("n", request.n, f"a whole number from 1 to {limits.most_choices}")
    only_reads = request.echo or request.prompt_logprobs is not None
    if request.max_tokens is not None and request.max_tokens < (0 if only_reads else 1):
        raise InvalidField("max_tokens", request.max_tokens, "a whole number from 1, or 0 with echo or prompt_logprobs")
    if request.seed is not None and not 0 <= request.seed < 1 << 64:
        raise InvalidField("seed", request.seed, "a whole number from 0 to 2**64 - 1")
    if request.resume and request.prompt_logprobs is not None:
        wanted = "nothing beside resume: they are told when an output begins"
        raise InvalidField("prompt_logprobs", request.prompt_logprobs, wanted)
    if request.resume and request.n != 1:
        raise InvalidField("n", request.n, "1, because one output is resumed")


def check_prompt(ids: Tokens, resume: Tokens, model: ModelInfo) -> None:
    """Raise InvalidField for a prompt that is empty, too long for a token of output, or has ids out of range."""
    if not ids:
        raise InvalidField("prompt", "", "at least one token")
    if len(ids) >= model.longest_context:
        raise InvalidField(
            "prompt", f"{len(ids)} tokens", f"fewer than {model.longest_context}, the context of {model.name!r}"
        )
    for field, tokens in (("prompt", ids), ("resume", resume)):
        worst = max(tokens, default=0)
        if worst >= model.vocabulary_size:
            raise InvalidField(field, worst, f"token ids from 0 to {model.vocabulary_size - 1}")


def checked_law(request: GenerateRequest, law: LawParameters, model: ModelInfo, max_output: int) -> LawParameters:
    """Return the law if it can be followed; raises InvalidField."""
    if law.min_tokens > max_output:
        raise InvalidField("law.min_tokens", law.min_tokens, f"at most max_tokens, {max_output}")
    return law.validate(model.vocabulary_size)


def check_grammar(request: GenerateRequest, law: LawParameters, text: ModelText) -> None:
    """Raise InvalidField for a grammar that cannot be followed; slow. `law` has all ids that end the output."""
    if law.grammar is None:
        return
    if reason := missing():
        raise InvalidField("law.grammar", law.grammar.kind, f"none: {reason}")
    if not law.stop_ids:
        wanted = "an id that ends a text: one of stop_ids, or the model's own, which ignore_eos takes away"
        raise InvalidField("law.stop_ids", law.stop_ids, f"{wanted}, because of law.grammar")
    resume = request.resume
    text.check_grammar(law.grammar, resume[:-1] if resume and resume[-1] in law.stop_ids else resume)


def chosen_gamma(request: GenerateRequest, limits: FrontLimits) -> Gamma:
    """Return the candidates per block: what the request fixes, else the server's way of choosing within its bounds."""
    speculation, most = request.speculation, limits.gamma_max
    for field in ("gamma", "gamma_min", "gamma_max"):
        value = getattr(speculation, field)
        if value is not None and not 0 <= value <= most:
            raise InvalidField(f"speculation.{field}", value, f"a whole number from 0 to {most}")
    low = min(limits.gamma_min, most) if speculation.gamma_min is None else speculation.gamma_min
    high = most if speculation.gamma_max is None else speculation.gamma_max
    if speculation.gamma_min is None:
        low = min(low, high, most if speculation.gamma is None else speculation.gamma)
    if low > high:
        raise InvalidField("speculation.gamma_min", low, f"at most speculation.gamma_max, {high}")
    if speculation.gamma is not None:
        if not low <= speculation.gamma <= high:
            raise InvalidField("speculation.gamma", speculation.gamma, f"a whole number from {low} to {high}")
        return Gamma(fixed=speculation.gamma)
    return Gamma(None if limits.gamma is None else min(high, max(low, limits.gamma)), least=low, most=high)


def check_rule(rule: Rule | None, wish: Wish, drafts: DraftPool) -> None:
    """Raise InvalidField for a rule that believes a draft where none is trusted, NotFound for a draft that is not."""
    if drafts.peers and not drafts.has(wish):
        raise _unserved(wish, drafts)
    if rule in (Rule.TOKEN, Rule.BLOCK) and drafts.peers and not drafts.has(trusting(wish)):
        wanted = "match: this rule believes what a draft says of its law, and the orchestrator trusts none here"
        raise InvalidField("speculation.rule", rule.name.lower(), wanted)


def _unserved(wish: Wish, drafts: DraftPool) -> NotFound:
    """Return the refusal of a wish, with what it might have been, as far as drafts have been reached."""
    known = [peer.info for peer in drafts.peers if peer.info is not None]
    kinds = {info.drafter.name.lower() for info in known if info.drafter is not None}
    field, seen, served = "drafter", "" if wish.drafter is None else wish.drafter.name.lower(), kinds
    if wish.name and seen in ("", *kinds):
        field, seen = "draft", wish.name
        served = {info.called for info in known if wish.drafter in (None, info.drafter)} - {""}
    wanted = f"one of those that are served: {', '.join(sorted(served)) or 'none has a name'}"
    return NotFound.of(f"speculation.{field}", seen, wanted)


def trusting(wish: Wish) -> Wish:
    """Return the wish narrowed to trusted drafts."""
    return Wish(wish.drafter, wish.name, trusted=True)
