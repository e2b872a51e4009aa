"""One request at work: a session for each choice, and the events they make."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator

from foreword.errors import DeadlineExceeded, ForewordError
from foreword.protocol.activity import ChoiceActivity
from foreword.protocol.generation import Event, Finish, Started
from orchestrator.core.state import Phase
from orchestrator.front.event_queue import EventQueue, QueueLimits
from orchestrator.front.intake import Prepared
from orchestrator.front.text import ModelText
from orchestrator.sessions.deadline import Deadline
from orchestrator.sessions.driver import SessionDriver, Surroundings
from orchestrator.sessions.limits import SECOND_US
from orchestrator.sessions.output import Places
from orchestrator.sink.choice import ChoiceFacts, ChoiceOutput
from orchestrator.sink.tokens import TokenSink


class Generation:
    """Runs from `start` until all choices are finished, one fails, or it is ended."""

    def __init__(
        self,
        prepared: Prepared,
        text: ModelText,
        around: Surroundings,
        *,
        model: str,
        called_us: int,
        queue: QueueLimits,
        patience_us: int,
    ) -> None:
        self.request_id = prepared.request_id
        self._prepared = prepared
        self._text = text
        self._model = model
        self._patience_us = patience_us
        self._slow = Deadline(around.clock, self._client_too_slow)
        self._queue = EventQueue(queue, on_full=self._full, on_drained=self._drained)
        facts = [
            ChoiceFacts(choice, len(prepared.prompt), prepared.seed, called_us, around.clock.now_us())
            for choice in range(len(prepared.sessions))
        ]
        self._outputs = [ChoiceOutput(f, self._sink(f.choice), self._queue, around.clock) for f in facts]
        self._drivers = [
            SessionDriver(session, output, around, gamma=prepared.gamma, wish=prepared.wish)
            for session, output in zip(prepared.sessions, self._outputs, strict=True)
        ]

    def start(self) -> None:
        """Open the sessions."""
        for output, driver in zip(self._outputs, self._drivers, strict=True):
            self._echo(output)
            if self._prepared.over is not None:
                output.ended(self._prepared.over, Places(0, 0, 0, driver.session.rule))
            else:
                driver.start()

    def activity(self) -> Iterator[ChoiceActivity]:
        """Yield what is to be told of choices that have not ended."""
        for output, driver in zip(self._outputs, self._drivers, strict=True):
            if driver.session.phase is not Phase.DONE and self._prepared.over is None:
                yield output.activity(self.request_id, driver.places(), driver.addresses)

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield the events of the request; ends the sessions when it is left.

        Nothing comes before there is output: what fails until then fails before the first event, so that a client may
        ask another orchestrator.
        """
        try:
            event = await self._queue.get()
            assert not isinstance(event, Started)
            yield self._started(event.choice)
            yield event
            unfinished = len(self._drivers) - isinstance(event, Finish)
            while unfinished:
                event = await self._queue.get()
                unfinished -= isinstance(event, Finish)
                yield event
        finally:
            self.abort()

    def abort(self) -> None:
        """End the sessions at both engines at once; the events still tell how far they came."""
        self._slow.close()
        for driver in self._drivers:
            driver.abort()

    def fail(self, error: ForewordError) -> None:
        """End the sessions with an error."""
        for driver in self._drivers:
            driver.fail(error)

    def _sink(self, choice: int) -> TokenSink:
        prepared, request = self._prepared, self._prepared.request
        before = prepared.prompt + request.resume
        stream = self._text.stream(before, skip_special=request.skip_special_tokens)
        return TokenSink(prepared.sinks[choice], stream)

    def _started(self, choice: int) -> Started:
        """Return what comes first; each choice reads the prompt for itself, so one that has output knows its scores."""
        prompt, echo = self._prepared.prompt, self._prepared.request.echo
        scores = self._outputs[choice].prompt_logprobs
        return Started(self.request_id, self._model, len(prompt), prompt if echo else (), scores)

    def _echo(self, output: ChoiceOutput) -> None:
        request = self._prepared.request
        if request.echo:
            text = self._text.decode(self._prepared.prompt, skip_special=request.skip_special_tokens)
            output.echo(text, scored=request.prompt_logprobs is not None)

    def _full(self) -> None:
        self._slow.set(self._patience_us)
        for driver in self._drivers:
            driver.client_full()

    def _drained(self) -> None:
        self._slow.clear()
        for driver in self._drivers:
            driver.client_drained()

    def _client_too_slow(self) -> None:
        seconds = self._patience_us / SECOND_US
        self.fail(DeadlineExceeded(f"client: took too little output for {seconds:g} s, wanted it to keep reading"))
