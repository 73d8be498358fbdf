"""How a request for a chat completion opens a turn, and how its answer is sent."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from chat.service import ChatRequest, OpenTurn
from chat.stream.events import Event
from chat.stream.numbered_event import NumberedEvent, Push
from chat.turn.outcome import Outcome
from dialects_app.chat_completions.view import Completions
from dialects_app.shared.parsed_request import RequestContext
from models_app.language_model import ModelInfo
from sessions_app.errors import SessionExists, SessionNotFound, ValidationFailed
from sessions_app.session import Session, make_session
from tests.unit.dialects_app.chat_completions.bodies import body_of
from tests.unit.dialects_app.chat_completions.journals import DONE, STARTED, TURN, said
from tests.unit.dialects_app.chat_completions.journals import complete as completed
from tests.unit.dialects_app.turns import numbered

ANSWER = [STARTED, said("Hel"), said("lo!"), completed(), DONE]


class Heard:
    """A listener of a turn that has happened."""

    turn_id = TURN

    def __init__(self, events: Sequence[Event]) -> None:
        self._left: list[list[NumberedEvent]] = [[each] for each in numbered(events)]

    async def next(self, _: Push | None = None, /) -> Sequence[NumberedEvent] | None:
        return self._left.pop(0) if self._left else None

    def close(self) -> None: ...


class Chat:
    """Opens turns as ``InboxService`` does, and remembers how it was asked.

    Attributes:
        sessions: The sessions that are there.
        asked: The requests, with what they are known by.
        left: How often a turn was left.
        ends: Set when the turn ends.
        made_meanwhile: Whether somebody makes a session as soon as it was not found.
    """

    when_busy = "refuse"

    def __init__(self, events: Sequence[Event] = ANSWER, error: Exception | None = None) -> None:
        self.sessions: set[str] = set()
        self.made_meanwhile = False
        self.asked: list[tuple[ChatRequest, Any]] = []
        self.left = 0
        self.ends = asyncio.Event()
        self.ends.set()
        self._events = events
        self._error = error

    async def open(self, request: ChatRequest, key: Any, *, identity: Any, **_: Any) -> OpenTurn:
        self.asked.append((request, identity))
        if request.session_id is not None and request.new is None:
            self.get(request.session_id)
        elif request.session_id in self.sessions:
            raise SessionExists(request.session_id)
        if self._error is not None and self._events:
            raise self._error
        made = request.new.session_id if request.new is not None else request.session_id
        self.sessions.add(made or "")
        return OpenTurn(
            session_id=made or "",
            turn_id=TURN,
            listener=Heard(self._events),
            committed=self._committed,
            finished=self._finished,
            leave=self._leave,
        )

    def get(self, session_id: str) -> Session:
        if session_id not in self.sessions:
            if self.made_meanwhile:
                self.sessions.add(session_id)
            raise SessionNotFound(session_id)
        return make_session(session_id, "qwen3:14b", now="1")

    async def _committed(self) -> None:
        if self._error is not None:
            raise self._error

    async def _finished(self) -> Outcome:
        await self.ends.wait()
        return Outcome(error=self._error)  # type: ignore[arg-type]

    def _leave(self) -> None:
        self.left += 1


class Models:
    """A catalogue of models, one of which can be made to call tools."""

    def resolve(self, name: str) -> Any:
        return self, name

    def recall(self, name: str) -> ModelInfo:
        return ModelInfo(
            name=name, size_mb=0, provider="openai" if name == "forcible" else "ollama"
        )


class NoFiles:
    """Stores nothing."""

    async def keep(self, messages: Any, files: Any) -> Any:
        assert not files
        return {}


async def ask(
    chat: Chat, *messages: Any, manner: RequestContext | None = None, **fields: Any
) -> Any:
    body = body_of(*messages, **fields)
    manner = manner or RequestContext()
    services: Any = {"inbox": chat, "sessions": chat, "models": Models(), "files": NoFiles()}
    return await Completions(**services).answer(body, manner)


async def test_who_leaves_while_the_answer_is_made_leaves_the_turn():
    chat = Chat()
    chat.ends.clear()
    asking = asyncio.create_task(ask(chat))
    while not chat.asked:
        await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert chat.left == 1


@pytest.mark.parametrize("streams", [False, True])
async def test_a_turn_that_ended_before_its_first_event_is_a_plain_error(streams):
    chat = Chat([], ValidationFailed("No.", field="think"))
    with pytest.raises(ValidationFailed) as raised:
        await ask(chat, stream=streams)
    assert raised.value.details["field"] == "reasoning_effort"
    assert chat.left == 1


async def test_a_request_is_known_by_what_was_sent_streamed_or_not():
    chat = Chat()
    await ask(chat)
    await ask(chat, stream=True, stream_options={"include_usage": True})
    await ask(chat, temperature=1)
    whole, streamed, other = (msgspec.json.encode(known) for _, known in chat.asked)
    assert whole == streamed != other


async def test_first_messages_of_a_chat_that_come_at_once_are_of_one_session():
    chat = Chat()
    chat.made_meanwhile = True
    await ask(chat, stream=True, manner=RequestContext(chat_id="c1"))
    assert [request.new is None for request, _ in chat.asked] == [False, True]
    assert len({request.session_id for request, _ in chat.asked}) == 1
