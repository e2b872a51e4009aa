"""A server for tests of programs that use Foreword: it says what it is told to say, and remembers what it was asked.

    @pytest.fixture
    def server():
        with MockServer(Reply("Hello there.", accepted=2)) as server:
            yield server

    def test_mine(server):
        with Client(server.address) as client:
            assert client.generate("Hi").text == "Hello there."
        assert server.requests[0].prompt == "Hi"

It needs the base dependencies only, runs in this process on a free port, and knows no event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import grpc

from foreword._version import __version__
from foreword.client.status import DETAILS_KEY, encode_details
from foreword.errors import ForewordError
from foreword.protocol.activity import Activity
from foreword.protocol.generation import DeploymentInfo, GenerateRequest, PeerInfo
from foreword.protocol.info import ModelInfo, ServerInfo
from foreword.protocol.words import PROTOCOL_MAX, PROTOCOL_MIN, Drafter
from foreword.testing.mock_reply import Pause, Reply, replies_to
from foreword.wire.generation import decode_abort, decode_request, encode_abort_response
from foreword.wire.generation_activity import encode_activity
from foreword.wire.generation_events import encode_event
from foreword.wire.generation_info import encode_info
from foreword.wire.limits import Limits
from foreword.wire.methods import GENERATION_SERVICE

__all__ = ["MockServer", "Reply", "mock_info"]

Script = Reply | str | Sequence[Reply | str] | Callable[[GenerateRequest], Reply | str]
"""One answer for all requests, answers in order (the last one repeats), or a function of the request."""


class MockServer:
    """A GenerationService that follows a script; a context manager, with or without `async`.

    `requests`, `metadata`, `aborts` and `cancelled` (ids) grow as calls come in; `info` may be changed at any time.
    """

    def __init__(
        self,
        script: Script = "Hello.",
        *,
        listen: str = "127.0.0.1:0",
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        self._script = script
        self._listen = listen
        self._credentials = credentials
        self._server: grpc.Server | None = None
        self.address = ""
        self.info = mock_info()
        self.activity = Activity(0)
        self.requests: list[GenerateRequest] = []
        self.metadata: list[dict[str, str | bytes]] = []
        self.aborts: list[str] = []
        self.cancelled: list[str] = []

    def start(self) -> Self:
        """Serve; raises RuntimeError if the port is taken."""
        pool = ThreadPoolExecutor(max_workers=32, thread_name_prefix="mock server")
        self._server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
        methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "Generate": grpc.unary_stream_rpc_method_handler(self._generate),
            "Abort": grpc.unary_unary_rpc_method_handler(self._abort),
            "GetInfo": grpc.unary_unary_rpc_method_handler(self._get_info),
            "GetActivity": grpc.unary_unary_rpc_method_handler(self._get_activity),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(GENERATION_SERVICE, methods),))
        if self._credentials is None:
            port = self._server.add_insecure_port(self._listen)
        else:
            port = self._server.add_secure_port(self._listen, self._credentials)
        self.address = f"{self._listen.rpartition(':')[0]}:{port}"
        self._server.start()
        return self

    def stop(self) -> None:
        """Break what runs and stop to serve; the address can be reached no more."""
        if self._server is not None:
            self._server.stop(grace=None).wait()
            self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _generate(self, data: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        try:
            request = decode_request(data, Limits())
            self.requests.append(request)
            self.metadata.append(_plain(context))
            number = len(self.requests)
            request_id, pause, ended = request.request_id or f"mock-{number}", Pause(), threading.Event()
            context.add_callback(lambda: self._over(request_id, pause, ended))
            try:
                for event in replies_to(request, self._reply(request, number), request_id=request_id, pause=pause):
                    yield encode_event(event)
            except ForewordError:
                ended.set()
                raise
            if not pause.ended:
                ended.set()
        except ForewordError as error:
            _fail(context, error)

    def _over(self, request_id: str, pause: Pause, ended: threading.Event) -> None:
        pause.end()
        if not ended.is_set():
            self.cancelled.append(request_id)

    def _reply(self, request: GenerateRequest, number: int) -> Reply:
        if isinstance(self._script, Reply | str):
            reply: Reply | str = self._script
        elif callable(self._script):
            reply = self._script(request)
        else:
            reply = self._script[min(number, len(self._script)) - 1]
        return Reply(reply) if isinstance(reply, str) else reply

    def _abort(self, data: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            self.aborts.append(decode_abort(data, Limits()))
        except ForewordError as error:
            _fail(context, error)
        return encode_abort_response(found=any(r.request_id == self.aborts[-1] for r in self.requests))

    def _get_info(self, data: bytes, context: grpc.ServicerContext) -> bytes:
        return encode_info(self.info, Limits())

    def _get_activity(self, data: bytes, context: grpc.ServicerContext) -> bytes:
        return encode_activity(self.activity)


def mock_info() -> DeploymentInfo:
    """Return a healthy deployment: one target, one trusted draft of the same vocabulary."""
    model = ModelInfo("mock", "mock", "0" * 64, "1" * 64, vocabulary_size=65536, longest_context=4096, dtype="float32")

    def peer(address: str, drafter: Drafter | None) -> PeerInfo:
        info = ServerInfo(model, address, address, __version__, PROTOCOL_MIN, PROTOCOL_MAX, drafter=drafter)
        return PeerInfo(address, up=True, info=info, round_trip_us=100, trusted=drafter is not None)

    return DeploymentInfo(
        version=__version__,
        model=model,
        targets=(peer("mock-target:1", None),),
        drafts=(peer("mock-draft:1", Drafter.MODEL),),
        gamma=4,
        gamma_max=16,
        protocol_min=PROTOCOL_MIN,
        protocol_max=PROTOCOL_MAX,
    )


def _plain(context: grpc.ServicerContext) -> dict[str, str | bytes]:
    metadata: Any = context.invocation_metadata()
    return {key: value for key, value in metadata}


def _fail(context: grpc.ServicerContext, error: ForewordError) -> None:
    context.set_trailing_metadata(((DETAILS_KEY, encode_details(error)),))
    context.abort(grpc.StatusCode[error.code], error.message)
