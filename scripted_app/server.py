"""Serves the HTTP routes of Ollama and of every vendor on a loopback port.

Only test mode and ``mochi-server scripted_llm`` import this. The real clients talk to it over
real sockets, so no provider knows of test mode.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import web

from scripted_app import anthropic_wire, google_wire, ollama_wire, openai_wire, responses_requests
from scripted_app.replies import RUNNER_DIED, Instruction, ToolCallChunk
from scripted_app.responses_wire import ResponsesReply
from scripted_app.sending import ErrorBody, Pace, refusal_of, stream, whole
from scripted_app.wire import ChatRequest, Refused, ReplyWire

MAX_REQUEST_BYTES = 64 * 1024 * 1024
KEPT_REQUESTS = 100
STATUS_TEXTS = {
    404: "model not found",
    429: "too many requests",
    500: RUNNER_DIED,
    503: "server busy, please try again.  maximum pending requests exceeded",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ReplyMaker = Callable[[Any], ReplyWire]
"""From a request as its wire reads it to the reply in that wire."""

logger = logging.getLogger(__name__)


class ScriptedModelServer:
    """Serves the scripted models until ``stop``.

    Attributes:
        requests: The bodies of the last 100 chat requests, oldest first.
        heads: The path and the headers (in lower case) of each of these.
        scripts: Each answers one of the next chat requests, but for those that ask for a format;
            without one the messages of the request decide. Threads may change it.
        refuses_schemas: Whether requests for an answer of a form are refused, as some compatible
            servers do. Threads may change it.
        loads: How often one of Ollama's models was loaded: for a window that it did not have.
        open_streams: How many chat requests are being answered now.
    """

    def __init__(
        self, host: str = "127.0.0.1", port: int = 0, words_per_second: float = 50.0
    ) -> None:
        self.requests: deque[Mapping[str, Any]] = deque(maxlen=KEPT_REQUESTS)
        self.heads: deque[tuple[str, Mapping[str, str]]] = deque(maxlen=KEPT_REQUESTS)
        self.scripts: deque[Instruction] = deque()
        self.refuses_schemas = False
        self._host = host
        self._port = port
        self._words_per_second = words_per_second
        self._runner: web.AppRunner | None = None
        self._answering: set[asyncio.Task[Any]] = set()
        self._streams_changed = asyncio.Event()
        self._loaded: dict[str, int] = {}
        self.loads = 0

    @property
    def open_streams(self) -> int:
        """The number of chat requests that are being answered."""
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
        openai = (openai_wire.OpenAIReply, openai_wire.error_body)
        openrouter_chat = partial(openai_wire.read_chat, vendor="openrouter")
        anthropic = (anthropic_wire.AnthropicReply, anthropic_wire.error_body)
        app.add_routes(
            [
                web.get("/", _is_running),
                web.get("/api/version", _showing(lambda: {"version": ollama_wire.VERSION})),
                web.get("/api/tags", _showing(ollama_wire.tags)),
                web.get("/api/ps", _showing(lambda: ollama_wire.running(self._loaded))),
                web.post("/api/show", _refusing(_show, _ollama_error)),
                web.post("/api/chat", _refusing(self._ollama_chat, _ollama_error)),
                web.get("/v1/models", _models),
                web.get("/v1/models/{name:.+}", _model),
                web.post("/v1/chat/completions", self._chat(openai_wire.read_chat, *openai)),
                web.post(
                    "/v1/responses",
                    self._chat(
                        responses_requests.read_chat, ResponsesReply, openai_wire.error_body
                    ),
                ),
                web.post("/v1/messages", self._chat(anthropic_wire.read_chat, *anthropic)),
                web.get("/api/v1/models", _showing(openai_wire.openrouter_models)),
                web.post("/api/v1/chat/completions", self._chat(openrouter_chat, *openai)),
                web.get("/v1beta/models", _showing(google_wire.models)),
                web.get(
                    "/v1beta/models/{name:.+}", _refusing(_google_model, google_wire.error_body)
                ),
                web.post(r"/v1beta/models/{name:.+}:{method:\w+}", self._google_chat),
            ]
        )
        # Cancel a handler when its client disconnects.
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
        """Stop immediately; replies in progress are cut off. Does nothing if not running."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        for task in self._answering:
            task.cancel()
        await runner.cleanup()

    async def wait_for_open_streams(self, count: int) -> None:
        """Wait until exactly ``count`` chat requests are being answered."""
        while self.open_streams != count:
            self._streams_changed.clear()
            await self._streams_changed.wait()

    async def _ollama_chat(self, request: web.Request) -> web.StreamResponse:
        body = ollama_wire.read_json(await request.read())
        self._note(request, body)
        chat = ollama_wire.read_chat(body)
        if not chat.messages:
            return self._load(chat, unload=body.get("keep_alive") in (0, "0"))
        self._hold(chat)
        return await self._answer(request, chat, ollama_wire.OllamaReply, _ollama_error)

    async def _google_chat(self, request: web.Request) -> web.StreamResponse:
        read = partial(
            google_wire.read_chat,
            name=request.match_info["name"],
            stream=request.match_info["method"] == "streamGenerateContent",
        )
        return await self._chat(read, google_wire.GoogleReply, google_wire.error_body)(request)

    def _chat(
        self,
        read_chat: Callable[[Mapping[str, Any]], ChatRequest],
        reply: ReplyMaker,
        error_body: ErrorBody,
    ) -> Handler:
        """Return what answers the chats of a vendor."""

        async def chat(request: web.Request) -> web.StreamResponse:
            body = openai_wire.read_json(await request.read())
            self._note(request, body)
            return await self._answer(request, read_chat(body), reply, error_body)

        return _refusing(chat, error_body)

    def _note(self, request: web.Request, body: Mapping[str, Any]) -> None:
        self.requests.append(body)
        self.heads.append(
            (request.path, {name.lower(): it for name, it in request.headers.items()})
        )

    def _load(self, chat: ChatRequest, *, unload: bool) -> web.Response:
        if unload:
            self._loaded.pop(chat.card.name, None)
        else:
            self._hold(chat)
        body = ollama_wire.loaded_body(chat.name, unload=unload)
        return web.Response(body=body, content_type="application/json")

    def _hold(self, chat: ChatRequest) -> None:
        """Load a model, as Ollama does, unless it is loaded with this window."""
        window = chat.context_window or chat.card.context_length
        self.loads += self._loaded.get(chat.card.name) != window
        self._loaded[chat.card.name] = window

    async def _answer(
        self, request: web.Request, chat: ChatRequest, reply: ReplyMaker, error_body: ErrorBody
    ) -> web.StreamResponse:
        with self._counted():
            return await self._send(request, chat, reply, error_body)

    async def _send(
        self, request: web.Request, chat: ChatRequest, reply: ReplyMaker, error_body: ErrorBody
    ) -> web.StreamResponse:
        if chat.format and self.refuses_schemas:
            raise Refused(400, "This response_format type is unavailable now")
        has_script = bool(self.scripts) and (not chat.format or self.scripts[0].ignores_format)
        plan = chat.plan(self.scripts.popleft() if has_script else None)
        logger.info(
            "scripted %s of %s: %s reply, %d steps",
            request.path,
            chat.card.name,
            plan.mode,
            len(plan.steps),
        )
        if plan.status is not None:
            raise Refused(plan.status, _status_text(plan.status), retry_after=plan.retry_after)
        words_per_second = (
            self._words_per_second if plan.words_per_second is None else plan.words_per_second
        )
        pace = Pace(words_per_second)
        calls = any(isinstance(step, ToolCallChunk) for step in plan.steps)
        wire = reply(msgspec.structs.replace(chat, makes_calls=calls))
        if chat.stream:
            return await stream(request, plan, wire, pace)
        return await whole(request, plan, wire, pace, error_body)

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


