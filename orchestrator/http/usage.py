"""What a request took, and where its time went."""

from __future__ import annotations

from collections.abc import Mapping

from foreword.protocol.generation import Finish, GammaChoice
from orchestrator.http.answers import (
    ChoiceTimings,
    CompletionDetails,
    GammaTold,
    PromptDetails,
    RoundPartTime,
    Timings,
    Usage,
)

Finishes = Mapping[tuple[int, int], Finish]
"""How each choice of each prompt ended."""


def usage_of(finishes: Finishes) -> Usage:
    """Return the account of a request; a prompt counts once, with the cached tokens of its first choice."""
    first: dict[int, Finish] = {}
    for (prompt, _), finish in sorted(finishes.items()):
        first.setdefault(prompt, finish)
    accounts = [finish.usage for finish in finishes.values()]
    accepted = sum(account.accepted_tokens for account in accounts)
    drafted = sum(account.drafted_tokens for account in accounts)
    prompt_tokens = sum(finish.usage.prompt_tokens for finish in first.values())
    output = sum(account.output_tokens for account in accounts)
    return Usage(
        prompt_tokens=prompt_tokens,
        completion_tokens=output,
        total_tokens=prompt_tokens + output,
        prompt_tokens_details=PromptDetails(cached_tokens=sum(f.usage.cached_tokens for f in first.values())),
        completion_tokens_details=CompletionDetails(
            accepted_prediction_tokens=accepted, rejected_prediction_tokens=drafted - accepted
        ),
    )


def usage_so_far(prompt_tokens: int, output_tokens: int) -> Usage:
    """Return the account of a stream that goes on."""
    return Usage(
        prompt_tokens=prompt_tokens, completion_tokens=output_tokens, total_tokens=prompt_tokens + output_tokens
    )


def timings_of(finishes: Finishes, *, choices: int) -> Timings:
    """Return where the time of choices went; each prompt has `choices` of them."""
    told = [choice_timings(finish, prompt * choices + choice) for (prompt, choice), finish in sorted(finishes.items())]
    usage = usage_of(finishes)
    first_us = min(finish.timings.first_token_us for finish in finishes.values())
    total_us = max(finish.timings.total_us for finish in finishes.values())
    decode_us, later = total_us - first_us, usage.completion_tokens - len(finishes)
    return Timings(
        prompt_n=usage.prompt_tokens,
        predicted_n=usage.completion_tokens,
        predicted_ms=_ms(decode_us),
        predicted_per_second=1e6 * later / decode_us if decode_us > 0 and later > 0 else None,
        draft_n=sum(one.draft_n for one in told),
        draft_n_accepted=sum(one.draft_n_accepted for one in told),
        first_token_ms=_ms(first_us),
        total_ms=_ms(total_us),
        choices=told,
    )


def choice_timings(finish: Finish, index: int) -> ChoiceTimings:
    """Return where the time of one choice went."""
    usage, timings = finish.usage, finish.timings
    return ChoiceTimings(
        index=index,
        queue_ms=_ms(timings.queue_us),
        first_token_ms=_ms(timings.first_token_us),
        total_ms=_ms(timings.total_us),
        predicted_n=usage.output_tokens,
        draft_n=usage.drafted_tokens,
        draft_n_accepted=usage.accepted_tokens,
        acceptance_length=usage.acceptance_length,
        acceptance_rate=usage.acceptance_rate,
        verifications=usage.verifications,
        plain_steps=usage.plain_steps,
        late_blocks=usage.late_blocks,
        drafts_used=usage.drafts_used,
        targets_used=usage.targets_used,
        rule=None if finish.rule is None else finish.rule.name.lower(),
        seed=finish.seed,
        parts=[RoundPartTime(name=p.name, p50_ms=_ms(p.p50_us), sum_ms=_ms(p.sum_us)) for p in timings.parts],
        gamma=None if timings.gamma is None else _gamma(timings.gamma),
        results_by_gamma=list(timings.results_by_gamma),
    )


def _gamma(choice: GammaChoice) -> GammaTold:
    return GammaTold(
        gamma=choice.gamma,
        why=choice.why,
        price=choice.price,
        threshold=choice.threshold,
        survival=list(choice.survival),
        tokens_per_s=list(choice.tokens_per_s),
    )


def _ms(us: float) -> float:
    return round(us / 1000, 3)
