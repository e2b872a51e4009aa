"""Order and bounds of what waits for the transport."""

from foreword.rpc.outbox import Outbox
from foreword.wire.frames import Encoded


def one(sid, text):
    return Encoded(sid, (text.encode(),))


def test_urgent_messages_keep_their_order_and_fill_frames_to_the_budget():
    outbox = Outbox()
    for number in range(5):
        outbox.put(one(number, f"m{number}"))
    assert outbox.queued_bytes == 10
    assert [outbox.take(4), outbox.take(5), outbox.take(1)] == [[b"m0", b"m1"], [b"m2", b"m3"], [b"m4"]]
    assert not outbox
    assert outbox.queued_bytes == 0
    assert outbox.take(10) == []


def test_an_entry_over_the_budget_goes_alone():
    outbox = Outbox()
    outbox.put(one(1, "x" * 100))
    outbox.put(one(1, "y"))
    assert outbox.take(10) == [b"x" * 100]
    assert outbox.take(10) == [b"y"]


def test_long_prompts_ride_one_entry_a_frame_behind_urgent_messages():
    outbox = Outbox()
    outbox.put(Encoded(1, (b"open", b"more", b"rest")))
    outbox.put(one(2, "commit"))
    assert outbox.take(1000) == [b"commit", b"open"]
    outbox.put(one(3, "other"))
    assert outbox.take(5) == [b"other", b"more"]  # a full frame does not starve the prompt
    assert outbox.take(1000) == [b"rest"]


def test_a_session_s_messages_stay_behind_its_prompt():
    outbox = Outbox()
    outbox.put(Encoded(1, (b"open", b"rest")))
    outbox.put(one(1, "close"))
    outbox.put(one(2, "x"))
    assert [outbox.take(99) for _ in range(3)] == [[b"x", b"open"], [b"rest"], [b"close"]]
    outbox.put(one(1, "again"))
    outbox.put(one(2, "y"))
    assert outbox.take(99) == [b"again", b"y"]


def test_clear_forgets_everything():
    outbox = Outbox()
    outbox.put(Encoded(1, (b"open", b"rest")))
    outbox.put(one(2, "x"))
    outbox.clear()
    assert not outbox
    assert outbox.queued_bytes == 0
    outbox.put(one(1, "y"))
    assert outbox.take(9) == [b"y"]
