"""`foreword generate`: one prompt, the text as it comes."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from typing import Annotated

import typer

from foreword.cli import grammars, options, sampling
from foreword.cli.explain import show_choice
from foreword.cli.numbers import read_numbers
from foreword.cli.output import TextWriter, completion_json, legend, stderr, stdout, summary, write_json
from foreword.client import DEFAULT_ADDRESS, AsyncClient, AsyncStream
from foreword.client.fields import read_text, read_timeout
from foreword.errors import InvalidField
from foreword.protocol.generation import Chat, Completion, Delta, Message, Prompt


def command(
    prompt: Annotated[str, typer.Argument(help="Prompt; - reads it from stdin.", show_default=False)],
    max_tokens: sampling.MaxTokens = None,
    min_tokens: sampling.MinTokens = None,
    temperature: sampling.Temperature = None,
    top_p: sampling.TopP = None,
    top_k: sampling.TopK = None,
    min_p: sampling.MinP = None,
    repetition_penalty: sampling.RepetitionPenalty = None,
    presence_penalty: sampling.PresencePenalty = None,
    frequency_penalty: sampling.FrequencyPenalty = None,
    logit_bias: sampling.Bias = None,
    banned_ids: sampling.Banned = None,
    stop: sampling.Stop = None,
    stop_ids: sampling.StopIds = None,
    include_stop: sampling.IncludeStop = None,
    ignore_eos: sampling.IgnoreEos = None,
    json_schema: grammars.JsonSchema = None,
    json_object: grammars.JsonObject = False,
    regex: grammars.Regex = None,
    choice: grammars.Choice = None,
    grammar: grammars.Lark = None,
    seed: sampling.Seed = None,
    n: Annotated[int | None, typer.Option("--n", "-n", help="How many continuations.")] = None,
    top_logprobs: Annotated[
        int | None, typer.Option(help="Log-probabilities, also of that many other tokens; only with --json.")
    ] = None,
    echo: Annotated[bool | None, typer.Option("--echo", help="Put the prompt in front of the output.")] = None,
    gamma: sampling.Gamma = None,
    gamma_min: sampling.GammaMin = None,
    gamma_max: sampling.GammaMax = None,
    rule: sampling.Rule = None,
    drafter: sampling.Drafter = None,
    draft: sampling.Draft = None,
    model: sampling.Model = None,
    system: Annotated[str | None, typer.Option(help="System message; implies --chat.")] = None,
    chat: Annotated[
        bool | None, typer.Option("--chat/--raw", help="Use the model's chat template; by default where it has one.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option(help="Output ids that are there already, with commas; the output goes on after them.")
    ] = None,
    special: Annotated[bool, typer.Option("--special", help="Leave special tokens in the text.")] = False,
    request_id: Annotated[str | None, typer.Option(help="Name of the request, in logs and for aborting it.")] = None,
    timeout: sampling.Timeout = None,
    plain: sampling.Plain = False,
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
    fields = sampling.given(
        max_tokens=max_tokens, min_tokens=min_tokens, temperature=temperature, top_p=top_p, top_k=top_k, min_p=min_p,
        repetition_penalty=repetition_penalty, presence_penalty=presence_penalty, frequency_penalty=frequency_penalty,
        logit_bias=logit_bias, banned_ids=banned_ids, stop=stop, stop_ids=stop_ids, include_stop=include_stop,
        ignore_eos=ignore_eos, seed=seed, n=n, top_logprobs=top_logprobs, echo=echo, gamma=gamma, gamma_min=gamma_min,
        gamma_max=gamma_max, rule=rule, drafter=drafter, draft=draft, model=model, request_id=request_id,
        resume=None if resume is None else read_numbers("resume", resume, "token ids with commas, as 504,3247"),
        skip_special_tokens=False if special else None,
        grammar=grammars.grammar_of(
            json_schema=json_schema, json_object=json_object, regex=regex, choice=choice, grammar=grammar
        ),
    )  # fmt: skip
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
            if json:
                completion = await events.completion()
                write_json(stdout(), completion_json(completion))
            else:
                completion = await (_show(events, plain=plain) if (n or 1) == 1 else _show_all(events, plain=plain))
            if explain:
                show_choice(stderr(), completion.choices[0].finish.timings)

    asyncio.run(generate())


_DRAFT_DEPENDENT = ("token", "block")
"""Rules under which a seed is not enough to write a text again."""


async def _show(stream: AsyncStream, *, plain: bool) -> Completion:
    """Show the one continuation as it comes."""
    out, err = stdout(), stderr()
    writer = TextWriter(out, coloured=not plain)
    async with stream as events:
        try:
            async for event in events:
                if isinstance(event, Delta):
                    writer.write(event)
        finally:
            writer.finish()
        completion = await events.completion()
    if out.is_terminal:
        err.print(summary(completion.choices[0]), style="dim", end="; " if writer.coloured else "")
        err.print(legend() if writer.coloured else "")
    return completion


async def _show_all(stream: AsyncStream, *, plain: bool) -> Completion:
    """Show several continuations one after the other, once all are there."""
    deltas = defaultdict(list)
    async with stream as events:
        async for event in events:
            if isinstance(event, Delta):
                deltas[event.choice].append(event)
        completion = await events.completion()
    writer = TextWriter(stdout(), coloured=not plain)
    for choice in completion.choices:
        stderr().print(f"{choice.index + 1} of {len(completion.choices)}: {summary(choice)}", style="dim")
        for delta in deltas[choice.index]:
            writer.write(delta)
        writer.finish()
    return completion


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
