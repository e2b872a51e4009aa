"""All requests at work: admission, registry, abort, drain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

import structlog

from foreword._version import __version__
from foreword.errors import ForewordError, Full, InvalidField, Unavailable
from foreword.protocol.activity import MOST_CHOICES, Activity, ChoiceActivity
from foreword.protocol.generation import Chat, DeploymentInfo, Event, Finish, GenerateRequest, TokenPrompt
from foreword.protocol.words import PROTOCOL_MAX, PROTOCOL_MIN
from orchestrator.front.checks import FrontLimits
from orchestrator.front.event_queue import QueueLimits
from orchestrator.front.generation import Generation
from orchestrator.front.intake import Intake, Prepared
from orchestrator.policy import START_GAMMA
from orchestrator.sessions.driver import Surroundings
from orchestrator.sessions.limits import SECOND_US

_log = structlog.stdlib.get_logger(__name__)

RETRY_AFTER_MS = 500
"""When to ask again while too many requests are running."""
LONG_CHARACTERS = 4_096
LONG_TOKENS = 16_384
"""Requests from here on are prepared in a thread, so that the event loop keeps its pace."""
_SHOWN_US = 200_000
"""How old an answer about what is at work may be: taking stock of hundreds of choices takes from all of them."""
TURN_CHARACTERS = 32
"""What a template writes around a turn, about."""


class RequestMeters(Protocol):
    """Counts requests, for metrics."""

    def running(self, requests: int) -> None:
        """Take note of how many requests are at work."""

    def finished(self, finish: Finish) -> None:
        """Count a choice that ended."""

    def failed(self, code: str) -> None:
        """Count a request that ended with an error."""


@dataclass(frozen=True, slots=True)
class FrontSettings:
    """How many requests are served, and how patiently."""

    limits: FrontLimits = field(default_factory=FrontLimits)
    max_requests: int = 256
    queue: QueueLimits = field(default_factory=QueueLimits)
    patience_us: int = 60 * SECOND_US
    """For a client that does not read, before its sessions end."""


class _Entry:
    """A request at work; while it is being prepared it has no generation yet, and an end waits for that."""

    def __init__(self) -> None:
        self._generation: Generation | None = None
        self._ended = False
        self._error: ForewordError | None = None

    def start(self, generation: Generation) -> None:
        self._generation = generation
        generation.start()
        if self._ended:
            self.end(self._error)

    def activity(self) -> Iterable[ChoiceActivity]:
        return () if self._generation is None else self._generation.activity()

    def end(self, error: ForewordError | None = None) -> None:
        """End it, in good order without an error."""
        self._ended, self._error = True, error
        if self._generation is not None:
            self._generation.abort() if error is None else self._generation.fail(error)


class Front:
    """Serves requests once `open_up` has told with which model."""

    def __init__(
        self, settings: FrontSettings, around: Surroundings, meters: RequestMeters, new_id: Callable[[], str]
    ) -> None:
        self._settings = settings
        self._around = around
        self._meters = meters
        self._new_id = new_id
        self._intake: Intake | None = None
        self._draining = False
        self._running: dict[str, _Entry] = {}
        self._activity: Activity | None = None
        self._activity_us = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def patience_s(self) -> float:
        """How long a client may stop reading."""
        return self._settings.patience_us / SECOND_US

    def served(self) -> Intake:
        """Return what requests are answered with; raises Unavailable before `open_up` and while draining."""
        if self._draining:
            raise _going()
        if self._intake is None:
            targets = self._around.targets
            missing = "no target has been reached yet" + targets.troubles
            if any(peer.up for peer in targets.peers):
                missing = "the tokenizer of the targets' model is being loaded"
            raise Unavailable(missing, retry_after_ms=RETRY_AFTER_MS)
        return self._intake

    def check_ready(self) -> None:
        """Raise Unavailable while requests would find no target."""
        self.served()
        targets = self._around.targets
        if not any(peer.up for peer in targets.peers):
            raise Unavailable("no target is up" + targets.troubles, retry_after_ms=RETRY_AFTER_MS)

    def open_up(self, intake: Intake) -> None:
        """Take requests from now on."""
        self._intake = intake

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        """Yield the events of a request; leaving it ends the request at once. Raises ForewordError."""
        called_us = self._around.clock.now_us()
        intake = self._admit()
        request_id = self._enter(request.request_id)
        try:
            prepared = await self._prepare(intake, request, request_id)
            generation = Generation(
                prepared,
                intake.text,
                self._around,
                model=intake.model.name,
                called_us=called_us,
                queue=self._settings.queue,
                patience_us=self._settings.patience_us,
            )
            self._running[request_id].start(generation)
            async with aclosing(generation.events()) as events:
                async for event in events:
                    if isinstance(event, Finish):
                        self._finished(request_id, event)
                    yield event
        except ForewordError as error:
            self._meters.failed(error.reason)
            raise
        except (asyncio.CancelledError, GeneratorExit):
            self._meters.failed("CANCELLED")
            raise
        finally:
            self._leave(request_id)

    def abort(self, request_id: str) -> bool:
        """End a request; its stream finishes in good order. Returns whether it was running."""
        entry = self._running.get(request_id)
        if entry is None:
            return False
        entry.end()
        return True

    def info(self) -> DeploymentInfo:
        """Return what is served, and with what."""
        targets, drafts = self._around.targets, self._around.drafts
        limits = self._settings.limits
        return DeploymentInfo(
            version=__version__,
            model=targets.model,
            targets=targets.describe(),
            drafts=drafts.describe(targets.model),
            gamma=START_GAMMA if limits.gamma is None else limits.gamma,
            gamma_max=limits.gamma_max,
            adaptive=limits.gamma is None,
            protocol_min=PROTOCOL_MIN,
            protocol_max=PROTOCOL_MAX,
        )

    def activity(self) -> Activity:
        """Return what is at work; those who ask at the same time get the same answer."""
        now_us = self._around.clock.now_us()
        if self._activity is None or now_us - self._activity_us >= _SHOWN_US:
            self._activity, self._activity_us = self._look(), now_us
        return self._activity

    def _look(self) -> Activity:
        choices = (choice for entry in self._running.values() for choice in entry.activity())
        return Activity(len(self._running), tuple(islice(choices, MOST_CHOICES)))

    async def drain(self) -> None:
        """Take no more requests and return when none is at work; cut off, end the rest so that clients go elsewhere."""
        self._draining = True
        try:
            await self._idle.wait()
        finally:
            for entry in self._running.values():
                entry.end(_going())

    def _admit(self) -> Intake:
        intake = self.served()
        if len(self._running) >= self._settings.max_requests:
            raise Full(
                f"requests: got {len(self._running)} at work, wanted fewer than {self._settings.max_requests}",
                retry_after_ms=RETRY_AFTER_MS,
            )
        return intake

    def _enter(self, request_id: str) -> str:
        if request_id in self._running:
            raise InvalidField("request_id", request_id, "one that no running request has")
        request_id = request_id or self._new_id()
        self._running[request_id] = _Entry()
        self._idle.clear()
        self._meters.running(len(self._running))
        return request_id

    def _finished(self, request_id: str, finish: Finish) -> None:
        self._meters.finished(finish)
        usage, timings = finish.usage, finish.timings
        length = usage.acceptance_length
        _log.info(
            "finished",
            request=request_id,
            choice=finish.choice,
            reason=finish.reason.name.lower(),
            prompt_tokens=usage.prompt_tokens,
            output_tokens=usage.output_tokens,
            acceptance_length=None if length is None else round(length, 2),
            first_token_ms=timings.first_token_us // 1000,
            total_ms=timings.total_us // 1000,
        )

    def _leave(self, request_id: str) -> None:
        del self._running[request_id]
        self._meters.running(len(self._running))
        if not self._running:
            self._idle.set()

    async def _prepare(self, intake: Intake, request: GenerateRequest, request_id: str) -> Prepared:
        if _is_long(request):
            return await asyncio.to_thread(intake.prepare, request, request_id)
        return intake.prepare(request, request_id)


def _going() -> Unavailable:
    return Unavailable("the orchestrator is shutting down", retry_after_ms=RETRY_AFTER_MS)


def _is_long(request: GenerateRequest) -> bool:
    """Whether preparing the request would keep others waiting."""
    if request.law is not None and request.law.grammar is not None:
        return True
    ids, characters = len(request.resume), sum(map(len, request.stop))
    match request.prompt:
        case TokenPrompt(tokens):
            ids += len(tokens)
        case Chat(messages):
            characters += sum(len(turn.role) + len(turn.content) + TURN_CHARACTERS for turn in messages)
        case str() as text:
            characters += len(text)
    if request.law is not None:
        ids += len(request.law.bias) + len(request.law.banned_ids) + len(request.law.stop_ids)
    return ids > LONG_TOKENS or characters > LONG_CHARACTERS
