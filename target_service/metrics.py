"""Prometheus metrics of a target."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from target_service.engine.messages import Status, StepReport

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)


class TargetMetrics:
    """The metrics, registered in the process's registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._events = Counter(
            "foreword_target_events",
            "Messages that were ignored, refused or wrong, by kind.",
            ["event"],
            registry=registry,
        )
        self._rows = Histogram("foreword_target_step_rows", "Rows of a step.", buckets=_ROWS, registry=registry)
        self._seconds = Histogram(
            "foreword_target_step_seconds", "Time of a step.", buckets=_SECONDS, registry=registry
        )
        self._evidence = Histogram(
            "foreword_target_evidence_seconds",
            "Part of a step spent on laws and evidence.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._parts = Counter(
            "foreword_target_step_parts",
            "Sessions in steps: verified a draft's block, or what the target guessed itself, or took a plain step.",
            ["kind"],
            registry=registry,
        )
        self._price = Gauge(
            "foreword_target_price",
            "Survival that a candidate has to exceed to be worth verifying.",
            registry=registry,
        )
        self._prompt_rows = Counter(
            "foreword_target_prompt_tokens", "Tokens of prompts read into the cache.", registry=registry
        )
        self._prefix = Counter(
            "foreword_target_prefix_tokens",
            "Tokens of sessions that began: all that were looked up, and those that were in the cache.",
            ["kind"],
            registry=registry,
        )
        self._sessions = Gauge("foreword_target_sessions", "Open sessions.", registry=registry)
        self._waiting = Gauge(
            "foreword_target_sessions_waiting", "Sessions in line for room in the cache.", registry=registry
        )
        self._resident = Gauge("foreword_target_resident_tokens", "Tokens of sessions in the cache.", registry=registry)
        self._free = Gauge("foreword_target_free_tokens", "Tokens that still fit.", registry=registry)
        self._pages = Gauge("foreword_target_pages", "Pages of the cache.", ["kind"], registry=registry)

    def count(self, event: str, times: int = 1) -> None:
        """Count an event of the gRPC process."""
        self._events.labels(event).inc(times)

    def stepped(self, report: StepReport) -> None:
        """Take a step into account."""
        self._rows.observe(report.rows)
        self._seconds.observe(report.step_us / 1e6)
        self._evidence.observe(report.evidence_us / 1e6)
        self._parts.labels("verified").inc(report.verified)
        self._parts.labels("guessed").inc(report.guessed)
        self._parts.labels("plain").inc(report.plain)
        self._prompt_rows.inc(report.prompt_rows)

    def status(self, status: Status) -> None:
        """Take the engine's report of the last second into account."""
        self._sessions.set(status.load.sessions)
        self._waiting.set(status.load.waiting)
        self._resident.set(status.resident_tokens)
        self._free.set(status.load.free_tokens or 0)
        self._price.set(status.load.price)
        self._pages.labels("all").set(status.memory.pages)
        self._pages.labels("free").set(status.memory.free)
        self._prefix.labels("queried").inc(status.prefixes.queried)
        self._prefix.labels("hit").inc(status.prefixes.hit)
        for name, times in status.counts.items():
            self.count(name, times)
