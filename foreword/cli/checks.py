"""What `foreword doctor` looks at: pure judgements about what a deployment says and does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from foreword._version import __version__
from foreword.protocol.generation import Choice, DeploymentInfo, PeerInfo
from foreword.protocol.info import ModelInfo
from foreword.protocol.words import PROTOCOL_MAX, PROTOCOL_MIN, Drafter

_SLOWER = 0.95
"""Times plain decoding's speed under which drafts are worth a remark; a short try is not exact."""
_MISFIT: Final = re.compile("^(model|weights|dtype|vocabulary|tokenizer): the target")
"""How an orchestrator begins to say that a target was reached and serves something else than the others."""
_LOADING: Final = ("being loaded", "engine is not ready")
"""What targets and drafts say while a model is loaded, at the start and after their engine was lost."""
_ADVICE: Final = (
    ("protocol version", "install one release there and here"),
    ("Method not found", "it is a service of another kind: look at what --targets and --drafts name"),
    ("Hostname Verification", "reach it by a name that its certificate has, or have the certificate name this one"),
    ("CERTIFICATE_VERIFY_FAILED", "have both ends' certificates signed by the authority that --tls-ca names"),
)
"""What a link says that could not be made although somebody answers there, and what to do about it."""


class Health(Enum):
    """How a check came out."""

    OK = "ok"
    WARNING = "warning"
    """Works, but not as well as it could."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """One judgement; `mend` says what to do about it."""

    name: str
    health: Health
    detail: str
    mend: str = ""


def deployment_checks(info: DeploymentInfo) -> Iterator[Check]:
    """Yield everything that can be told from GetInfo."""
    yield _versions(info)
    yield from _targets(info)
    yield from _drafts(info)


def plain_check(choice: Choice) -> Check:
    """Judge a short generation with drafts turned off."""
    tokens = choice.usage.output_tokens
    if not tokens:
        return Check("plain decoding", Health.FAILED, "got no token", "look at the target's log")
    speed = "" if choice.decode_rate is None else f", {choice.decode_rate:.1f} tok/s"
    return Check("plain decoding", Health.OK, f"{tokens} tokens{speed}")


def draft_check(choice: Choice, plain: Choice, info: DeploymentInfo) -> Check:
    """Judge the same generation with drafts, greedy, against the plain one."""
    name, usage = "drafted decoding", choice.usage
    if choice.ids != plain.ids:
        at = next((i for i, (a, b) in enumerate(zip(choice.ids, plain.ids, strict=False)) if a != b), "the end")
        mend = "expected now and then outside float32, where near-ties flip; otherwise a defect, please report it"
        return Check(name, Health.WARNING, f"differs from plain decoding at output position {at}", mend)
    if usage.acceptance_length is None:
        return Check(name, Health.WARNING, *_undrafted(usage.late_blocks, info))
    detail = f"same ids, acceptance length {usage.acceptance_length:.2f}, {usage.late_blocks} late blocks"
    if choice.decode_rate is not None and plain.decode_rate is not None:
        speed = choice.decode_rate / plain.decode_rate
        detail += f", {speed:.2f} times plain decoding's speed"
        if speed < _SLOWER:
            mend = "a smaller or faster draft, one that agrees more with the target, a smaller γ; γ 0 decodes plainly"
            return Check(name, Health.WARNING, detail, mend)
    return Check(name, Health.OK, detail)


def _undrafted(late: int, info: DeploymentInfo) -> tuple[str, str]:
    """Return what is said where no block was verified, and what to do."""
    seen = f"no block was verified ({late} late)"
    up = [peer for peer in info.drafts if peer.up and peer.info is not None]
    if not late and up and all(peer.info is not None and peer.info.drafter is Drafter.LOOKUP for peer in up):
        return (
            f"{seen}: lookup found nothing to go on from",
            "try it on a text that repeats itself, as edits and code do",
        )
    if any(check.health is Health.FAILED for check in _drafts(info)):
        return seen, "mend the draft that failed above"
    return seen, "wait for the draft to come up; look at the orchestrator's log for why its blocks are late or refused"


def untried_check(info: DeploymentInfo) -> Check | None:
    """Say that nothing was drafted, where drafts are configured and none is up; None where there is none to try."""
    if not info.drafts:
        return None
    mend = "ask again once a draft is up; until then the target drafts by itself, or decodes plainly"
    return Check("drafted decoding", Health.WARNING, "not tried: no draft is up", mend)


def _versions(info: DeploymentInfo) -> Check:
    if info.protocol_max < PROTOCOL_MIN or info.protocol_min > PROTOCOL_MAX:
        seen, wanted = f"{info.protocol_min} to {info.protocol_max}", f"{PROTOCOL_MIN} to {PROTOCOL_MAX}"
        mend = f"install the release of the server, {info.version}"
        return Check("version", Health.FAILED, f"protocol {seen}, wanted one of {wanted}", mend)
    releases = {peer.info.version for peer in (*info.targets, *info.drafts) if peer.info is not None} | {info.version}
    if releases != {__version__}:
        mend = "fine while an upgrade rolls out; otherwise install one release everywhere"
        return Check("version", Health.WARNING, f"{', '.join(sorted(releases))} there, {__version__} here", mend)
    return Check("version", Health.OK, __version__)


def _targets(info: DeploymentInfo) -> Iterator[Check]:
    if not info.targets:
        yield Check("targets", Health.FAILED, "none is configured", "start the orchestrator with --targets")
    for peer in info.targets:
        yield _reach("target", peer, down=Health.FAILED)
    models = {peer.address: peer.info.model for peer in info.targets if peer.info is not None and peer.info.model}
    if len({model.weights_digest for model in models.values()}) > 1:
        seen = ", ".join(f"{address}: {model.name}" for address, model in models.items())
        yield Check("targets' weights", Health.FAILED, f"differ: {seen}", "serve the same weights by all targets")


def _drafts(info: DeploymentInfo) -> Iterator[Check]:
    if not info.drafts:
        mend = "start the orchestrator with --drafts"
        yield Check("drafts", Health.WARNING, "none is configured: every token is decoded plainly", mend)
    for peer in info.drafts:
        yield _reach("draft", peer, down=Health.WARNING)
        # What is known of one that is down is of the process before.
        if peer.up and peer.info is not None and peer.info.model is not None and info.model is not None:
            yield _fit(peer.address, peer.info.model, info.model)


def _reach(kind: str, peer: PeerInfo, *, down: Health) -> Check:
    name = f"{kind} {peer.address}"
    if not peer.up:
        return _out_of_use(name, peer, down=down)
    facts = ["up"]
    if peer.round_trip_us is not None:
        facts.append(f"round trip {peer.round_trip_us / 1000:.2f} ms")
    if peer.info is not None:
        model, drafter = peer.info.model, peer.info.drafter
        facts.append(f"{model.name} in {model.dtype}" if model is not None else drafter.name.lower() if drafter else "")
    if kind == "draft":
        facts.append("trusted" if peer.trusted else "not trusted: rule match only")
    return Check(name, Health.OK, ", ".join(filter(None, facts)))


def _out_of_use(name: str, peer: PeerInfo, *, down: Health) -> Check:
    """Judge a peer that the orchestrator has no link to: it was not reached, or what it said of itself does not fit."""
    why = peer.last_error or "not reached yet"
    if _MISFIT.search(why) is not None:
        return Check(name, down, f"not used: {why}", "serve the same model there, or take it out of --targets")
    if any(words in why for words in _LOADING):
        return Check(name, down, f"down: {why}", "wait; large models take minutes to load")
    mend = next((advice for words, advice in _ADVICE if words in why), None)
    mend = mend or f"start it, or look at the network between the orchestrator and {peer.address}"
    return Check(name, down, f"down: {why}", mend)


def _fit(address: str, draft: ModelInfo, target: ModelInfo) -> Check:
    name = f"draft {address} and target"
    if draft.tokenizer_digest != target.tokenizer_digest or draft.vocabulary_size != target.vocabulary_size:
        seen = f"vocabulary {draft.vocabulary_size} ({draft.tokenizer_digest[:8]})"
        wanted = f"{target.vocabulary_size} ({target.tokenizer_digest[:8]})"
        mend = "serve a draft with the target's tokenizer"
        return Check(name, Health.FAILED, f"{seen}, wanted the target's {wanted}", mend)
    if draft.longest_context < target.longest_context:
        detail = f"the draft reads {draft.longest_context} tokens, the target {target.longest_context}"
        return Check(name, Health.WARNING, detail, "expect plain decoding beyond the draft's context")
    return Check(name, Health.OK, f"same tokenizer, {target.vocabulary_size} ids")
