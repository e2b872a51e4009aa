"""Round trips from echoes, on clocks that have nothing in common."""

from foreword.protocol.info import Liveness
from foreword.rpc.roundtrip import WINDOW, RoundTrip


def exchange(ours, theirs, now, there_us, held_us, back_us, skew=10**12):
    """One liveness frame there and one back; returns our clock afterwards."""
    theirs.heard(ours.next_liveness(now), now + skew + there_us)
    ours.heard(theirs.next_liveness(now + skew + there_us + held_us), now + there_us + held_us + back_us)
    return now + there_us + held_us + back_us


def test_the_time_at_the_peer_does_not_count_nor_does_its_clock():
    ours, theirs = RoundTrip(), RoundTrip()
    assert ours.minimum_us is None
    assert ours.median_us is None
    now = exchange(ours, theirs, 5, there_us=300, held_us=700_000, back_us=200)
    assert (ours.minimum_us, ours.median_us) == (500, 500)
    now = exchange(ours, theirs, now, there_us=400, held_us=3, back_us=500)
    exchange(ours, theirs, now, there_us=5000, held_us=3, back_us=500)
    assert (ours.minimum_us, ours.median_us) == (500, 900)


def test_only_the_newest_samples_count():
    ours, theirs = RoundTrip(), RoundTrip()
    now = exchange(ours, theirs, 0, 1, 0, 1)
    for _ in range(WINDOW):
        now = exchange(ours, theirs, now, 50, 0, 50)
    assert ours.minimum_us == 100


def test_echoes_of_unknown_frames_are_ignored():
    ours = RoundTrip()
    ours.next_liveness(100)
    ours.heard(Liveness(1, echo_sequence=99), 200)
    assert ours.minimum_us is None
    ours.heard(Liveness(2, echo_sequence=1), 250)
    ours.heard(Liveness(3, echo_sequence=1), 999)  # an echo counts once
    assert ours.minimum_us == ours.median_us == 150


def test_frames_that_are_never_echoed_are_forgotten():
    ours = RoundTrip()
    for now in range(1000):
        ours.next_liveness(now)
    assert len(ours._sent_at) <= WINDOW


def test_a_peer_that_claims_too_much_holding_time_gives_no_negative_round_trip():
    ours = RoundTrip()
    ours.next_liveness(0)
    ours.heard(Liveness(1, echo_sequence=1, echo_held_us=10**9), 100)
    assert ours.minimum_us == 0
