"""The engine's side of the channel, over a socket pair in one process."""

import socket
import threading

import pytest

from foreword.engine.channel import EngineChannel, EngineStopped
from foreword.engine.child import load_entry, one_line
from foreword.engine.framing import Kind, Start, Unpacker, pack
from foreword.errors import InvalidField, NotFound


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, EngineChannel(theirs)


def received(sock, count):
    unpacker, got = Unpacker(), []
    while len(got) < count:
        got.extend(unpacker.feed(sock.recv(1 << 16)))
    return got


def test_receive_drains_everything_that_is_there(pair):
    ours, channel = pair
    assert channel.receive(0) == []
    ours.sendall(pack(Kind.BATCH, 1) + pack(Kind.BATCH, 2))
    ours.sendall(pack(Kind.BATCH, 3)[:5])
    assert channel.receive() == [1, 2]
    assert channel.receive(0) == []
    ours.sendall(pack(Kind.BATCH, 3)[5:])
    assert channel.receive(10) == [3]


def test_receive_waits_no_longer_than_it_is_told(pair):
    assert pair[1].receive(0.01) == []


def test_batches_before_the_end_are_not_lost(pair):
    ours, channel = pair
    ours.sendall(pack(Kind.BATCH, 1) + pack(Kind.STOP))
    assert channel.receive() == [1]
    with pytest.raises(EngineStopped):
        channel.receive()
    with pytest.raises(EngineStopped):
        channel.receive(0)


def test_the_service_s_death_is_the_end_for_receive_and_send(pair):
    ours, channel = pair
    ours.sendall(pack(Kind.BATCH, 1))
    ours.close()
    assert channel.receive() == [1]
    with pytest.raises(EngineStopped):
        channel.receive()
    with pytest.raises(EngineStopped):
        channel.send("x")
    channel.fail(NotFound("nobody is there to be told"))


def test_start_is_the_first_message(pair):
    ours, channel = pair
    ours.sendall(pack(Kind.START, Start("a:b", 5)))
    assert channel.start() == Start("a:b", 5)
    ours.close()


def test_start_without_a_service(pair):
    ours, channel = pair
    ours.close()
    with pytest.raises(EngineStopped):
        channel.start()


def test_ready_batches_and_failures_arrive(pair):
    ours, channel = pair
    assert not channel.is_ready
    channel.ready("info")
    assert channel.is_ready
    channel.send([1])
    channel.fail(NotFound("model: got x"))
    kinds, values = zip(*received(ours, 3), strict=True)
    assert kinds == (Kind.READY, Kind.BATCH, Kind.FAILED)
    assert values[:2] == ("info", [1])
    assert values[2].message == "model: got x"


def test_big_batches_both_ways_at_once_do_not_deadlock(pair):
    ours, channel = pair
    big = bytes(5_000_000)
    got = []
    reader = threading.Thread(target=lambda: got.extend(received(ours, 1)))
    reader.start()
    writer = threading.Thread(target=ours.sendall, args=(pack(Kind.BATCH, big),))
    writer.start()
    channel.send(big)
    batches = []
    while not batches:
        batches = channel.receive(5)
    reader.join()
    writer.join()
    assert got == [(Kind.BATCH, big)]
    assert batches == [big]


@pytest.mark.parametrize("name", ["", "json", "json:", "json:nothing", "no.such.module:run"])
def test_entries_that_do_not_exist_are_named(name):
    with pytest.raises(InvalidField, match=f"engine.entry: got '{name}', wanted a function as module:name"):
        load_entry(name)


def test_entries():
    import json

    assert load_entry("json:loads") is json.loads


def test_errors_in_one_line():
    assert one_line(ValueError("a\nb")) == "ValueError: a"
    assert one_line(ValueError()) == "ValueError"
