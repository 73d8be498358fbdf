"""Chats with a mochi-server in a terminal, through lost connections, and asks before tools run.

Needs ``httpx`` and ``httpx-sse``. ``python chat.py http://localhost:8000 qwen3:14b`` makes a
session, ``python chat.py http://localhost:8000 --session a1b2c3d4e5`` goes on with one.
"""

import argparse
import json
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
from httpx_sse import connect_sse

ATTEMPTS = 6
Event = tuple[str, dict[str, Any]]


class Mochi:
    """A session of a server.

    Args:
        http: A client whose base URL is the server's ``/api/v1``.
        session_id: The session.
    """

    def __init__(self, http: httpx.Client, session_id: str) -> None:
        self._http = http
        self.session_id = session_id

    def chat(self, message: str | None) -> Iterator[Event]:
        """Send a message and yield the turn's events; None makes the last answer again."""
        body = {"detached": True} | ({"message": message} if message is not None else {})
        return self._events("POST", json=body, headers={"Idempotency-Key": str(uuid.uuid4())})

    def follow(self) -> tuple[list[dict[str, Any]], Iterator[Event]]:
        """Return the messages that are finished, and the events of the running turn, if any.

        Nothing is in both: the stream shows what the messages lack.
        """
        while True:
            page = self._get(f"/sessions/{self.session_id}?view=page")
            if page["position"] is None:
                return page["messages"], iter(())
            events = self._events("GET", params={"after": page["position"]})
            name, started = next(events, ("", {}))
            if started.get("turn_id") == page["active_turn"]["turn_id"]:
                return page["messages"], _with_first((name, started), events)

    def waits(self, confirmation_id: str) -> bool:
        """Return whether a question still waits for its answer."""
        waiting = self._get(f"/chat/{self.session_id}/confirmations")["confirmations"]
        return confirmation_id in [each["confirmation_id"] for each in waiting]

    def confirm(self, confirmation_id: str, *, approved: bool) -> None:
        """Approve a tool call, or deny it."""
        answer = {"confirmation_id": confirmation_id, "approved": approved}
        _checked(self._http.post(f"/chat/{self.session_id}/confirm-tool", json=answer))

    def _get(self, path: str) -> Any:
        return _checked(self._http.get(path)).json()

    def _events(self, method: str, **start: Any) -> Iterator[Event]:
        """Yield each event once and in order, whatever the network does."""
        path = f"/chat/{self.session_id}/stream"
        attempt, request = 0, (method, start)
        while True:
            attempt += 1
            try:
                with connect_sse(self._http, request[0], path, **request[1]) as source:
                    if source.response.status_code == 204:
                        return  # nothing is left to send
                    if source.response.is_error:
                        source.response.read()
                    _checked(source.response)
                    if source.response.status_code == 202:  # another turn runs: the message waits
                        queued = json.loads(source.response.read())["queued"]
                        request = ("GET", {"params": {"queued": queued["message_id"]}})
                        continue
                    for event in source.iter_sse():
                        if event.data:  # else it is a heartbeat
                            attempt, request = 0, ("GET", {"params": {"after": event.id}})
                            yield event.event, event.json()
                        if event.event == "done":
                            return
            except httpx.TransportError:
                if attempt >= ATTEMPTS:
                    raise
            time.sleep(min(0.1 * 2**attempt, 5))


def _with_first(first: Event, events: Iterator[Event]) -> Iterator[Event]:
    yield first
    yield from events


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_error:
        error = response.json()["error"]
        sys.exit(f"{error['code']}: {error['message']}")
    return response


def show(mochi: Mochi, events: Iterator[Event]) -> None:
    """Print a turn as it comes, and ask what has to be asked."""
    for name, data in events:
        if name == "content_delta":
            print(data["content"], end="", flush=True)
        elif name == "content_reset":
            print("\n[the answer comes anew]")
        elif name == "tool_call_confirmation_required" and mochi.waits(data["confirmation_id"]):
            mochi.confirm(data["confirmation_id"], approved=_approves(data))
        elif name == "tool_result":
            print(f"[{data['tool_name']}: {data['summary']}]")
        elif name == "error":
            print(f"\n{data['code']}: {data['message']}", file=sys.stderr)
    print()


def _approves(asked: Mapping[str, Any]) -> bool:
    arguments = json.dumps(asked["arguments"])
    return input(f"\n{asked['tool_name']}({arguments}) - may it run? [y/N] ").lower() == "y"


def main() -> None:
    """Go on with a session, or make one, and chat until the input ends."""
    parser = argparse.ArgumentParser(description="Chat with a mochi-server.")
    parser.add_argument("url")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--session")
    given = parser.parse_args()
    timeout = httpx.Timeout(10, read=45)  # a heartbeat comes after 15 seconds of silence
    with httpx.Client(base_url=f"{given.url}/api/v1", timeout=timeout) as http:
        session_id = given.session
        if session_id is None:
            made = _checked(http.post("/sessions", json={"model": given.model}))
            session_id = made.json()["session_id"]
        mochi = Mochi(http, session_id)
        messages, events = mochi.follow()
        for message in messages:
            print(f"{message['role']}: {message['content']}")
        show(mochi, events)
        print(f"session {session_id}; an empty line answers again, Ctrl-D ends")
        while True:
            try:
                text = input("> ")
            except EOFError:
                return
            show(mochi, mochi.chat(text or None))


if __name__ == "__main__":
    main()
