"""What a lane does to bytes, in virtual time: exact to the microsecond."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.errors import InvalidField
from foreword.testing import fault_pipe
from foreword.testing.fault_pipe import End, Lane, Pipe, Shape
from foreword.testing.virtual_clock import VirtualClock

FIXED = settings(deadline=None, derandomize=True)


class Recorder:
    """Source and sink: keeps what arrived and when."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.got: list[tuple[int, bytes | str]] = []
        self.reading = True

    @property
    def data(self) -> bytes:
        return b"".join(what for _, what in self.got if isinstance(what, bytes))

    def write(self, data: bytes, /) -> None:
        self.got.append((self.clock.now_us(), data))

    def write_eof(self) -> None:
        self.got.append((self.clock.now_us(), "eof"))

    def close(self) -> None:
        self.got.append((self.clock.now_us(), "close"))

    def abort(self) -> None:
        self.got.append((self.clock.now_us(), "abort"))

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Bench:
    """A pipe in virtual time."""

    def __init__(self, shape: Shape = Shape(), seed: str = "1") -> None:  # noqa: B008
        self.clock = VirtualClock()
        self.lane = Lane(shape=shape)
        self.end = Recorder(self.clock)
        self.pipe = Pipe(self.lane, self.end, self.end, clock=self.clock, seed=seed)

    def feed_at(self, when_us: int, data: bytes) -> None:
        self.clock.call_at(when_us, lambda: self.pipe.feed(data))


def test_without_faults_bytes_go_through_at_once() -> None:
    bench = Bench()
    bench.pipe.feed(b"ab")
    bench.pipe.feed_end(End.EOF)
    assert bench.end.got == [(0, b"ab"), (0, "eof")]


def test_delays_run_side_by_side() -> None:
    bench = Bench(Shape(delay_ms=10))
    for i in range(5):
        bench.feed_at(1000 * i, bytes([i]))
    bench.clock.run()
    assert bench.end.got == [(10_000 + 1000 * i, bytes([i])) for i in range(5)]


def test_the_end_comes_after_the_bytes_and_as_late() -> None:
    for end, word in ((End.EOF, "eof"), (End.CLOSED, "close"), (End.BROKEN, "abort")):
        bench = Bench(Shape(delay_ms=10, jitter_ms=5))
        bench.pipe.feed(b"x")
        bench.pipe.feed_end(end)
        bench.clock.run()
        (when, data), (ended, what) = bench.end.got
        assert (data, what) == (b"x", word)
        assert 10_000 <= when <= ended <= 15_000


def test_a_shorter_delay_does_not_overtake() -> None:
    bench = Bench(Shape(delay_ms=10))
    bench.pipe.feed(b"slow")
    bench.lane.shape = Shape()
    bench.pipe.feed(b"fast")
    bench.clock.run()
    assert bench.end.got == [(10_000, b"slow"), (10_000, b"fast")]


def test_bandwidth_is_shared_by_the_pipes_of_a_lane_and_adds_to_the_delay() -> None:
    bench = Bench(Shape(delay_ms=1, bytes_per_s=1e6))
    other = Recorder(bench.clock)
    second = Pipe(bench.lane, other, other, clock=bench.clock, seed="2")
    bench.pipe.feed(bytes(1000))
    second.feed(bytes(500))
    bench.clock.run()
    assert bench.end.got == [(2000, bytes(1000))]
    assert other.got == [(2500, bytes(500))]


def test_a_long_chunk_arrives_in_segments() -> None:
    bench = Bench(Shape(bytes_per_s=4096e6 / 1000))  # a segment a millisecond
    bench.pipe.feed(bytes(3 * 4096 + 2048))
    bench.clock.run()
    assert [when for when, _ in bench.end.got] == [1000, 2000, 3000, 3500]


