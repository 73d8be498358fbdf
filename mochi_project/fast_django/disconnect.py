"""Cancels a view whose client disconnects."""

import asyncio
from types import TracebackType
from typing import Any, Self

from mochi_project.asgi_types import Receive
from mochi_project.exchange import Exchange


class CancelledOnDisconnect:
    """Cancels the current task when the client disconnects; clears the cancellation at the end.

    Other cancellations (the server's shutdown) are not cleared.

    Args:
        exchange: Reports the disconnect; if None, a task waits for the ASGI message.
        receive: Receives ASGI messages.
    """

    __slots__ = ("_cancelled", "_exchange", "_receive", "_request", "_watcher")

    def __init__(self, exchange: Exchange | None, receive: Receive) -> None:
        self._request: asyncio.Task[Any] | None = None
        self._exchange = exchange
        self._receive = receive
        self._watcher: asyncio.Task[None] | None = None
        self._cancelled = False

    async def __aenter__(self) -> Self:
        self._request = asyncio.current_task()
        if self._exchange is not None:
            self._exchange.on_disconnect(self._cancel)
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
            self._exchange.on_disconnect(None)
        elif self._watcher is not None:
            self._watcher.cancel()
        if not self._cancelled or self._request is None:
            return False
        return self._request.uncancel() == 0 and kind is asyncio.CancelledError

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._cancel()

    def _cancel(self) -> None:
        self._cancelled = True
        if self._request is not None:
            self._request.cancel()
