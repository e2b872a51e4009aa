"""The application: endpoints, errors, and what stands in front of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from foreword._version import __version__
from foreword.errors import ForewordError
from foreword.telemetry.ids import new_incident
from orchestrator.http.calls import INCIDENT, Calls
from orchestrator.http.described import describe_chunks
from orchestrator.http.door import Door
from orchestrator.http.errors import Failure, failure, failure_of, incident_failure
from orchestrator.http.fields import Body, ChatRequest, CompletionRequest, DetokenizeRequest, TokenizeRequest
from orchestrator.http.generation_routes import generation_routes
from orchestrator.http.guards import BodyLimit, KeyGuard, Rooted
from orchestrator.http.model_routes import model_routes
from orchestrator.http.page_routes import page_routes
from orchestrator.http.probe_routes import probe_routes
from orchestrator.http.validation import invalid, no_json

_MB = 1_000_000
_BODIES: dict[str, type[Body]] = {
    "/v1/chat/completions": ChatRequest,
    "/v1/completions": CompletionRequest,
    "/tokenize": TokenizeRequest,
    "/detokenize": DetokenizeRequest,
}
"""What each endpoint reads; a field that it does not know may be a slip of one that it does."""


def build_app(door: Door, keys: Sequence[str]) -> ASGIApp:
    """Return the application; without keys everybody may call."""
    settings = door.settings
    app: ASGIApp = BodyLimit(endpoints(door, keyed=bool(keys)), round(settings.body_limit_mb * _MB))
    if keys:
        app = KeyGuard(app, keys, root_path=settings.root_path)
    if settings.cors_origins:
        app = CORSMiddleware(
            app,
            allow_origins=settings.cors_origins,
            allow_methods=("GET", "POST"),
            allow_headers=("*",),
            expose_headers=("x-request-id", "retry-after", "retry-after-ms"),
        )
    if settings.root_path:
        app = Rooted(app, settings.root_path)
    return Calls(app)


def endpoints(door: Door, *, keyed: bool) -> FastAPI:
    """Return the endpoints alone."""
    app = FastAPI(
        title="Foreword",
        version=__version__,
        description="Text from a large language model, written ahead by small ones, in the shapes of OpenAI's API.",
        docs_url=None,  # its pages come from elsewhere, which a server without a network cannot reach
        redoc_url=None,
        redirect_slashes=False,
    )
    secured = [Depends(HTTPBearer(auto_error=False))] if keyed else []
    app.include_router(generation_routes(door), dependencies=secured)
    app.include_router(model_routes(door), dependencies=secured)
    app.include_router(probe_routes(door, secured))
    if door.settings.page:
        app.include_router(page_routes())
    describe_chunks(app)
    app.add_exception_handler(ForewordError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _no_such)
    app.add_exception_handler(Exception, _unexpected)
    return app


def response_of(found: Failure) -> Response:
    """Return an error as a response."""
    return Response(found.body.json_bytes(), found.status, dict(found.headers), media_type="application/json")


async def _refused(_: Request, error: Any) -> Response:
    return response_of(failure_of(error))


async def _invalid(request: Request, error: Any) -> Response:
    kind = _BODIES.get(request.scope["route"].path)
    problems = error.errors()
    if isinstance(problems[0]["input"], bytes):  # it was not looked into, for it does not say that it is JSON
        return response_of(no_json(request.headers.get("content-type")))
    return response_of(invalid(problems, kind))


async def _no_such(request: Request, error: Any) -> Response:
    """Answer for a path or a method that there is not, and for JSON that is nested or long beyond reading."""
    status: int = error.status_code
    if status == 400:
        return response_of(failure(400, "body: got what cannot be read, wanted a JSON object", code="invalid_json"))
    code = "method_not_allowed" if status == 405 else "not_found"
    found = failure(status, f"{request.method} {request.url.path}: {error.detail}", code=code)
    return response_of(Failure(status, found.body, error.headers or {}))


async def _unexpected(request: Request, _: Exception) -> Response:
    """Answer for a fault of ours, which is raised further and logged by Calls."""
    incident = request.scope[INCIDENT] = new_incident()
    return response_of(incident_failure(incident))
