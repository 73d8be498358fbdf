"""Django's ASGI handler without its thread hops: what remains is what async views need.

Stock Django 5.2 hops into a fresh thread three times for every request, and keeps that thread for
as long as a stream lasts: for ``request_started``, for ``request_finished`` (whose only receivers
tidy up databases and caches), and for ``response.close()``. Here:

* Those receivers are disconnected in this process, because no view here uses a database or a
  cache backend; whoever does (queueing a background task) closes its own connections. Receivers
  that anybody else connects are called as in stock Django.
* ``response.close()`` runs inline when it has nothing to close that could block.
* A view runs in the server's own task. So a cancellation by the server (its shutdown) reaches the
  view and its generator instead of orphaning them, and one task fewer is started.
* A stream's generator is closed here, by name, with its ``finally`` run to completion, not left to
  the garbage collector.

Synchronous views and middleware keep working as in stock Django, in a thread of their request's
own. Works with Django 5.2 and 6.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from io import BytesIO
from types import TracebackType
from typing import IO, Any, Self

from asgiref.sync import sync_to_async
from django.core import signals
from django.core.cache import close_caches
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.core.handlers.base import reset_urlconf
from django.db import close_old_connections, connections, reset_queries
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch, get_resolver, set_script_prefix
from django.utils.log import log_response

from mochi_project.asgi_types import Message, Receive, Scope, Send
from mochi_project.errors.handlers import answer_to, plain_error
from mochi_project.exchange import Exchange
from mochi_project.fast_django.request import LeanRequest
from mochi_project.fast_django.route_table import RouteMatch, table_of

# A generator that never waits would keep the loop, and the notice that its client left, to itself.
CHUNKS_BETWEEN_YIELDS = 64

_WITHOUT_BODY = frozenset({204, 304})
_HOOKS = ("view", "template_response", "exception")


class LeanHandler(ASGIHandler):
    """Serves Django's views over ASGI; see the module for what it leaves out."""

    request_class = LeanRequest

    def __init__(self) -> None:
        super().__init__()
        detach_database_receivers()
        hooks = (vars(self)[f"_{kind}_middleware"] for kind in _HOOKS)
        atomic = (entry["ATOMIC_REQUESTS"] for entry in connections.settings.values())
        self._calls_views_directly = not any(hooks) and not any(atomic)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            body_file = await self.read_body(receive)
        except RequestAborted:
            return
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine of a server runs in a task
        try:
            if prefix := get_script_prefix(scope):  # it is "/" where nothing was set
                set_script_prefix(prefix)
            await signals.request_started.asend(sender=self.__class__, scope=scope)
            request, error_response = self.create_request(scope, body_file)
            if request is not None:
                await self._serve(request, task, receive, send)
            elif error_response is not None:
                await self.send_response(error_response, send)
                await sync_to_async(error_response.close)()
        finally:
            body_file.close()

    async def _serve(
        self, request: ASGIRequest, task: asyncio.Task[Any], receive: Receive, send: Send
    ) -> None:
        response: HttpResponseBase | None = None
        try:
            async with _CancelledOnDisconnect(task, request.scope, receive):
                response = await self.run_get_response(request)
                if hasattr(response, "ready"):
                    response = await self._begun(response, request)
                await self.send_response(response, send, Exchange.of(request.scope))
        finally:
            if response is None:
                await signals.request_finished.asend(sender=self.__class__)
            elif self._closes_at_once(response, request):
                response.close()
            else:
                await sync_to_async(response.close)()

    async def _begun(self, stream: Any, request: HttpRequest) -> HttpResponseBase:
        """Wait for a stream's first chunk; the answer to its error if there will be none."""
        try:
            await stream.ready()
        except Exception as error:  # noqa: BLE001 - as of a route: it is logged and answered
            answer = answer_to(request, error)
            vars(answer)["_resource_closers"].extend(vars(stream)["_resource_closers"])
            vars(answer)["_handler_class"] = self.__class__
            await _log(answer, request)
            return answer
        settled: HttpResponseBase = stream
        return settled

    def _closes_at_once(self, response: HttpResponseBase, request: HttpRequest) -> bool:
        """Whether ``response.close()`` would do nothing that could block the loop."""
        return (
            vars(response)["_resource_closers"] == [request.close]
            and not hasattr(request, "_files")
            and not (
                signals.request_finished.receivers
                and signals.request_finished.has_listeners(self.__class__)
            )
        )

    async def read_body(self, receive: Receive) -> IO[bytes]:
        """Return the body as a file: in memory when it came in one piece, as the guard gives it.

        Raises:
            RequestAborted: The client left before the body was complete.
        """
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body", False):
            return BytesIO(message.get("body", b""))
        return await super().read_body(_preceded_by(message, receive))

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        """Return the response to a request, of the view or of an error."""
        response: HttpResponseBase = await vars(self)["_middleware_chain"](request)
        vars(response)["_resource_closers"].append(request.close)
        if response.status_code >= 400:
            await _log(response, request)
        return response

    async def _get_response_async(self, request: HttpRequest) -> Any:
        """Call the view, within the middleware.

        Django finds out for each request again that a view is async and that no hook applies.
        """
        match = self.resolve_request(request)
        if not (self._calls_views_directly and isinstance(match, RouteMatch) and match.is_async):
            return await super()._get_response_async(request)  # type: ignore[misc]
        response = await match.func(request, *match.args, **match.kwargs)
        if not isinstance(response, HttpResponseBase):
            self.check_response(response, match.func)
        if hasattr(response, "render"):
            return await sync_to_async(response.render)()
        return response

    def resolve_request(self, request: HttpRequest) -> ResolverMatch:
        """Return the view of a request with its parameters.

        Raises:
            Resolver404: There is none.
        """
        if not hasattr(request, "urlconf"):
            match = table_of(get_resolver()).find(request.path_info)
            if match is not None:
                request.resolver_match = match
                return match
        return super().resolve_request(request)

    def create_request(
        self, scope: Scope, body_file: IO[bytes]
    ) -> tuple[ASGIRequest, None] | tuple[None, HttpResponseBase]:
        """Return the request, or else the answer to one that makes no sense."""
        request, error_response = super().create_request(scope, body_file)
        if request is not None:
            return request, None
        return None, plain_error(error_response.status_code if error_response else 400)

    async def send_response(
        self, response: HttpResponseBase, send: Send, exchange: Exchange | None = None
    ) -> None:
        """Send a response: one message for each chunk of an async stream that is not too large.

        A stream that can push its chunks to the server, without waking this task, may do so.
        """
        if isinstance(response, HttpResponse) and response.status_code not in _WITHOUT_BODY:
            # As CommonMiddleware does, whose hook would cost a thread.
            response.headers.setdefault("Content-Length", str(len(response.content)))
        generator = _generator_of(response)
        if generator is None:
            await super().send_response(response, send)
            return
        async with aclosing(generator):
            await send(_response_start(response))
            send = getattr(send, "after_start", send)
            write = exchange.writer(send) if exchange is not None else None
            if write is not None and hasattr(generator, "push_to"):
                generator.push_to(write)
            await self._send_chunks(generator, response, send)
        await send({"type": "http.response.body"})

    async def _send_chunks(
        self, chunks: AsyncGenerator[Any], response: HttpResponseBase, send: Send
    ) -> None:
        countdown = CHUNKS_BETWEEN_YIELDS
        async for part in chunks:
            chunk = part if type(part) is bytes else response.make_bytes(part)
            if len(chunk) <= self.chunk_size:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            else:
                for piece, _ in self.chunk_bytes(chunk):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            countdown -= 1
            if not countdown:
                countdown = CHUNKS_BETWEEN_YIELDS
                await asyncio.sleep(0)


