"""A tab of a front end: it knows its list of sessions from the stream of changes alone."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx

from tests.functional.conftest import Chat, Event, read_events

SECONDS = 30.0


class Tab:
    """Follows what changes, as docs/front-end.md says: it loads the list when it is told to.

    Args:
        chat: Its connections to a server.
        after: The id of the last event that it received before.
    """

    def __init__(self, chat: Chat, after: str = "") -> None:
        self.chat = chat
        self.last_id = after
        self.sessions: dict[str, dict[str, Any]] = {}
        self.events: list[Event] = []
        self.refused: httpx.Response | None = None
        self._news = threading.Condition()
        self._is_open = self._is_over = False
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        with self._news:
            assert self._news.wait_for(lambda: self._is_open or self._is_over, SECONDS)
        if not after and self.refused is None:
            self.wait_until(lambda tab: tab.names[:1] == ["reset"])

    @property
    def names(self) -> list[str]:
        return [event.name for event in self.events]

    def wait_until(self, holds: Callable[["Tab"], Any]) -> None:
        """Wait until something is so, which may change with each event and not otherwise."""
        with self._news:
            assert self._news.wait_for(lambda: holds(self), SECONDS), (self.names, self.sessions)

    def wait_for_end(self) -> None:
        """Wait until the server has ended the stream."""
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    def leave(self) -> None:
        """Close the connection, as a tab that is closed."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self.wait_for_end()

    def state_of(self, session_id: str) -> str | None:
        session = self.sessions.get(session_id)
        return None if session is None else session["state"]

    def _read(self) -> None:
        headers = {"Last-Event-ID": self.last_id}
        try:
            with self.chat.http.stream("GET", "/events", headers=headers) as answer:
                if answer.status_code != 200:
                    answer.read()
                    self.refused = answer
                    return
                self._socket = answer.extensions["network_stream"].get_extra_info("socket")
                self._tell(lambda: setattr(self, "_is_open", True))
                for event in read_events(answer):
                    listed = self._list() if event.name == "reset" else {}
                    self._tell(lambda event=event, listed=listed: self._take(event, listed))
        except httpx.TransportError:  # it left, or the server was killed
            pass
        finally:
            self._tell(lambda: setattr(self, "_is_over", True))

    def _tell(self, change: Callable[[], object]) -> None:
        with self._news:
            change()
            self._news.notify_all()

    def _list(self) -> dict[str, dict[str, Any]]:
        return {
            one["session_id"]: one for one in self.chat.http.get("/sessions").json()["sessions"]
        }

    def _take(self, event: Event, listed: dict[str, dict[str, Any]]) -> None:
        self.events.append(event)
        self.last_id = event.id
        if event.name == "reset":
            self.sessions = listed
        elif event.name == "session_deleted":
            self.sessions.pop(event.data["session_id"], None)
        elif event.name != "mcp_login":
            self.sessions[event.data["session_id"]] = event.data["session"]
