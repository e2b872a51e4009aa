"""Prometheus metrics of an orchestrator."""

from __future__ import annotations

from dataclasses import fields

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from foreword.protocol.generation import Finish
from foreword.protocol.words import ResultKind
from orchestrator.measure.rounds import RoundParts
from orchestrator.sessions.output import Decided

_PART_SECONDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_LATENCY_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0)
_GAMMAS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)


class OrchestratorMetrics:
    """The metrics, registered in the process's registry; children are looked up once."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._events = Counter(
            "foreword_orchestrator_events",
            "Messages that were ignored, late or wrong, and what became of drafts, by kind.",
            ["event"],
            registry=registry,
        )
        rounds = Counter(
            "foreword_rounds", "Results by kind: evidence about a block, or a plain step.", ["kind"], registry=registry
        )
        self._rounds = {kind: rounds.labels(kind.name.lower()) for kind in ResultKind}
        self._fallbacks = Counter("foreword_fallback", "Rounds that went without their block.", registry=registry)
        self._gamma = Histogram(
            "foreword_gamma", "Candidates asked for per round; 0 under a lease.", buckets=_GAMMAS, registry=registry
        )
        self._offered = Counter(
            "foreword_draft_tokens_per_pos", "Candidates verified, by position.", ["position"], registry=registry
        )
        self._kept = Counter(
            "foreword_accepted_tokens_per_pos", "Candidates kept, by position.", ["position"], registry=registry
        )
        self._positions: list[tuple[Counter, Counter]] = []
        parts = Histogram(
            "foreword_round_seconds", "Parts of rounds.", ["part"], buckets=_PART_SECONDS, registry=registry
        )
        self._parts = [(field.name, parts.labels(field.name)) for field in fields(RoundParts)]
        self._requests(registry)

    def _requests(self, registry: CollectorRegistry) -> None:
        self._finished = Counter(
            "foreword_requests", "Choices that ended, by finish reason or error.", ["reason"], registry=registry
        )
        self._running = Gauge("foreword_requests_running", "Requests at work.", registry=registry)
        self._prompt = Counter("foreword_prompt_tokens", "Prompt tokens of finished choices.", registry=registry)
        self._output = Counter("foreword_output_tokens", "Output tokens of finished choices.", registry=registry)
        self._first = Histogram(
            "foreword_first_token_seconds",
            "From the call to the first token.",
            buckets=_LATENCY_SECONDS,
            registry=registry,
        )
        self._total = Histogram(
            "foreword_request_seconds", "From the call to the end.", buckets=_LATENCY_SECONDS, registry=registry
        )

    def event(self, name: str) -> None:
        """Count a named event."""
        self._events.labels(name).inc()

    def decided(self, decided: Decided) -> None:
        """Count a round or plain step."""
        result, kept = decided.emit.result, decided.emit.verdict.kept
        self._rounds[result.kind].inc()
        self._gamma.observe(decided.gamma)
        if decided.late:
            self._fallbacks.inc()
        for index in range(len(result.ids)):
            offered, accepted = self._position(index)
            offered.inc()
            if index < kept:
                accepted.inc()
        for name, part in self._parts:
            value = getattr(decided.parts, name)
            if value is not None:
                part.observe(value / 1e6)

    def running(self, requests: int) -> None:
        """Take note of how many requests are at work."""
        self._running.set(requests)

    def finished(self, finish: Finish) -> None:
        """Count a choice that ended."""
        self._finished.labels(finish.reason.name.lower()).inc()
        self._prompt.inc(finish.usage.prompt_tokens)
        self._output.inc(finish.usage.output_tokens)
        self._first.observe(finish.timings.first_token_us / 1e6)
        self._total.observe(finish.timings.total_us / 1e6)

    def failed(self, code: str) -> None:
        """Count a request that ended with an error."""
        self._finished.labels(code.lower()).inc()

    def _position(self, index: int) -> tuple[Counter, Counter]:
        while len(self._positions) <= index:
            position = str(len(self._positions))
            self._positions.append((self._offered.labels(position), self._kept.labels(position)))
        return self._positions[index]
