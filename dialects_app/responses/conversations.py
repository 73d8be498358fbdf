"""Converts sessions to conversations, and their messages to items. Blocks."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from dialects_app.responses.errors import ConversationNotFound, ItemNotFound
from dialects_app.responses.items import FindItem, ParsedInput, parse_input, referenced_sessions
from dialects_app.responses.output_items import Item
from dialects_app.responses.pages import ItemPage, whole_page
from dialects_app.responses.resource import seconds_of
from dialects_app.responses.saved_items import NO_QUESTIONS, items_of
from dialects_app.responses.store import ResponseStore
from dialects_app.shared.attaching import NO_FILES
from dialects_app.shared.fields import refuse
from dialects_app.shared.files import with_files
from dialects_app.shared.ids import ItemId, conversation_id, read_conversation_id, read_item_id
from dialects_app.shared.labels import Labels, read_labels
from sessions_app.calls import distinct_calls
from sessions_app.edits import with_history
from sessions_app.errors import SessionNotFound
from sessions_app.ids_and_clock import new_session_id, utc_now
from sessions_app.messages import AssistantMessage, Attachment, Message, ToolMessage
from sessions_app.service import SessionManager
from sessions_app.session import (
    Session,
    append_messages,
    make_session,
    with_messages,
    with_metadata,
)

MOST_AT_ONCE = 20
"""Items that one request may add."""

NO_MODEL = "none"
"""The model of a conversation that no response has been made in: each response names one."""

KeptFiles = Mapping[str, Attachment]
"""Images and files that were kept, by where they stand in the request."""

_CALLS = frozenset({"fc", "ctc", "mcp"})
Items = Annotated[Sequence[Mapping[str, Any]], Meta(max_length=MOST_AT_ONCE)]
"""Items as those of a response's ``input``."""


class ConversationIn(msgspec.Struct, kw_only=True):
    """The request for a new conversation.

    Attributes:
        items: Its first items, at most 20.
        metadata: Up to 16 pairs of strings.
    """

    items: Items | None = None
    metadata: Labels = None


class LabelsIn(msgspec.Struct, kw_only=True):
    """The new metadata of a conversation; null removes it."""

    metadata: Labels


class ItemsIn(msgspec.Struct, kw_only=True):
    """Items to add to a conversation, at most 20."""

    items: Items


class ConversationOut(msgspec.Struct, kw_only=True):
    """A conversation: a session.

    Attributes:
        id: Its id.
        object: The type of the object.
        created_at: When it was created, in seconds since 1970.
        metadata: Up to 16 pairs of strings.
    """

    id: str
    object: str = "conversation"
    created_at: int
    metadata: Mapping[str, Any]


class ConversationDeletedOut(msgspec.Struct, kw_only=True):
    """Confirms the deletion of a conversation."""

    id: str
    object: str = "conversation.deleted"
    deleted: bool = True


def session_of(name: str, *, field: str | None = None) -> str:
    """Return the session of a conversation's id.

    Raises:
        ConversationNotFound: It is not an id of a conversation.
    """
    session_id = read_conversation_id(name)
    if session_id is None:
        raise ConversationNotFound(name, field=field)
    return session_id


@contextmanager
def _session_named(name: str) -> Iterator[str]:
    """Provide the session of a conversation's id; raise ``ConversationNotFound`` without one."""
    try:
        yield session_of(name)
    except SessionNotFound as missing:
        raise ConversationNotFound(name) from missing


