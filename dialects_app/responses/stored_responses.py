"""Reads, streams again, cancels and deletes stored responses."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from chat.errors import NoActiveTurn
from chat.http.event_stream import EventStream
from chat.service import ChatService, SessionSpace
from chat.stream.numbered_event import NumberedEvent
from dialects_app.responses.errors import ResponseNotFound, ResponseNotStreamable
from dialects_app.responses.output_items import Item
from dialects_app.responses.projector import ResponseProjector
from dialects_app.responses.record import ResponseRecord
from dialects_app.responses.resource import Resource, ResponseDeletedOut
from dialects_app.responses.saved_turn import (
    SavedTurn,
    empty_turn,
    find_turn,
    input_of,
    saved_resource,
    turns_of,
)
from dialects_app.responses.store import ResponseStore
from dialects_app.shared.ids import ResponseId, read_response_id
from dialects_app.shared.shown_calls import questions_of
from dialects_app.shared.streams import follow_turn
from sessions_app.errors import MochiError, SessionBusy, SessionNotFound
from sessions_app.service import SessionManager
from sessions_app.session import Session


class _Place(NamedTuple):
    """The location of a response, and its record."""

    name: str
    id: ResponseId
    space: SessionSpace
    store: ResponseStore
    record: ResponseRecord | None


class StoredResponses(msgspec.Struct, frozen=True, kw_only=True):
    """Finds responses by id, of all processes, running or not.

    Attributes:
        chat: Has the space of a session, saved or not.
        sessions: The saved sessions.
    """

    chat: ChatService
    sessions: SessionManager

    async def get(self, name: str) -> Resource:
        """Return the current response, from its events or else from its session.

        Raises:
            ResponseNotFound: There is no such response.
        """
        place = await self._find(name)
        events = await self._events(place)
        if events is not None:
            return await asyncio.to_thread(_projected, place, events)
        turn = await self._saved(place)
        end = await asyncio.to_thread(place.store.end, *place.id)
        record = place.record or ResponseRecord()
        return saved_resource(turn, record, end, questions=await self._questions(place))

    async def stream(self, name: str, *, after: int = -1) -> EventStream:
        """Stream a response, whose turn does not depend on its first client.

        Args:
            name: The response.
            after: The number of the client's last event.

        Raises:
            ResponseNotFound: There is no such response.
            ResponseNotStreamable: Its events were deleted.
        """
        place = await self._find(name)
        try:
            listener = await place.space.turns.listen(*place.id)
        except SessionNotFound as missing:
            raise ResponseNotFound(name) from missing
        if listener is None:
            await self._saved(place)
            raise ResponseNotStreamable(name)
        record = place.record or ResponseRecord()
        return follow_turn(listener, ResponseProjector(*place.id, record, after=after))

    async def cancel(self, name: str) -> Resource:
        """Stop a response and return it; does not change a response that has ended.

        Raises:
            ResponseNotFound: There is no such response.
        """
        place = await self._find(name)
        try:
            await place.space.turns.cancel(*place.id)
        except NoActiveTurn:
            pass
        except SessionNotFound as missing:
            raise ResponseNotFound(name) from missing
        return await self.get(name)

    async def delete(self, name: str) -> ResponseDeletedOut:
        """Delete a response, and a session that was created for it and has no other turn.

        Raises:
            ResponseNotFound: There is no such response.
            SessionBusy: It is running.
        """
        place = await self._find(name)
        session_id, turn_id = place.id
        await self.input_items(name)  # it exists
        active = await place.space.turns.active(session_id)
        if active is not None and active.turn_id == turn_id:
            raise SessionBusy(session_id, turn_id)
        await asyncio.to_thread(self._forget, place)
        return ResponseDeletedOut(id=name)

    async def input_items(self, name: str) -> Sequence[Item]:
        """Return the input items of a response, oldest first.

        Raises:
            ResponseNotFound: There is no such response.
        """
        place = await self._find(name)
        is_begun = await self._events(place) is not None
        turn = await self._saved(place, is_known=is_begun)
        forms_in = place.store.forms_in(place.id.session_id)
        questions = await self._questions(place)
        return await asyncio.to_thread(input_of, turn, questions=questions, forms_in=forms_in)

    async def _find(self, name: str) -> _Place:
        named = read_response_id(name)
        if named is None:
            raise ResponseNotFound(name)
        space = await self.chat.space_with(named.session_id)
        store = ResponseStore(space.records)
        if await asyncio.to_thread(store.is_deleted, *named):
            raise ResponseNotFound(name)
        record = await asyncio.to_thread(store.known_record, *named)
        return _Place(name, named, space, store, record)

    async def _events(self, place: _Place) -> Sequence[NumberedEvent] | None:
        """Return the events of a response so far; None if they were deleted or never existed."""
        space = place.space
        try:
            events = await space.remote.events(*place.id)
            if events:
                return events
            active = await space.turns.active(place.id.session_id)
        except SessionNotFound as missing:
            raise ResponseNotFound(place.name) from missing
        is_starting = active is not None and active.turn_id == place.id.turn_id
        return () if is_starting else None

    async def _saved(self, place: _Place, *, is_known: bool = False) -> SavedTurn:
        """Return the messages of a response's turn in its session, if any."""
        session_id, turn_id = place.id
        try:
            session = await asyncio.to_thread(place.space.repository.load, session_id)
        except SessionNotFound as missing:
            raise ResponseNotFound(place.name) from missing
        turn = find_turn(session, turn_id)
        if turn is not None:
            return turn
        if not is_known and place.record is None:
            raise ResponseNotFound(place.name)
        return empty_turn(session, turn_id)

    async def _questions(self, place: _Place) -> Mapping[str, str]:
        try:
            pending = await place.space.confirmations.pending(place.id.session_id)
        except MochiError:  # deleted meanwhile; what is left can be shown
            return {}
        return questions_of(pending)

    def _forget(self, place: _Place) -> None:
        session_id, turn_id = place.id
        record = place.record
        is_first = (
            record is not None
            and record.echo.get("conversation") is None
            and record.echo.get("previous_response_id") is None
            and record.echo.get("store", True)
        )

        def require_nothing_else(session: Session) -> None:
            if not _is_all_there_is(session, turn_id):
                raise _HasMore

        if is_first:
            with suppress(_HasMore):
                self.sessions.delete(session_id, check=require_nothing_else)
                return
        place.store.delete(session_id, turn_id)


class _HasMore(Exception):
    """The session has more than the response to delete."""


def _is_all_there_is(session: Session, turn_id: str) -> bool:
    """Return whether a session has only one turn, and no added items."""
    is_last = not session.messages or session.messages[-1].turn_id == turn_id
    return is_last and turns_of(session) <= {turn_id}


def _projected(place: _Place, events: Sequence[NumberedEvent]) -> Resource:
    """Return a response after these events, without encoding any."""
    projector = ResponseProjector(*place.id, place.record or ResponseRecord(), after=sys.maxsize)
    projector.feed(events)
    return projector.resource()
