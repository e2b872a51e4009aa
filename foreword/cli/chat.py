"""`foreword chat`: a conversation, with answers as they come."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from foreword.cli import options, sampling
from foreword.cli.conversation import HELP, Conversation, load_conversation
from foreword.cli.failure import failure_line
from foreword.cli.output import TextWriter, legend, stderr, stdout, summary
from foreword.client import DEFAULT_ADDRESS, Client
from foreword.client.fields import read_text, read_timeout
from foreword.errors import ForewordError, InvalidField
from foreword.protocol.generation import Choice, Delta
from foreword.protocol.words import FinishReason

_PROMPT, _MORE = "> ", ". "


def command(
    system: Annotated[str | None, typer.Option(help="System message.")] = None,
    load: Annotated[Path | None, typer.Option(help="Conversation to go on with, as /save wrote it.")] = None,
    max_tokens: sampling.MaxTokens = None,
    temperature: sampling.Temperature = None,
    top_p: sampling.TopP = None,
    top_k: sampling.TopK = None,
    min_p: sampling.MinP = None,
    repetition_penalty: sampling.RepetitionPenalty = None,
    presence_penalty: sampling.PresencePenalty = None,
    frequency_penalty: sampling.FrequencyPenalty = None,
    stop: sampling.Stop = None,
    seed: sampling.Seed = None,
    gamma: sampling.Gamma = None,
    rule: sampling.Rule = None,
    drafter: sampling.Drafter = None,
    draft: sampling.Draft = None,
    model: sampling.Model = None,
    timeout: sampling.Timeout = None,
    plain: sampling.Plain = False,
    address: options.Address = DEFAULT_ADDRESS,
    token: options.Token = None,
    tls_ca: options.Ca = None,
    tls_cert: options.Cert = None,
    tls_key: options.Key = None,
    insecure: options.Insecure = False,
) -> None:
    """Talk to the model; /help tells what else may be typed."""
    fields = sampling.given(
        max_tokens=max_tokens, temperature=temperature, top_p=top_p, top_k=top_k, min_p=min_p,
        repetition_penalty=repetition_penalty, presence_penalty=presence_penalty, frequency_penalty=frequency_penalty,
        stop=stop, seed=seed, gamma=gamma, rule=rule, drafter=drafter, draft=draft, model=model,
        timeout_s=read_timeout("timeout", timeout),
    )  # fmt: skip
    begun = _begun(system, load)
    with options.connect_blocking(
        address, token=token, ca=tls_ca, cert=tls_cert, key=tls_key, insecure=insecure
    ) as client:
        info = client.info()
        if info.model is None or not info.model.chat_template:
            name = "none" if info.model is None else info.model.name
            raise InvalidField("model", name, "one with a chat template; foreword generate --raw takes any")
        Talk(client, fields, begun, coloured=not plain).run(_lines(sys.stdin.isatty()))


class Talk:
    """Asks and answers, until there is nothing more to read."""

    def __init__(self, client: Client, fields: dict[str, Any], begun: Conversation, *, coloured: bool) -> None:
        self._client = client
        self._fields = fields
        self._conversation = begun
        self._out, self._err = stdout(), stderr()
        self._writer = TextWriter(self._out, coloured=coloured)
        self._commands: dict[str, Callable[[str], None]] = {
            "/new": self._new, "/undo": self._undo, "/retry": self._retry, "/system": self._system,
            "/save": self._save, "/help": lambda _: self._say(HELP),
        }  # fmt: skip

    def run(self, lines: Iterator[str]) -> None:
        """Take messages and commands; errors of one message end no conversation that a person is at."""
        if self._out.is_terminal:
            self._say("/help tells what may be typed", end="; " if self._writer.coloured else "\n")
            if self._writer.coloured:
                self._err.print(legend())
        for line in lines:
            word, _, rest = line.strip().partition(" ")
            if word == "/quit":
                return
            try:
                self._take(line, word, rest.strip())
            except ForewordError as error:
                if not self._out.is_terminal:
                    raise
                self._say(failure_line(error, {}, ()))

    def _take(self, line: str, word: str, rest: str) -> None:
        if word in self._commands:
            self._commands[word](rest)
        elif word.startswith("/") and word[1:].isalpha():
            raise InvalidField("command", word, f"one of {', '.join([*self._commands, '/quit'])}")
        elif line.strip():
            self._ask(read_text("message", line))

    def _ask(self, text: str) -> None:
        """Send a message; what came of the answer belongs to the conversation, and a message without any does not."""
        asked = self._conversation.said("user", text)
        answer, choice = "", None
        try:
            with self._client.stream(asked.prompt, **self._fields) as events:
                for event in events:
                    if isinstance(event, Delta):
                        answer += event.text  # before it is seen: an interruption may come between the two
                        self._writer.write(event)
                choice = events.completion().choices[0]
        except KeyboardInterrupt:
            if not self._out.is_terminal:
                raise
        finally:
            self._writer.finish()
            if answer or choice is not None:
                self._conversation = asked.said("assistant", answer)
        self._remark(choice)

    def _remark(self, choice: Choice | None) -> None:
        if not self._out.is_terminal:
            return
        if choice is None:
            self._say("stopped")
            return
        cut = ", cut at its longest length" if choice.finish.reason is FinishReason.LENGTH else ""
        self._say(summary(choice) + cut)

    def _new(self, _: str) -> None:
        self._conversation = Conversation.begun(self._conversation.system)

    def _undo(self, _: str) -> None:
        self._conversation, question = self._conversation.before_last_question()
        if question is None:
            raise InvalidField("command", "/undo", "a message to take back")

    def _retry(self, _: str) -> None:
        before, question = self._conversation.before_last_question()
        if question is None:
            raise InvalidField("command", "/retry", "a message that was answered")
        self._conversation = before
        self._ask(question)

    def _system(self, text: str) -> None:
        self._conversation = Conversation.begun(read_text("system", text))

    def _save(self, file: str) -> None:
        if not file:
            raise InvalidField("save", "", "the name of a file")
        self._conversation.save(Path(file).expanduser())
        self._say(f"written: {file}")

    def _say(self, text: str, end: str = "\n") -> None:
        self._err.print(text, style="dim", end=end, markup=False)


def _begun(system: str | None, file: Path | None) -> Conversation:
    if file is None:
        return Conversation.begun(None if system is None else read_text("system", system))
    if system is not None:
        raise InvalidField("system", system, "none with --load, whose file has its own")
    return load_conversation(file)


def _lines(terminal: bool) -> Iterator[str]:
    """Yield messages: lines, those that end with a backslash together with what follows."""
    if terminal:
        with suppress(ImportError):  # not everywhere
            import readline  # noqa: F401 - arrow keys, and lines typed before
    held: list[str] = []
    while True:
        try:
            line = input((_MORE if held else _PROMPT) if terminal else "")
        except EOFError:
            break
        except KeyboardInterrupt:
            if not terminal:
                raise
            sys.stdout.write("\n")
            held = []
            continue
        except UnicodeDecodeError as error:
            raise InvalidField("message", f"byte {error.object[error.start]:#04x}", "text in UTF-8") from error
        if line.endswith("\\"):
            held.append(line[:-1])
            continue
        yield "\n".join([*held, line])
        held = []
    if held:
        yield "\n".join(held)
    if terminal:
        sys.stdout.write("\n")
