"""Prometheus metrics of an orchestrator."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from foreword.protocol.generation import Finish
from foreword.protocol.words import Drafter, ResultKind
from orchestrator.measure.progress import Totals
from orchestrator.measure.rounds import RoundParts
from orchestrator.measure.tallies import Tally
from orchestrator.sessions.output import Decided

_PART_US = (100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6)
_LATENCY_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0)
_GAMMAS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)


class RoundMetrics(Collector):
    """What every round touches."""

    def __init__(self) -> None:
        self._kinds = dict.fromkeys(ResultKind, 0)
        self._late = 0
        self._writers: dict[tuple[Drafter, bool], int] = {}
        """Blocks by who wrote them, and whether that was inside the target."""
        self._verifications = 0
        self._gamma = Tally(_GAMMAS)
        self._offered: list[int] = []
        self._kept: list[int] = []
        self._parts = [Tally(_PART_US) for _ in RoundParts._fields]

    def decided(self, decided: Decided) -> None:
        """Count a round or plain step."""
        result, kept = decided.emit.result, decided.emit.verdict.kept
        self._kinds[result.kind] += 1
        self._late += decided.late
        if result.ids and result.drafter is not None:
            writer = result.drafter, decided.local
            self._writers[writer] = self._writers.get(writer, 0) + 1
        self._verifications += bool(result.ids)
        self._gamma.add(decided.gamma)
        while len(self._offered) < len(result.ids):
            self._offered.append(0)
            self._kept.append(0)
        for index in range(len(result.ids)):
            self._offered[index] += 1
            self._kept[index] += index < kept
        for tally, value in zip(self._parts, decided.parts, strict=True):
            if value is not None:
                tally.add(value)

    def totals(self) -> Totals:
        """Return counts since the start."""
        results = sum(self._kinds.values())
        return Totals(results, self._verifications, sum(self._offered), sum(self._kept), self._late)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of a scrape."""
        rounds = CounterMetricFamily("foreword_rounds", "Results by kind: evidence or a plain step.", labels=["kind"])
        for kind, count in self._kinds.items():
            rounds.add_metric([kind.name.lower()], count)
        yield rounds
        blocks = CounterMetricFamily(
            "foreword_blocks", "Blocks that were verified, by who wrote them and where.", labels=["drafter", "place"]
        )
        for (drafter, local), count in self._writers.items():
            blocks.add_metric([drafter.name.lower(), "target" if local else "draft"], count)
        yield blocks
        yield CounterMetricFamily("foreword_fallback", "Rounds that went without their block.", value=self._late)
        gamma = HistogramMetricFamily("foreword_gamma", "Candidates asked for per round; 0 under a lease.")
        gamma.add_metric([], self._gamma.buckets(), self._gamma.total)
        yield gamma
        yield _by_position("foreword_draft_tokens_per_pos", "Candidates verified, by position.", self._offered)
        yield _by_position("foreword_accepted_tokens_per_pos", "Candidates kept, by position.", self._kept)
        parts = HistogramMetricFamily("foreword_round_seconds", "Parts of rounds.", labels=["part"])
        for name, tally in zip(RoundParts._fields, self._parts, strict=True):
            seconds = [(bound if bound == "+Inf" else str(float(bound) / 1e6), n) for bound, n in tally.buckets()]
            parts.add_metric([name], seconds, tally.total / 1e6)
        yield parts


def _by_position(name: str, documentation: str, counts: list[int]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, documentation, labels=["position"])
    for position, count in enumerate(counts):
        family.add_metric([str(position)], count)
    return family


class OrchestratorMetrics:
    """The metrics, registered in the process's registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        rounds = RoundMetrics()
        registry.register(rounds)
        self.decided = rounds.decided
        self.totals = rounds.totals
        self._events = Counter(
            "foreword_orchestrator_events",
            "Messages that were ignored, late or wrong, what became of drafts, and why a target was chosen, by kind.",
            ["event"],
            registry=registry,
        )
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
