"""The scripted model server: Ollama's and OpenAI's HTTP routes on a loopback port.

Only test mode and ``manage.py scripted_llm`` import this module. The real clients talk to it over
real sockets, so no provider knows of test mode.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any

from aiohttp import web

from models_app.scripted import ollama_wire, openai_wire
from models_app.scripted.replies import (
    CHUNK_WORDS,
    RUNNER_DIED,
    BrokenLine,
    Chunk,
    Disconnect,
    ErrorLine,
    ReplyPlan,
    Silence,
    estimate_tokens,
)
from models_app.scripted.wire import ChatRequest, Refused, ReplyWire, characters

MAX_REQUEST_BYTES = 64 * 1024 * 1024
SLOWEST_CHUNK_SECONDS = 3600.0
KEPT_REQUESTS = 100
STATUS_TEXTS = {
    404: "model not found",
    429: "too many requests",
    500: RUNNER_DIED,
    503: "server busy, please try again.  maximum pending requests exceeded",
}

logger = logging.getLogger(__name__)

ErrorBody = Callable[[int, str], bytes]


class ScriptedModelServer:
    """Serves the scripted models until ``stop``.

    Attributes:
        requests: The bodies of the last 100 chat requests, oldest first.
        open_streams: How many chat requests are being answered now.
    """

    def __init__(
        self, host: str = "127.0.0.1", port: int = 0, words_per_second: float = 50.0
    ) -> None:
        self.requests: deque[Mapping[str, Any]] = deque(maxlen=KEPT_REQUESTS)
        self._host = host
        self._port = port
        self._words_per_second = words_per_second
        self._runner: web.AppRunner | None = None
        self._answering: set[asyncio.Task[Any]] = set()
        self._streams_changed = asyncio.Event()
        self._loaded: dict[str, int] = {}

    @property
    def open_streams(self) -> int:
        """How many chat requests are being answered now."""
        return len(self._answering)

    @property
    def url(self) -> str:
        """The base URL, without a slash at its end.

        Raises:
            RuntimeError: The server is not running.
        """
        if self._runner is None:
            raise RuntimeError("the scripted model server is not running")
        host, port = self._runner.addresses[0][:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: The address can't be listened on.
        """
        app = web.Application(client_max_size=MAX_REQUEST_BYTES, middlewares=[_plain_text_errors])
        app.add_routes(
            [
                web.get("/", _is_running),
                web.get("/api/version", self._version),
                web.get("/api/tags", self._tags),
                web.get("/api/ps", self._running),
                web.post("/api/show", self._show),
                web.post("/api/chat", self._ollama_chat),
                web.get("/v1/models", self._models),
                web.get("/v1/models/{name:.+}", self._model),
                web.post("/v1/chat/completions", self._openai_chat),
            ]
        )
        # A handler is cancelled when its client leaves: nothing is written for nobody.
        runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner

    async def stop(self) -> None:
        """Stop at once: replies in progress are cut off. Does nothing when not running."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        for task in self._answering:
            task.cancel()
        await runner.cleanup()

    async def wait_for_open_streams(self, count: int) -> None:
        """Return as soon as exactly ``count`` chat requests are being answered."""
        while self.open_streams != count:
            self._streams_changed.clear()
            await self._streams_changed.wait()

    async def _version(self, _: web.Request) -> web.Response:
        return _json({"version": ollama_wire.VERSION})

    async def _tags(self, _: web.Request) -> web.Response:
        return _json(ollama_wire.tags())

    async def _running(self, _: web.Request) -> web.Response:
        return _json(ollama_wire.running(self._loaded))

    async def _show(self, request: web.Request) -> web.Response:
        try:
            card = ollama_wire.find_model(ollama_wire.read_json(await request.read()))
        except Refused as refusal:
            return _refusal(refusal, _ollama_error)
        return _json(ollama_wire.show(card))

    async def _models(self, _: web.Request) -> web.Response:
        return _json(openai_wire.models())

    async def _model(self, request: web.Request) -> web.Response:
        try:
            card = openai_wire.find_model(request.match_info["name"])
        except Refused as refusal:
            return _refusal(refusal, openai_wire.error_body)
        return _json(openai_wire.model(card))

    async def _ollama_chat(self, request: web.Request) -> web.StreamResponse:
        try:
            body = ollama_wire.read_json(await request.read())
            self.requests.append(body)
            chat = ollama_wire.read_chat(body)
            if not chat.messages:
                return self._load(chat, unload=body.get("keep_alive") in (0, "0"))
            self._loaded[chat.card.name] = chat.context_window or chat.card.context_length
            with self._counted():
                return await self._answer(
                    request, chat, ollama_wire.OllamaReply(chat), _ollama_error
                )
        except Refused as refusal:
            return _refusal(refusal, _ollama_error)

    async def _openai_chat(self, request: web.Request) -> web.StreamResponse:
        try:
            body = openai_wire.read_json(await request.read())
            self.requests.append(body)
            chat = openai_wire.read_chat(body)
            with self._counted():
                return await self._answer(
                    request, chat, openai_wire.OpenAIReply(chat), openai_wire.error_body
                )
        except Refused as refusal:
            return _refusal(refusal, openai_wire.error_body)

    def _load(self, chat: ChatRequest, *, unload: bool) -> web.Response:
        if unload:
            self._loaded.pop(chat.card.name, None)
        else:
            self._loaded[chat.card.name] = chat.context_window or chat.card.context_length
        body = ollama_wire.loaded_body(chat.name, unload=unload)
        return web.Response(body=body, content_type="application/json")

    async def _answer(
        self, request: web.Request, chat: ChatRequest, wire: ReplyWire, error_body: ErrorBody
    ) -> web.StreamResponse:
        plan = chat.plan()
        logger.info(
            "scripted %s of %s: %s reply, %d steps",
            request.path,
            chat.card.name,
            plan.mode,
            len(plan.steps),
        )
        if plan.status is not None:
            raise Refused(plan.status, _status_text(plan.status))
        words_per_second = (
            self._words_per_second if plan.words_per_second is None else plan.words_per_second
        )
        pace = _Pace(words_per_second)
        if chat.stream:
            return await _stream(request, plan, wire, pace)
        return await _whole(request, plan, wire, pace, error_body)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a handler always runs in a task
        self._answering.add(task)
        self._streams_changed.set()
        try:
            yield
        finally:
            self._answering.discard(task)
            self._streams_changed.set()


class _Pace:
    """Lets a chunk of five words through when it is due, on an absolute schedule (no drift)."""

    def __init__(self, words_per_second: float) -> None:
        interval = CHUNK_WORDS / words_per_second if words_per_second else 0.0
        self._interval = min(interval, SLOWEST_CHUNK_SECONDS)
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time()

    async def chunk(self) -> None:
        """Return when the next chunk is due; always lets the loop run."""
        await asyncio.sleep(max(0.0, self._due - self._loop.time()))
        self._due += self._interval

    async def silence(self, seconds: float) -> None:
        """Do nothing for a while, and take the schedule along."""
        await asyncio.sleep(seconds)
        self._due = max(self._due + seconds, self._loop.time())


async def _stream(
    request: web.Request, plan: ReplyPlan, wire: ReplyWire, pace: _Pace
) -> web.StreamResponse:
    """Send the plan's steps. The headers go with the first frame, as from a real server."""
    response = web.StreamResponse(headers={"Content-Type": wire.content_type})
    with suppress(ConnectionResetError):  # the client left: there is nobody to answer
        await _send_steps(request, response, plan, wire, pace)
    return response


