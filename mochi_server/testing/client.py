"""Streams the answers of a server, event by event, for asynchronous tests."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx2
import msgspec

_MAX_EVENT_BYTES = 64 * 1024 * 1024
_TIMEOUT_SECONDS = 30.0
# The server speaks plain HTTP; the default would read all certificates of the system.
_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class StreamedEvent(NamedTuple):
    """An event of a turn (docs/events.md).

    Attributes:
        name: Its name, such as ``content_delta``.
        data: Its fields.
        id: Its id, after which a stream can be resumed.
    """

    name: str
    data: dict[str, Any]
    id: str


class TurnStream:
    """Iterates over the events of one turn, as they come.

    Attributes:
        events: The events so far.
    """

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.events: list[StreamedEvent] = []

    async def __aiter__(self) -> AsyncIterator[StreamedEvent]:
        """Yield each event; signs of life are left out."""
        async for each in httpx2.EventSource(self._response, max_event_size=_MAX_EVENT_BYTES):
            if each.data:
                event = StreamedEvent(each.event, msgspec.json.decode(each.data), each.id)
                self.events.append(event)
                yield event

    @property
    def session_id(self) -> str:
        """The session of the turn, once the first event is there."""
        return str(self.events[0].data["session_id"])

    @property
    def text(self) -> str:
        """The text of the answer so far, of all its messages."""
        messages: list[list[str]] = [[]]
        for event in self.events:
            if event.name == "content_delta":
                messages[-1].append(event.data["content"])
            elif event.name == "content_reset":
                messages[-1].clear()
            elif event.name == "tool_continuation_start":
                messages.append([])
        return "".join(map("".join, messages))


class MochiClient:
    """Sends messages to a server and streams the answers.

    Args:
        api_url: The address of the server's routes (``MochiServer.api_url``).
        model: The model of new sessions.
    """

    def __init__(self, api_url: str, model: str) -> None:
        self._api_url = api_url
        self._model = model

    @asynccontextmanager
    async def stream(
        self, message: str | None, *, session_id: str | None = None, **fields: Any
    ) -> AsyncIterator[TurnStream]:
        """Send a message and stream the turn; leaving early closes the connection.

        Args:
            message: The message; None answers the last one again.
            session_id: The session; None makes one.
            **fields: Other fields of the request, such as ``think`` or ``detached``.

        Raises:
            httpx2.HTTPStatusError: The server refused the request; its body is read.
        """
        path = "/chat/stream" if session_id is None else f"/chat/{session_id}/stream"
        body = {"message": message, **({"model": self._model} if session_id is None else {})}
        async with (
            httpx2.AsyncClient(
                timeout=_TIMEOUT_SECONDS, trust_env=False, verify=_NO_CERTIFICATES
            ) as http,
            http.stream("POST", f"{self._api_url}{path}", json={**body, **fields}) as response,
        ):
            if response.is_error:
                await response.aread()
                response.raise_for_status()
            yield TurnStream(response)
