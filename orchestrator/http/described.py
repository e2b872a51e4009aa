"""What the description of the API says of errors and of streams, which FastAPI cannot know."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from orchestrator.http.answers import ChatCompletion, ChatCompletionChunk, Completion, ErrorBody, Part

_WHAT: Final = {
    400: "A field that is not known, of another type, or out of its range.",
    401: "No key, or one that is not known.",
    403: "Not allowed.",
    404: "A model, or a draft, that is not served.",
    405: "Not a method of this path.",
    413: "A body that is too large.",
    429: "Too many requests at work.",
    499: "Cancelled.",
    500: "A fault of the server.",
    503: "Not ready, or shutting down.",
    504: "The time was up.",
}
ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": ErrorBody, "description": what} for status, what in _WHAT.items()
} | {"4XX": {"model": ErrorBody, "description": "Any other refusal."}}
"""For `responses` of endpoints."""


def two_forms(whole: type[Part], chunk: type[Part]) -> dict[int | str, dict[str, Any]]:
    """Return `responses` of an endpoint that answers as a whole or as a stream of chunks."""
    data = {
        "type": "string",
        "description": "A chunk, an error as the last one, or [DONE].",
        "contentMediaType": "application/json",
        "contentSchema": {"anyOf": [{"$ref": _place(chunk.__name__)}, {"$ref": _place(ErrorBody.__name__)}]},
    }
    event = {"type": "object", "properties": {"data": data}, "required": ["data"]}
    description = "The answer; with stream, server-sent events with a chunk each, and [DONE] behind them."
    # The name that OpenAPI has for it since 3.2; before, there is none for what is in a stream.
    answer = {"model": whole, "description": description, "content": {"text/event-stream": {"itemSchema": event}}}
    return {200: answer, **ERRORS}


def describe_chunks(app: FastAPI) -> None:
    """Let the description of the API have the models of chunks too."""
    plain = app.openapi

    @cache
    def described() -> dict[str, Any]:
        document = plain()
        kinds: list[Any] = [(kind, "serialization") for kind in (ChatCompletion, ChatCompletionChunk, Completion)]
        _, found = models_json_schema(kinds, ref_template=_place("{model}"))
        for name, schema in found["$defs"].items():
            document["components"]["schemas"].setdefault(name, schema)
        return document

    app.openapi = described  # type: ignore[method-assign]


def _place(name: str) -> str:
    return f"#/components/schemas/{name}"