def _showing(make: Callable[[], Any]) -> Handler:
    """Return what answers with a value in JSON."""

    async def show(_: web.Request) -> web.StreamResponse:
        return _json(make())

    return show


def _refusing(handle: Handler, error_body: ErrorBody) -> Handler:
    """Return a handler whose refusals are answered as a vendor writes them."""

    async def handle_or_refuse(request: web.Request) -> web.StreamResponse:
        try:
            return await handle(request)
        except Refused as refusal:
            return refusal_of(refusal, error_body)

    return handle_or_refuse


async def _show(request: web.Request) -> web.StreamResponse:
    card = ollama_wire.find_model(ollama_wire.read_json(await request.read()))
    return _json(ollama_wire.show(card))


async def _google_model(request: web.Request) -> web.StreamResponse:
    name = request.match_info["name"]
    return _json(google_wire.model(name, google_wire.find_model(name)))


async def _models(request: web.Request) -> web.StreamResponse:
    # OpenAI and Anthropic share this path; Anthropic's clients always say a version.
    return _json((anthropic_wire if _is_anthropics(request) else openai_wire).models())


async def _model(request: web.Request) -> web.StreamResponse:
    name = request.match_info["name"]
    try:
        if _is_anthropics(request):
            return _json(anthropic_wire.model(name, anthropic_wire.find_model(name)))
        return _json(openai_wire.model(openai_wire.find_model(name)))
    except Refused as refusal:
        wire = anthropic_wire if _is_anthropics(request) else openai_wire
        return refusal_of(refusal, wire.error_body)


def _ollama_error(_: int, message: str) -> bytes:
    return ollama_wire.error_body(message)


def _status_text(status: int) -> str:
    known = {each.value: each.phrase for each in HTTPStatus}
    return STATUS_TEXTS.get(status) or known.get(status, "error").lower()


def _is_anthropics(request: web.Request) -> bool:
    return "anthropic-version" in request.headers


def _json(value: Any) -> web.Response:
    return web.Response(body=ollama_wire.encode(value), content_type="application/json")


async def _is_running(_: web.Request) -> web.Response:
    return web.Response(text="Ollama is running")


@web.middleware
async def _plain_text_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer unknown paths and wrong methods as Ollama does."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return web.Response(status=404, text="404 page not found")
    except web.HTTPMethodNotAllowed:
        return web.Response(status=405, text="405 method not allowed")
