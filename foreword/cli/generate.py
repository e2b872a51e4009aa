"""`foreword generate`: one prompt, the text as it comes."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any

import typer

from foreword.cli import options
from foreword.cli.explain import show_choice
from foreword.cli.output import TextWriter, completion_json, legend, stderr, stdout, summary, write_json
from foreword.client import DEFAULT_ADDRESS, AsyncClient, AsyncStream
from foreword.client.fields import read_text, read_timeout
from foreword.errors import InvalidField
from foreword.protocol.generation import Chat, Delta, Message, Prompt


def command(
    prompt: Annotated[str, typer.Argument(help="Prompt; - reads it from stdin.", show_default=False)],
    max_tokens: Annotated[int | None, typer.Option(help="Most output tokens.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 takes the likeliest token.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Probability mass that is kept.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Likeliest tokens that are kept.")] = None,
    min_p: Annotated[float | None, typer.Option(help="Least share of the likeliest token's probability.")] = None,
    repetition_penalty: Annotated[float | None, typer.Option(help="Divides logits of tokens seen.")] = None,
    presence_penalty: Annotated[float | None, typer.Option(help="Taken once from logits of tokens output.")] = None,
    frequency_penalty: Annotated[float | None, typer.Option(help="Taken for every time a token was output.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="Text before which the output ends; may be repeated.")] = None,
    seed: Annotated[int | None, typer.Option(help="Makes the text repeatable, under the rule match.")] = None,
    gamma: Annotated[int | None, typer.Option(help="Candidates per block; 0 turns drafts off.")] = None,
    rule: Annotated[str | None, typer.Option(help="Acceptance rule: match, token or block.")] = None,
    drafter: Annotated[str | None, typer.Option(help="Kind of draft: model, lookup, …")] = None,
    model: Annotated[str | None, typer.Option(help="Model, where several are served.")] = None,
    system: Annotated[str | None, typer.Option(help="System message; implies --chat.")] = None,
    chat: Annotated[
        bool | None, typer.Option("--chat/--raw", help="Use the model's chat template; by default where it has one.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Longest time of the whole call, in seconds over 0.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="No colours for who wrote what.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say how the size of blocks was chosen, on stderr.")
    ] = False,
    json: options.Json = False,
    address: options.Address = DEFAULT_ADDRESS,
    token: options.Token = None,
    tls_ca: options.Ca = None,
    tls_cert: options.Cert = None,
    tls_key: options.Key = None,
    insecure: options.Insecure = False,
) -> None:
    """Generate text for a prompt, and show which of it a draft has written."""
    text = read_text("prompt", _stdin() if prompt == "-" else prompt)
    if system is not None:
        read_text("system", system)
    given = {
        "max_tokens": max_tokens, "temperature": temperature, "top_p": top_p, "top_k": top_k, "min_p": min_p,
        "repetition_penalty": repetition_penalty, "presence_penalty": presence_penalty,
        "frequency_penalty": frequency_penalty, "stop": stop, "seed": seed, "gamma": gamma, "rule": rule,
        "drafter": drafter, "model": model,
    }  # fmt: skip
    fields: Any = {name: value for name, value in given.items() if value is not None}
    if chat is False and system is not None:
        raise InvalidField("system", system, "no system message with --raw")
    limit = read_timeout("timeout", timeout)
    if seed is not None and rule in _DRAFT_DEPENDENT:
        stderr().print(f"--seed: under --rule {rule} the text depends on the draft too", style="dim")
    client = options.connect(address, token=token, ca=tls_ca, cert=tls_cert, key=tls_key, insecure=insecure)

    async def generate() -> None:
        async with client:
            as_chat = system is not None or (chat if chat is not None else await _speaks_chat(client))
            events = client.stream(_prompt(text, system, as_chat=as_chat), timeout_s=limit, **fields)
            await _show(events, plain=plain, as_json=json, explain=explain)

    asyncio.run(generate())


_DRAFT_DEPENDENT = ("token", "block")
"""Rules under which a seed is not enough to write a text again."""


async def _show(stream: AsyncStream, *, plain: bool, as_json: bool, explain: bool) -> None:
    out, err = stdout(), stderr()
    writer = TextWriter(out, coloured=not plain)
    async with stream as events:
        try:
            async for event in events:
                if isinstance(event, Delta) and not as_json:
                    writer.write(event)
        finally:
            writer.finish()
        completion = await events.completion()
    if as_json:
        write_json(out, completion_json(completion))
    elif out.is_terminal:
        err.print(summary(completion.choices[0]), style="dim", end="; " if writer.coloured else "")
        err.print(legend() if writer.coloured else "")
    if explain:
        show_choice(err, completion.choices[0].finish.timings)


def _stdin() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise InvalidField("prompt", f"byte {error.object[error.start]:#04x}", "text that UTF-8 can carry") from error


def _prompt(text: str, system: str | None, *, as_chat: bool) -> Prompt:
    if not as_chat:
        return text
    turns = [] if system is None else [Message("system", system)]
    return Chat((*turns, Message("user", text)))


async def _speaks_chat(client: AsyncClient) -> bool:
    info = await client.info()
    return info.model is not None and info.model.chat_template
