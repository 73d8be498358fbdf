"""Writes into sessions, and looks at their objects."""

import json
from typing import Any

from cluster_app.objects.repository import ObjectSessionRepository
from cluster_app.objects.store import ObjectStore
from sessions_app.messages import UserMessage
from sessions_app.session import Session, append_messages
from sessions_app.store.repository import Change
from tests.claims import claim_session, hold_of
from tests.object_server import ObjectServer

FIRST = "a1b2c3d4e5"
KEY = f"sessions/{FIRST}.json"
LATER = "2026-11-21T11:00:00.000000+00:00"


def say(text: str) -> Change:
    message = UserMessage(content=text, message_id=text, timestamp=LATER)
    return lambda session: append_messages(session, message, now=LATER)


def texts(session: Session) -> list[str]:
    return [message.content for message in session.messages]


def document(store: ObjectStore) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(store.get(KEY).data)
    return found


def asked(server: ObjectServer) -> list[str]:
    """Return the methods of the requests since the last call."""
    methods = [request.method for request in server.requests]
    server.forget_requests()
    return methods


def whole_life(repository: ObjectSessionRepository, session: Session) -> None:
    """Make every kind of write once."""
    repository.create(session)
    claim_session(repository, FIRST, "t1", change=say("question"))
    repository.update(FIRST, say("setting"))
    repository.update(FIRST, lambda found: found, hold=hold_of(repository, "t1"), begun=["call_1"])
    repository.update(FIRST, say("answer"), hold=hold_of(repository, "t1"), release=True)
    claim_session(repository, FIRST, "t2", change=say("more"))
    repository.release(FIRST, hold_of(repository, "t2"))
    repository.update_idle(FIRST, say("end"))


LIFE = ["question", "setting", "answer", "more", "end"]
WRITES = 8
