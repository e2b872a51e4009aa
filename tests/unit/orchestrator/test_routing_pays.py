"""Load and beginnings together beat either alone, where most requests share one system prompt."""

from __future__ import annotations

import pytest

from orchestrator.pools import targets as pools
from orchestrator.pools.targets import TargetPool
from tests.unit.orchestrator.routing_world import Outcome, Traffic

MOST_SHARE_ONE = (20, 1, 1, 1)


def outcome(*, by_prefix: bool = True) -> Outcome:
    traffic = Traffic(lambda peers: TargetPool(peers, by_prefix=by_prefix), rate=4.0, weights=MOST_SHARE_ONE)
    return traffic.run(40)


def test_load_and_beginnings_together_beat_either_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    both, load = outcome(), outcome(by_prefix=False)
    monkeypatch.setattr(pools, "TOKENS_PER_SESSION", 1)
    monkeypatch.setattr(pools, "MOST_SESSIONS", 1_000_000)
    prefix = outcome()
    assert both.read_share < 0.5 * load.read_share
    assert both.first_ms < 0.6 * load.first_ms
    assert both.first_p95_ms < 0.6 * load.first_p95_ms
    assert both.total_ms < load.total_ms
    assert both.total_ms < 0.8 * prefix.total_ms