class Conversations:
    """Creates, returns, changes and deletes conversations.

    Args:
        sessions: The sessions.
        store: The records of the responses in them.
        model: The model of new conversations, until a response names another one.
    """

    def __init__(
        self, sessions: SessionManager, store: ResponseStore, *, model: str | None = None
    ) -> None:
        self._sessions = sessions
        self._store = store
        self._model = model or NO_MODEL

    def given(self, items: Any) -> ParsedInput | None:
        """Return the messages of items, whose images and files must be stored first.

        Raises:
            ValidationFailed, ItemNotFound: For an item.
        """
        parsed = None if items is None else self._parsed(items, history=None)
        return parsed if parsed is not None and parsed.files else None

    def create(self, body: ConversationIn, files: KeptFiles = NO_FILES) -> ConversationOut:
        """Create a conversation.

        Args:
            body: Its first items and metadata.
            files: Its stored images and files, by their paths in ``given``.

        Raises:
            ValidationFailed, ItemNotFound: For its items or metadata.
        """
        labels = read_labels(body.metadata)
        messages = [] if body.items is None else self._read(body.items, history=(), files=files)
        now = utc_now()
        session = make_session(new_session_id(), self._model, now=now, metadata=labels or None)
        return _conversation_out(self._sessions.keep_new(with_messages(session, messages, now=now)))

    def get(self, name: str) -> ConversationOut:
        """Return a conversation."""
        return _conversation_out(self._load(name))

    def set_labels(self, name: str, body: LabelsIn) -> ConversationOut:
        """Replace the metadata of a conversation; null removes it."""
        labels = read_labels(body.metadata)

        def change(session: Session) -> Session:
            return with_metadata(session, now=utc_now(), metadata=labels or None)

        with _session_named(name) as session_id:
            return _conversation_out(self._sessions.repository.update(session_id, change))

    def delete(self, name: str) -> ConversationDeletedOut:
        """Delete a conversation and everything in it.

        Raises:
            SessionBusy: A response is running in it.
        """
        with _session_named(name) as session_id:
            self._sessions.delete(session_id)
        return ConversationDeletedOut(id=name)

    def items(self, name: str, *, questions: Mapping[str, str] = NO_QUESTIONS) -> Sequence[Item]:
        """Return all items of a conversation, oldest first.

        Args:
            name: The conversation.
            questions: The pending confirmations, by call id.
        """
        return self._items(self._load(name), questions)

    def item(
        self, name: str, item_name: str, *, questions: Mapping[str, str] = NO_QUESTIONS
    ) -> Item:
        """Return one item of a conversation.

        Raises:
            ItemNotFound: There is no such item.
        """
        found = [item for item in self.items(name, questions=questions) if item["id"] == item_name]
        if not found:
            raise ItemNotFound(item_name)
        return found[-1]

    def add(self, name: str, body: ItemsIn, files: KeptFiles = NO_FILES) -> ItemPage:
        """Append items to a conversation, and return them.

        Args:
            name: The conversation.
            body: The items.
            files: Their stored images and files, by their paths in ``given``.

        Raises:
            SessionBusy: A response is running in it.
            ValidationFailed, ItemNotFound: For an item.
        """
        before: set[str] = set()

        def change(session: Session) -> Session:
            before.clear()
            before.update(each["id"] for each in self._items(session))
            messages = self._read(body.items, history=session.messages, files=files)
            return append_messages(session, *messages, now=utc_now())

        with _session_named(name) as session_id:
            session = self._sessions.change(session_id, change)
        return whole_page([item for item in self._items(session) if item["id"] not in before])

    def remove(self, name: str, item_name: str) -> ConversationOut:
        """Remove an item, and a call's result with the call.

        Raises:
            SessionBusy: A response is running in it.
            ItemNotFound: There is no such item.
        """
        remove = partial(without_item, item_name=item_name)
        with _session_named(name) as session_id:
            return _conversation_out(self._sessions.remove(session_id, remove))

    def finder(self, value: Any) -> FindItem:
        """Return a function that finds saved items by id, for references in an input."""
        saved: dict[str, Item] = {}
        for session_id in referenced_sessions(value):
            try:
                session = self._sessions.get(session_id)
            except SessionNotFound:
                continue
            saved |= {item["id"]: item for item in self._items(session)}
        return saved.get

    def _items(
        self, session: Session, questions: Mapping[str, str] = NO_QUESTIONS
    ) -> Sequence[Item]:
        return items_of(
            session.messages,
            session.session_id,
            questions=questions,
            forms_in=self._store.forms_in(session.session_id),
        )

    def _read(
        self, value: Any, *, history: Sequence[Message], files: KeptFiles
    ) -> Sequence[Message]:
        return with_files(self._parsed(value, history=history).messages, files)

    def _parsed(self, value: Any, *, history: Sequence[Message] | None) -> ParsedInput:
        parsed = parse_input(
            value, history=history, find=self.finder(value), field="items", is_whole=False
        )
        if parsed.approvals:
            refuse(
                parsed.approvals[0].path,
                "An approval is given with the next response: send it in its 'input'.",
            )
        return parsed

    def _load(self, name: str) -> Session:
        with _session_named(name) as session_id:
            return self._sessions.get(session_id)


def without_item(session: Session, item_name: str) -> Session:
    """Return the session without an item, and without summaries and a title that tell of it.

    Raises:
        ItemNotFound: There is no such item.
    """
    named = read_item_id(item_name)
    if named is None or named.session_id != session.session_id or named.kind == "mcpr":
        raise ItemNotFound(item_name)
    history = distinct_calls(session.messages)
    left = [_without(named, message) for message in history]
    changed = [at for at, message in enumerate(history) if left[at] is not message]
    if not changed:
        raise ItemNotFound(item_name)
    messages = [message for message in left if message is not None]
    places = range(changed[0], changed[-1] + 1)
    return with_history(session, messages, places, now=utc_now())


def _without(item: ItemId, message: Message) -> Message | None:
    """Return a message without an item, and as it is if it has no such item."""
    if isinstance(message, AssistantMessage):
        return _without_part(message, item.kind, item.name)
    return None if _is_shown_by(message, item) else message


def _is_shown_by(message: Message, item: ItemId) -> bool:
    """Return whether an item is a whole message (not the model's), or the result of a call."""
    if item.kind in _CALLS:
        return isinstance(message, ToolMessage) and message.tool_call_id == item.name
    return item.kind in {"msg", "fco", "ctco"} and message.message_id == item.name


def _without_part(message: AssistantMessage, kind: str, name: str) -> AssistantMessage | None:
    """Return an answer without its text, its reasoning or a call; None if it is empty then."""
    left = message
    if kind in _CALLS:
        calls = tuple(
            call
            for call in message.tool_calls
            if call.id != name or call.client_side == (kind == "mcp")
        )
        if len(calls) != len(message.tool_calls):
            left = msgspec.structs.replace(message, tool_calls=calls)
    elif message.message_id == name and kind == "rs" and message.thinking:
        left = msgspec.structs.replace(message, thinking=None)
    elif message.message_id == name and kind == "msg" and message.content:
        left = msgspec.structs.replace(message, content="")
    says_something = left.content or left.thinking or left.tool_calls
    return left if left is message or says_something else None


def _conversation_out(session: Session) -> ConversationOut:
    labels = session.metadata.metadata
    return ConversationOut(
        id=conversation_id(session.session_id),
        created_at=seconds_of(session.metadata.created_at),
        metadata=labels if isinstance(labels, Mapping) else {},
    )