async def _send_steps(
    request: web.Request,
    response: web.StreamResponse,
    plan: ReplyPlan,
    wire: ReplyWire,
    pace: _Pace,
) -> None:
    counted = 0

    async def send(frame: bytes) -> None:
        if not response.prepared:
            await response.prepare(request)
        await response.write(frame)

    for step in plan.steps:
        match step:
            case Silence(seconds):
                await pace.silence(seconds)
            case BrokenLine():
                await send(wire.broken())
            case ErrorLine(message):
                await send(wire.error(message))
                return
            case Disconnect():
                _cut(request, response)
                return
            case _:
                counted += characters(step)
                for frame in wire.frames(step):
                    await pace.chunk()
                    await send(frame)
    await send(wire.closing(estimate_tokens(counted)))


async def _whole(
    request: web.Request,
    plan: ReplyPlan,
    wire: ReplyWire,
    pace: _Pace,
    error_body: ErrorBody,
) -> web.StreamResponse:
    """Answer in one body, after the time that streaming it would take."""
    chunks: list[Chunk] = []
    broken = False
    for step in plan.steps:
        match step:
            case Silence(seconds):
                await pace.silence(seconds)
            case BrokenLine():
                broken = True
            case ErrorLine(message):
                return _refusal(Refused(500, message), error_body)
            case Disconnect():
                return _cut(request, web.Response())
            case _:
                await pace.chunk()
                chunks.append(step)
    body = wire.whole(chunks, estimate_tokens(sum(map(characters, chunks))))
    if broken:
        body = body[: len(body) // 2]
    return web.Response(body=body, content_type="application/json")


def _cut(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    # What was written before still goes out; only the stream's end is missing.
    if request.transport is not None:
        request.transport.close()
    return response


def _ollama_error(_: int, message: str) -> bytes:
    return ollama_wire.error_body(message)


def _status_text(status: int) -> str:
    known = {each.value: each.phrase for each in HTTPStatus}
    return STATUS_TEXTS.get(status) or known.get(status, "error").lower()


def _refusal(refusal: Refused, error_body: ErrorBody) -> web.Response:
    body = error_body(refusal.status, refusal.message)
    return web.Response(status=refusal.status, body=body, content_type="application/json")


def _json(value: Any) -> web.Response:
    return web.Response(body=ollama_wire.encode(value), content_type="application/json")


async def _is_running(_: web.Request) -> web.Response:
    return web.Response(text="Ollama is running")


@web.middleware
async def _plain_text_errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Answer unknown paths and wrong methods in Ollama's words."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return web.Response(status=404, text="404 page not found")
    except web.HTTPMethodNotAllowed:
        return web.Response(status=405, text="405 method not allowed")
