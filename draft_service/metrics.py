"""Prometheus metrics of the draft service."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from draft_service.engine_messages import EncodedBlocks, Gauges, Tallies

_SECONDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class DraftMetrics:
    """What a draft service counts and measures."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._events = Counter(
            "foreword_draft_events", "What went wrong or was ignored, by name.", ["event"], registry=registry
        )
        self._blocks = Counter("foreword_draft_blocks", "Blocks drafted.", registry=registry)
        self._candidates = Counter("foreword_draft_tokens", "Candidates drafted.", registry=registry)
        self._ahead = Counter(
            "foreword_draft_outcomes",
            "Outcomes of blocks by fate: prepared, shipped to the target, hit, miss; and by ending.",
            ["fate", "ending"],
            registry=registry,
        )
        self._queue = Histogram(
            "foreword_draft_queue_seconds",
            "From the order or verdict to the start of drafting.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._compute = Histogram(
            "foreword_draft_compute_seconds",
            "From the start of drafting to the last candidate of the block.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._sessions = Gauge("foreword_draft_sessions", "Open sessions.", registry=registry)
        self._waiting = Gauge("foreword_draft_waiting", "Sessions whose tokens are being read.", registry=registry)
        self._resident = Gauge("foreword_draft_resident_tokens", "Tokens in the cache.", registry=registry)
        self._step = Gauge("foreword_draft_step_seconds", "Median of recent drafting steps.", registry=registry)

    def count(self, name: str, times: int = 1) -> None:
        """Count an event by its name."""
        self._events.labels(event=name).inc(times)

    def blocks(self, message: EncodedBlocks) -> None:
        """Measure blocks that leave."""
        self._blocks.inc(len(message.blocks))
        self._candidates.inc(sum(message.candidates))
        for queue_us in message.queue_us:
            self._queue.observe(queue_us / 1e6)
        for compute_us in message.compute_us:
            self._compute.observe(compute_us / 1e6)

    def tallies(self, message: Tallies) -> None:
        """Count what the engine counted."""
        for name, times in message.counts:
            self.count(name, times)
        for fate, ending, times in message.ahead:
            self._ahead.labels(fate=fate, ending=ending).inc(times)

    def gauges(self, message: Gauges) -> None:
        """Show how busy the engine is."""
        self._sessions.set(message.sessions)
        self._waiting.set(message.waiting)
        self._resident.set(message.resident_tokens)
        self._step.set(message.step_us / 1e6)
