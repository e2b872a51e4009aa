"""From a request to sessions: prompt to ids, defaults, limits, rule, keys. Pure but for the randomness it is given."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from foreword.acceptance import auto
from foreword.addresses.keys import Purpose, derive_key
from foreword.errors import InvalidField
from foreword.laws.parameters import LawParameters
from foreword.protocol.generation import Chat, GenerateRequest, TokenPrompt
from foreword.protocol.info import ModelInfo
from foreword.protocol.messages import DraftKeys, TargetKeys, Tokens, Trace
from foreword.protocol.sequence import Sequence
from foreword.protocol.words import FinishReason, Rule
from orchestrator.core.state import Ended, Request, Session
from orchestrator.front.checks import (
    FrontLimits,
    check_counts,
    check_grammar,
    check_model,
    check_prompt,
    check_rule,
    checked_law,
    chosen_gamma,
    trusting,
)
from orchestrator.front.text import ModelText
from orchestrator.policy import Gamma
from orchestrator.pools.drafts import DraftPool, Wish
from orchestrator.sink.stop_texts import StopTexts
from orchestrator.sink.tokens import SinkOptions, resumed

SALT_BYTES = 16
WIDE_VOCABULARY = 1 << 16
"""Vocabularies over this size do not fit 16-bit ids."""
CACHE_SALT_BYTES = 64
"""Longest cache salt that goes to a target as it is."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that can be served."""

    request: GenerateRequest
    request_id: str
    prompt: Tokens
    seed: int
    gamma: Gamma
    wish: Wish
    sessions: tuple[Session, ...]
    """One for each choice."""
    sinks: tuple[SinkOptions, ...]
    over: Ended | None
    """How the output had ended already, if the part that is resumed is all of it."""


class Intake:
    """Checks requests and makes sessions of them."""

    def __init__(
        self,
        text: ModelText,
        model: ModelInfo,
        drafts: DraftPool,
        *,
        limits: FrontLimits,
        entropy: Callable[[int], bytes],
    ) -> None:
        self.text = text
        self.model = model
        self._drafts = drafts
        self._limits = limits
        self._entropy = entropy

    def prepare(self, request: GenerateRequest, request_id: str) -> Prepared:
        """Return what the request comes to; raises InvalidField or NotFound. Slow for long prompts, and thread-safe."""
        check_model(request, self.model)
        check_counts(request, self._limits)
        prompt = self._prompt(request)
        check_prompt(prompt, request.resume, self.model)
        max_output = self._max_output(request, prompt)
        law = self._law(request, max_output)
        gamma = chosen_gamma(request, self._limits)
        rule, wish = self._rule(request, law, gamma)
        seed = int.from_bytes(self._entropy(8), "big") if request.seed is None else request.seed
        sequence = Sequence.of(prompt + request.resume, len(prompt))
        common = Request(
            law=law,
            target_keys=TargetKeys(b"", b"", b""),
            draft_keys=DraftKeys(b""),
            max_output=max_output,
            gamma_max=self._limits.gamma_max,
            top_logprobs=request.top_logprobs,
            prompt_logprobs=request.prompt_logprobs,
            cache_salt=_short_salt(request.cache_salt),
            trace=request.trace or Trace(),
            wide_ids=self.model.vocabulary_size > WIDE_VOCABULARY,
            vocabulary_size=self.model.vocabulary_size,
        )
        sink = _sink_options(request, law)
        if request.stop and request.resume:
            stream = self.text.stream(prompt, skip_special=request.skip_special_tokens)
            sink = resumed(sink, stream, request.resume)
        keyed = (self._keyed(common, seed, choice, rule) for choice in range(request.n))
        return Prepared(
            request=request,
            request_id=request_id,
            prompt=prompt,
            seed=seed,
            gamma=gamma,
            wish=wish,
            sessions=tuple(Session(each, sequence, rule) for each in keyed),
            sinks=tuple(replace(sink, choice=choice) for choice in range(request.n)),
            over=Ended(FinishReason.STOP) if sink.found is not None else _over(request, law, max_output),
        )

    def _prompt(self, request: GenerateRequest) -> Tokens:
        match request.prompt:
            case TokenPrompt(ids):
                return ids
            case Chat():
                return self.text.encode_chat(request.prompt)
            case str():
                return self.text.encode(request.prompt)

    def _max_output(self, request: GenerateRequest, prompt: Tokens) -> int:
        room = self.model.longest_context - len(prompt)
        asked, default = request.max_tokens, max(self._limits.default_max_tokens, len(request.resume))
        most = min(room, default if asked is None else asked)
        if len(request.resume) > most:
            wanted = f"at most {most} tokens, what max_tokens and the context allow"
            raise InvalidField("resume", f"{len(request.resume)} tokens", wanted)
        return most

    def _law(self, request: GenerateRequest, max_output: int) -> LawParameters:
        law = request.law or self.text.defaults
        checked_law(request, law, self.model, max_output)
        ends = () if request.ignore_eos else self.model.eos_ids
        law = replace(law, stop_ids=tuple(dict.fromkeys((*law.stop_ids, *ends))))
        law.validate(self.model.vocabulary_size)  # before min_tokens, ends are barred too
        check_grammar(request, law, self.text)
        return law

    def _rule(self, request: GenerateRequest, law: LawParameters, gamma: Gamma) -> tuple[Rule, Wish]:
        """Return the rule, and which drafts may write under it."""
        wish = Wish(request.speculation.drafter, request.speculation.draft)
        if gamma.speculates:
            check_rule(request.speculation.rule, wish, self._drafts)
        rule = request.speculation.rule or auto(
            law.temperature,
            seeded=request.seed is not None,
            trusted=bool(self._drafts.peers) and self._drafts.has(trusting(wish)),
        )
        return rule, wish if rule is Rule.MATCH else trusting(wish)

    def _keyed(self, request: Request, seed: int, choice: int, rule: Rule) -> Request:
        """Give a choice its keys: the target's match key belongs to seed and choice, the others to this attempt too."""
        salt = self._entropy(SALT_BYTES)
        match = derive_key(seed, choice, Purpose.MATCH)
        emit, coin, draft = (derive_key(seed, choice, p, salt) for p in (Purpose.EMIT, Purpose.COIN, Purpose.DRAFT))
        return replace(
            request,
            target_keys=TargetKeys(match, emit, coin),
            draft_keys=DraftKeys(draft, match if rule is Rule.MATCH else None),
        )


def _sink_options(request: GenerateRequest, law: LawParameters) -> SinkOptions:
    return SinkOptions(
        stop=StopTexts(request.stop),
        include_stop=request.include_stop,
        stop_ids=frozenset(law.stop_ids),
        min_tokens=law.min_tokens,
        first_position=len(request.resume),
        one_token_per_event=request.one_token_per_event,
    )


def _over(request: GenerateRequest, law: LawParameters, max_output: int) -> Ended | None:
    if request.prompt_logprobs is not None:
        return None  # the prompt has to be read, and nothing is resumed
    resume = request.resume
    if resume and resume[-1] in law.stop_ids:
        return Ended(FinishReason.STOP, resume[-1])
    return Ended(FinishReason.LENGTH) if len(resume) >= max_output else None


def _short_salt(salt: bytes) -> bytes:
    return salt if len(salt) <= CACHE_SALT_BYTES else hashlib.sha256(salt).digest()
