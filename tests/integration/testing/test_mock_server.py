"""The mock server does what its script says: users' tests stand on it."""

from __future__ import annotations

import pytest

from foreword import Client, Delta, Finish, FinishReason, Full, TokenSource
from foreword.protocol.generation import GenerateRequest
from foreword.testing.mock_server import MockServer, Reply, Script


def texts(script: Script, count: int = 3) -> list[str]:
    with MockServer(script) as server, Client(server.address) as client:
        return [client.generate(f"p{i}").text for i in range(count)]


def test_scripts_are_one_answer_several_in_order_or_a_function() -> None:
    assert texts("same") == ["same"] * 3
    assert texts(["one", Reply("two")]) == ["one", "two", "two"]
    assert texts(lambda request: f"for {request.prompt}") == ["for p0", "for p1", "for p2"]


@pytest.mark.parametrize(
    ("reply", "pieces"),
    [
        (Reply("two words"), ("two", " words")),
        (Reply("  spaces  stay \n"), ("  spaces", "  stay \n")),
        (Reply(""), ()),
        (Reply(pieces=("a", "", "b")), ("a", "", "b")),
    ],
)
def test_texts_are_cut_into_tokens(reply: Reply, pieces: tuple[str, ...]) -> None:
    with MockServer(reply) as server, Client(server.address) as client:
        deltas = [event for event in client.stream("x") if isinstance(event, Delta)]
    assert tuple(delta.text for delta in deltas) == pieces
    assert [delta.ids for delta in deltas] == [(100 + i,) for i in range(len(pieces))]


def test_accepted_tokens_are_the_drafts_and_counted() -> None:
    with MockServer(Reply("a b c d e f g", accepted=2)) as server, Client(server.address) as client:
        drafted, plain = client.generate("x"), client.generate("x", gamma=0)
        paced = client.generate("x", one_token_per_event=True)
    draft, target = TokenSource.DRAFT, TokenSource.TARGET
    assert drafted.choices[0].sources == (draft, draft, target, draft, draft, target, draft)
    usage = drafted.usage
    assert (usage.output_tokens, usage.accepted_tokens, usage.verifications, usage.drafted_tokens) == (7, 5, 3, 6)
    assert set(plain.choices[0].sources) == set(paced.choices[0].sources) == {target}
    assert (plain.usage.plain_steps, plain.usage.verifications) == (7, 0)
    assert drafted.ids == plain.ids == paced.ids


def test_limits_and_reasons() -> None:
    with MockServer(Reply("a b c", reason=FinishReason.STOP, stop="END")) as server, Client(server.address) as client:
        ended, cut = client.generate("x"), client.generate("x", max_tokens=2)
    assert (ended.finish.reason, ended.finish.stop) == (FinishReason.STOP, "END")
    assert (cut.text, cut.finish.reason, cut.finish.stop) == ("a b", FinishReason.LENGTH, None)


def test_log_probabilities_are_scripted_or_made_up() -> None:
    top = (((7, -0.1), (8, -0.2)), ((9, -0.3), (1, -0.4)))
    with MockServer([Reply("a b"), Reply("a b", top=top)]) as server, Client(server.address) as client:
        made = client.generate("x", top_logprobs=1).choices[0].logprobs
        scripted = client.generate("x", top_logprobs=2).choices[0].logprobs
    assert made is not None
    assert scripted is not None
    assert [[token for token, _ in row] for row in made.top] == [[100], [101]]
    assert [[token for token, _ in row] for row in scripted.top] == [[7, 8], [9, 1]]
    assert scripted.chosen == pytest.approx((-0.1, -0.3))


def test_what_was_asked_is_remembered() -> None:
    with MockServer() as server, Client(server.address, token="t") as client:
        client.generate([1, 2], request_id="r", seed=4)
        assert server.requests == [GenerateRequest(server.requests[0].prompt, request_id="r", seed=4)]
        assert server.metadata[0]["authorization"] == "Bearer t"
        assert client.abort("r") is True
        assert (server.aborts, server.cancelled) == (["r"], [])


def test_an_error_before_or_after_some_output() -> None:
    script = [Reply(error=Full("no room")), Reply("a b c", error=Full("no room"), error_after=1)]
    with MockServer(script) as server, Client(server.address) as client:
        with pytest.raises(Full):
            next(client.stream("x"))
        stream = client.stream("x")
        assert [type(next(stream)).__name__ for _ in range(2)] == ["Started", "Delta"]
        with pytest.raises(Full):
            next(stream)
        assert server.cancelled == []


def test_several_choices_and_an_end_for_each() -> None:
    with MockServer("a") as server, Client(server.address) as client:
        events = list(client.stream("x", n=3))
    assert [event.choice for event in events if isinstance(event, Finish)] == [0, 1, 2]


def test_a_port_that_is_taken_is_an_error() -> None:
    with MockServer() as server, pytest.raises(RuntimeError):
        MockServer(listen=server.address).start()
