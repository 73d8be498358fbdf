"""Serves Django's async views without threads (docs/decisions/0006, 0040).

Stock Django 5.2 switches to a new thread three times for every request, and keeps that thread for
the duration of a stream: for ``request_started``, for ``request_finished`` (whose only receivers
clean up databases and caches), and for ``response.close()``. Here:

* Those receivers are disconnected in this process, because no view uses a database or a cache
  backend; code that does (queueing a background task) closes its own connections. Receivers
  connected by others are called as in stock Django.
* ``response.close()`` runs inline unless it would call such a receiver.
* HEAD is answered like GET, without the body: Ninja's routes don't support HEAD.
* A view runs in the server's own task, so that a cancellation by the server (its shutdown) reaches
  the view and its stream.

Synchronous views and middleware keep working as in stock Django. Works with Django 5.2 and 6.
"""

# private: ASGIHandler.{handle,create_request,run_get_response,read_body,send_response}, which
# Django does not document. Price: this module. Why: 0.4 ms a request and a thread a stream
# (docs/decisions/0040); test_handler.py runs with the newest Django.

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import IO, Any, cast

from asgiref.sync import sync_to_async
from django.core import signals
from django.core.cache import close_caches
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.core.handlers.base import reset_urlconf
from django.db import close_old_connections, reset_queries
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

from chat.http.pushed_response import PushedResponse
from mochi_project.app import service
from mochi_project.asgi_types import Receive, Scope, Send
from mochi_project.errors.handlers import plain_error
from mochi_project.exchange import Exchange
from mochi_project.guard.root_path import path_below_root
from mochi_project.keys.ring import KeyRing
from mochi_project.principal import IN_SCOPE, acting_for


@asynccontextmanager
async def cancelled_on_disconnect(
    exchange: Exchange | None, receive: Receive
) -> AsyncGenerator[None, None]:
    """Cancel the current task when the client disconnects; clear the cancellation at the end.

    Other cancellations (the server's shutdown) are not cleared.

    Args:
        exchange: Reports the disconnect; if None, a task waits for the ASGI message.
        receive: Receives ASGI messages.
    """
    request = cast("asyncio.Task[Any]", asyncio.current_task())
    has_left = False

    def cancel() -> None:
        nonlocal has_left
        has_left = True
        request.cancel()

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        cancel()

    watcher = asyncio.create_task(watch()) if exchange is None else None
    if exchange is not None:
        exchange.on_disconnect(cancel)
    try:
        yield
    except asyncio.CancelledError:
        if not has_left or request.cancelling() > 1:
            raise
    finally:
        if exchange is not None:
            exchange.on_disconnect(None)
        if watcher is not None:
            watcher.cancel()
        if has_left:
            request.uncancel()


_NO_CONTENT = 204
_WITHOUT_BODY = frozenset({_NO_CONTENT, 304})


class AsyncHandler(ASGIHandler):
    """Serves Django's views over ASGI in the server's own task."""

    def __init__(self) -> None:
        super().__init__()
        detach_database_receivers()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, for whom the guard put into its scope; strangers act for nobody."""
        acting = scope.get(IN_SCOPE)
        with nullcontext() if acting is None else acting_for(acting):
            await self._handle(scope, receive, send)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body_file = await self.read_body(receive)
        except RequestAborted:
            return
        try:
            set_script_prefix(get_script_prefix(scope))
            asks_head = scope["method"] == "HEAD"
            if asks_head:  # routes declare GET alone
                scope = {**scope, "method": "GET"}
            await signals.request_started.asend(sender=self.__class__, scope=scope)
            request, error_response = self.create_request(scope, body_file)
            if request is not None:
                await self._serve(request, receive, send, asks_head=asks_head)
            elif error_response is not None:
                await self.send_response(error_response, send)
                await sync_to_async(error_response.close)()
        finally:
            body_file.close()

    async def _serve(
        self, request: ASGIRequest, receive: Receive, send: Send, *, asks_head: bool
    ) -> None:
        response: HttpResponseBase | None = None
        exchange = Exchange.of(request.scope)
        watched: Callable[[], object] | None = None
        try:
            async with cancelled_on_disconnect(exchange, receive):
                response = await self.run_get_response(request)
                if asks_head:
                    await self._send_head(response, send)
                    return
                if isinstance(response, PushedResponse):
                    watched = _revocable(response, request.scope)
                    response.sink = None if exchange is None else exchange.sink(send)
                await self.send_response(response, send)
        finally:
            if watched is not None:
                watched()
            if response is None:
                await signals.request_finished.asend(sender=self.__class__)
            elif signals.request_finished.receivers:
                await sync_to_async(response.close)()
            else:
                response.close()

    def create_request(
        self, scope: Scope, body_file: IO[bytes]
    ) -> tuple[ASGIRequest, None] | tuple[None, HttpResponseBase]:
        """Return the request, or else the response to one that Django can't parse."""
        request, error_response = super().create_request(scope, body_file)
        if request is not None:
            return request, None
        status = error_response.status_code if error_response else 400
        return None, plain_error(status, path=path_below_root(scope))

    async def send_response(self, response: HttpResponseBase, send: Send) -> None:
        """Send a response, with a Content-Length if known."""
        if isinstance(response, HttpResponse) and response.status_code not in _WITHOUT_BODY:
            # As CommonMiddleware does, whose hook would cost a thread.
            response.headers.setdefault("Content-Length", str(len(response.content)))
        elif response.status_code == _NO_CONTENT:
            response.headers.pop("Content-Type", None)
        await super().send_response(response, send)

    async def _send_head(self, response: HttpResponseBase, send: Send) -> None:
        """Send the headers of a response, without waiting for data of a stream."""
        if isinstance(response, HttpResponse):
            response.headers.setdefault("Content-Length", str(len(response.content)))
        head = HttpResponse(status=response.status_code, headers=response.headers)
        head.cookies = response.cookies
        await super().send_response(head, send)


def _revocable(response: PushedResponse, scope: Scope) -> Callable[[], object] | None:
    """End a stream with the key that opened it, if one did; return what stops watching that."""
    acting = scope.get(IN_SCOPE)
    if acting is None or acting.key_id is None:
        return None
    watch = service(KeyRing).when_ended
    return watch(acting.key_id, lambda _: response.revoke(), token_hash=acting.key_hash)


def detach_database_receivers() -> None:
    """Disconnect Django's own request signal receivers in this process, which only clean up.

    Each costs a thread hop for every request. They concern the query log, old database
    connections, caches, and a URL configuration that ends with its request's task anyway.
    """
    signals.request_started.disconnect(reset_queries)
    signals.request_started.disconnect(close_old_connections)
    signals.request_finished.disconnect(close_old_connections)
    signals.request_finished.disconnect(close_caches)
    signals.request_finished.disconnect(reset_urlconf)
