"""GET /v1/models, POST /tokenize and /detokenize."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter

from foreword.errors import InvalidField
from foreword.protocol.generation import Chat
from foreword.protocol.info import ModelInfo
from foreword.protocol.messages import Tokens
from foreword.wire.common import fit_text
from orchestrator.front.front import LONG_CHARACTERS, LONG_TOKENS
from orchestrator.front.text import ModelText
from orchestrator.http.answers import Detokenized, ModelCard, ModelList, Tokenized
from orchestrator.http.described import ERRORS
from orchestrator.http.door import Door
from orchestrator.http.fields import DetokenizeRequest, TokenizeRequest
from orchestrator.http.logprobs import token_text
from orchestrator.http.requests import chat_of, check_model


def model_routes(door: Door) -> APIRouter:
    """Return the endpoints that tell of the model and its tokens."""
    router = APIRouter(tags=["model"], responses=ERRORS)

    @router.get("/v1/models")
    async def models() -> ModelList:
        """List the names that are served."""
        model = door.front.served().model
        return ModelList(object="list", data=[card(door, model, name) for name in door.names(model)])

    @router.get("/v1/models/{model:path}")
    async def one_model(model: str) -> ModelCard:
        """Tell of one name."""
        served = door.front.served().model
        check_model(model, door.names(served))
        return card(door, served, model)

    @router.post("/tokenize", response_model_exclude_unset=True)
    async def tokenize(body: TokenizeRequest) -> Tokenized:
        """Return the ids of a text, or of a conversation by the model's template."""
        intake = door.front.served()
        check_model(body.model, door.names(intake.model))
        ids = await _ids(intake.text, _asked(body))
        found = Tokenized(count=len(ids), max_model_len=intake.model.longest_context, tokens=list(ids))
        if not body.return_token_strs:
            return found
        return found.model_copy(update={"token_strs": [token_text(intake.text.token_bytes(token)) for token in ids]})

    @router.post("/detokenize")
    async def detokenize(body: DetokenizeRequest) -> Detokenized:
        """Return the text of ids."""
        intake = door.front.served()
        check_model(body.model, door.names(intake.model))
        size, text, ids = intake.model.vocabulary_size, intake.text, tuple(body.tokens)
        for token in ids:
            if not 0 <= token < size:
                raise InvalidField("tokens", token, f"token ids from 0 to {size - 1}")
        skip = bool(body.skip_special_tokens)
        if len(ids) > LONG_TOKENS:
            return Detokenized(prompt=await asyncio.to_thread(text.decode, ids, skip_special=skip))
        return Detokenized(prompt=text.decode(ids, skip_special=skip))

    return router


def card(door: Door, model: ModelInfo, name: str) -> ModelCard:
    """Return what is told of a name."""
    return ModelCard(
        id=name,
        object="model",
        created=door.since_s,
        owned_by="foreword",
        root=model.name,
        max_model_len=model.longest_context,
    )


def _asked(body: TokenizeRequest) -> str | Chat:
    if (body.prompt is None) == (body.messages is None):
        raise InvalidField("prompt", body.prompt, "either prompt or messages")
    if body.messages is not None:
        if not body.messages:
            raise InvalidField("messages", [], "at least one message")
        prompt: str | Chat = chat_of(body.messages)
    else:
        prompt = body.prompt or ""
    for text in [prompt] if isinstance(prompt, str) else [t for m in prompt.messages for t in (m.role, m.content)]:
        fit_text("prompt" if isinstance(prompt, str) else "messages", text)
    return prompt


async def _ids(text: ModelText, prompt: str | Chat) -> Tokens:
    """Return the ids of a prompt; of a long one from a thread, so that the event loop keeps its pace."""
    if isinstance(prompt, str):
        if len(prompt) <= LONG_CHARACTERS:
            return text.encode(prompt)
        return await asyncio.to_thread(text.encode, prompt)
    if sum(len(turn.content) for turn in prompt.messages) <= LONG_CHARACTERS:
        return text.encode_chat(prompt)
    return await asyncio.to_thread(text.encode_chat, prompt)