class _CancelledOnDisconnect:
    """Cancels a task while the client is gone, and takes that cancellation back at the end.

    A cancellation that comes from elsewhere (the server's shutdown) passes through.
    """

    __slots__ = ("_cancelled", "_exchange", "_receive", "_request", "_watcher")

    def __init__(self, request: asyncio.Task[Any], scope: Scope, receive: Receive) -> None:
        self._request = request
        self._exchange = Exchange.of(scope)
        self._receive = receive
        self._watcher: asyncio.Task[None] | None = None
        self._cancelled = False

    async def __aenter__(self) -> Self:
        if self._exchange is not None:
            self._exchange.call_when_left(self._cancel)
        else:
            self._watcher = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if self._exchange is not None:
            self._exchange.call_when_left(None)
        elif self._watcher is not None:
            self._watcher.cancel()
        if not self._cancelled:
            return False
        return self._request.uncancel() == 0 and kind is asyncio.CancelledError

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._cancel()

    def _cancel(self) -> None:
        self._cancelled = True
        self._request.cancel()


def detach_database_receivers() -> None:
    """Disconnect Django's own request signal receivers in this process, which only tidy up.

    Each costs a thread hop for every request. They concern the query log, old database
    connections, caches, and a URL configuration that ends with its request's task anyway.
    """
    signals.request_started.disconnect(reset_queries)
    signals.request_started.disconnect(close_old_connections)
    signals.request_finished.disconnect(close_old_connections)
    signals.request_finished.disconnect(close_caches)
    signals.request_finished.disconnect(reset_urlconf)


def _generator_of(response: HttpResponseBase) -> AsyncGenerator[Any] | None:
    """Return the async generator that a plain streaming response draws on.

    Itself, not ``aiter(response)``: that would wrap it in two generators more, and closing the
    outermost leaves the others to the garbage collector.
    """
    if not isinstance(response, StreamingHttpResponse) or not response.is_async:
        return None
    iterator = vars(response)["_iterator"]  # the public property wraps it
    return iterator if hasattr(iterator, "aclose") else None


def _response_start(response: HttpResponseBase) -> Message:
    raw = getattr(response, "raw_headers", None)
    if raw is not None:
        return {"type": "http.response.start", "status": response.status_code, "headers": raw}
    headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in response.items()]
    headers.extend(
        (b"Set-Cookie", cookie.output(header="").encode("ascii").strip())
        for cookie in response.cookies.values()
    )
    return {"type": "http.response.start", "status": response.status_code, "headers": headers}


async def _log(response: Any, request: HttpRequest) -> None:
    """Log an error as Django does, which may block."""
    await sync_to_async(log_response, thread_sensitive=False)(
        "%s: %s", response.reason_phrase, request.path, response=response, request=request
    )


def _preceded_by(message: Message, receive: Receive) -> Receive:
    waiting = [message]

    def receive_again() -> Awaitable[Message]:
        return _given(waiting.pop()) if waiting else receive()

    return receive_again


async def _given(message: Message) -> Message:
    return message