def test_a_hold_keeps_everything_and_lets_it_go_in_order() -> None:
    bench = Bench(Shape(delay_ms=1))
    bench.lane.held = True
    bench.feed_at(0, b"a")
    bench.feed_at(50, b"b")
    bench.clock.run_until(5000)
    assert bench.end.got == []
    bench.lane.held = False
    bench.feed_at(4900, b"c")
    bench.pipe.flow()
    bench.clock.run()
    assert bench.end.got == [(5000, b"a"), (5000, b"b"), (6000, b"c")]


def test_a_half_open_lane_loses_bytes_and_ends() -> None:
    bench = Bench(Shape(delay_ms=1))
    bench.pipe.feed(b"before")
    bench.lane.swallows = True
    bench.pipe.feed(b"lost")
    bench.pipe.feed_end(End.BROKEN)
    bench.clock.run()
    assert bench.end.got == [(1000, b"before")]


def test_a_full_sink_holds_and_a_full_window_stops_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_pipe, "WINDOW_BYTES", 10)
    bench = Bench()
    bench.pipe.block(blocked=True)
    bench.pipe.feed(bytes(10))
    assert bench.end.reading
    bench.pipe.feed(bytes(1))
    assert (bench.end.got, bench.end.reading) == ([], False)
    bench.pipe.block(blocked=False)
    assert (len(bench.end.data), bench.end.reading) == (11, True)


def test_stop_forgets_what_is_under_way() -> None:
    bench = Bench(Shape(delay_ms=1))
    bench.pipe.feed(b"x")
    bench.pipe.stop()
    assert bench.clock.run() == 0
    assert bench.end.got == []


@FIXED
@given(st.lists(st.tuples(st.integers(0, 20_000), st.binary(min_size=1, max_size=9)), max_size=30), st.integers(0, 9))
def test_jitter_keeps_order_and_bounds(feeds: list[tuple[int, bytes]], seed: int) -> None:
    feeds.sort(key=lambda feed: feed[0])
    runs = []
    for _ in range(2):
        bench = Bench(Shape(delay_ms=3, jitter_ms=4), seed=str(seed))
        for when, data in feeds:
            bench.feed_at(when, data)
        bench.clock.run()
        runs.append(bench.end.got)
    assert runs[0] == runs[1], "the seed decides"
    assert [data for _, data in runs[0]] == [data for _, data in feeds]
    latest = 0
    for (arrived, _), (sent, _) in zip(runs[0], feeds, strict=True):
        latest = max(latest, sent + 7000)
        assert sent + 3000 <= arrived <= latest


@FIXED
@given(st.binary(min_size=200, max_size=200), st.lists(st.integers(1, 60), min_size=1, max_size=10))
def test_flips_do_not_depend_on_how_the_stream_is_cut(data: bytes, cuts: list[int]) -> None:
    whole, parts = Bench(Shape(corruption=0.1)), Bench(Shape(corruption=0.1))
    whole.pipe.feed(data)
    begin = 0
    for cut in [*cuts, len(data)]:
        parts.pipe.feed(data[begin : begin + cut])
        begin += cut
    assert whole.end.data == parts.end.data
    assert len(whole.end.data) == len(data)


def test_flips_come_at_the_rate_that_was_asked_for() -> None:
    bench = Bench(Shape(corruption=0.01))
    bench.pipe.feed(bytes(100_000))
    flipped = sum(byte != 0 for byte in bench.end.data)
    assert 850 <= flipped <= 1150  # 1000 expected, standard deviation 31.5
    every = Bench(Shape(corruption=1.0))
    every.pipe.feed(bytes(50))
    assert 0 not in every.end.data


@pytest.mark.parametrize(
    ("field", "value"),
    [("delay_ms", -1.0), ("jitter_ms", float("nan")), ("bytes_per_s", 0.0), ("corruption", 1.5), ("delay_ms", 1e999)],
)
def test_bad_shapes_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(InvalidField, match=field):
        Shape(**{field: value})
