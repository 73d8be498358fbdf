"""Recalls saved conversations: three built-in tools that search and read (docs/decisions/0171)."""

import asyncio
from collections.abc import Callable, Collection, Sequence

import msgspec

from sessions_app.context_state import left_out
from sessions_app.decoding import convert_to
from sessions_app.edits import index_of
from sessions_app.errors import MochiError, SessionNotFound
from sessions_app.messages import Message, ToolSpec
from sessions_app.session import Session
from tools_app.errors import ArgumentsInvalid, ToolNotFound
from tools_app.recall.arguments import (
    ARGUMENTS,
    SEARCH,
    SPECS,
    ExpandSummary,
    ReadConversation,
    RecallArguments,
    SearchConversations,
)
from tools_app.recall.record import (
    MOST_BYTES,
    conversation_record,
    is_readable,
    is_record,
    matches_record,
)
from tools_app.recall.search import ConversationMatch, ConversationSearch
from tools_app.toolset import (
    InvalidTool,
    Tool,
    ToolInvocation,
    ToolListing,
    ToolResult,
    ToolSelection,
)

GROUP = "recall"
BYTES_PER_TOKEN = 3
"""Of records: ids take more tokens than words do."""
_NO_SEARCH = InvalidTool(
    name=SEARCH, file="built-in", reason="This server runs without the app that searches."
)


class RecallTools:
    """A toolset that searches and reads saved conversations, and changes nothing.

    Args:
        read: Returns a saved session, with all its messages; blocks.
        search: Searches in them; None without an app that does.
    """

    def __init__(self, read: Callable[[str], Session], search: ConversationSearch | None) -> None:
        self._read = read
        self._search = search
        names = [name for name in SPECS if search is not None or name != SEARCH]
        self._listing = ToolListing(
            tools={name: _tool(SPECS[name]) for name in names},
            groups={GROUP: names},
            invalid=[_NO_SEARCH] if search is None else (),
        )

    async def listing(self, selection: ToolSelection | None = None) -> ToolListing:  # noqa: ARG002
        """Return the tools, whatever is selected: that takes nothing."""
        return self._listing

    async def call_tool(self, invocation: ToolInvocation) -> ToolResult:
        """Search or read, on behalf of the invocation's session if it has one.

        Raises:
            ToolNotFound: Another tool is called.
        """
        if invocation.name not in self._listing.tools:
            raise ToolNotFound(invocation.name)
        tokens = invocation.result_tokens
        most = MOST_BYTES if tokens is None else min(tokens * BYTES_PER_TOKEN, MOST_BYTES)
        try:
            given = convert_to(invocation.arguments, ARGUMENTS[invocation.name])
            text = await self._answer(given, invocation.session_id, most)
        except msgspec.ValidationError as error:
            return _failed(ArgumentsInvalid([f"{error}."]))
        except MochiError as error:
            return _failed(error)
        return ToolResult(success=True, result=text)

    async def _answer(self, given: RecallArguments, own: str, most_bytes: int) -> str:
        if not isinstance(given, SearchConversations):
            return await asyncio.to_thread(self._part, given, own, most_bytes)
        if self._search is None:
            raise ToolNotFound(SEARCH)
        matches, is_complete = await self._search.search(given, _Acceptance(self._read, own))
        text = matches_record(matches, most_bytes=most_bytes) if matches else "Nothing was found."
        return text if is_complete else f"{text}\nNot everything was searched yet."

    def _part(self, given: ExpandSummary, own: str, most_bytes: int) -> str:
        session = self._session(given.session_id or "", own)
        messages = session.messages
        if not isinstance(given, ReadConversation):
            messages = left_out(session.metadata.context_state, messages)
            if not messages:
                return "Nothing is left out of this conversation's context."
        messages = [message for message in messages if is_readable(message)]
        start = len(messages) if given.offset < 0 else 0
        if isinstance(given, ReadConversation) and given.message_id:
            start = index_of(messages, given.message_id)
        start = min(max(start + given.offset, 0), len(messages))
        places = range(start, min(start + given.limit, len(messages)))
        return conversation_record(session.session_id, messages, places, most_bytes=most_bytes)

    def _session(self, session_id: str, own: str) -> Session:
        if not (session_id or own):
            raise ArgumentsInvalid(["session_id is missing."])
        try:
            return self._read(session_id or own)
        except SessionNotFound:
            if session_id:
                raise
            raise ArgumentsInvalid(
                ["This conversation is not saved: name another one by session_id."]
            ) from None


class _Acceptance:
    """Decides which matches are shown: what is in the model's context already is not.

    Matches come session by session, so one session at a time is held.
    """

    def __init__(self, read: Callable[[str], Session], own: str) -> None:
        self._read = read
        self._own = own
        self._messages: Sequence[Message] = ()
        self._left_out: Collection[str] = ()
        self._session_id: str | None = None

    def __call__(self, match: ConversationMatch) -> bool:
        is_own = match.session_id == self._own
        if match.message_index is None:
            return not is_own
        if match.session_id != self._session_id:
            self._load(match.session_id)
        if match.message_index >= len(self._messages):
            return False  # the session has changed since it was searched
        message = self._messages[match.message_index]
        if message.message_id != match.message_id or not is_readable(message):
            return False
        return not is_record(message) and (not is_own or message.message_id in self._left_out)

    def _load(self, session_id: str) -> None:
        self._session_id, self._messages, self._left_out = session_id, (), ()
        try:
            session = self._read(session_id)
        except MochiError:  # it was deleted since, or can't be read: nothing of it is shown
            return
        self._messages = session.messages
        if session_id == self._own:
            state = session.metadata.context_state
            self._left_out = {each.message_id for each in left_out(state, session.messages)}


def _tool(spec: ToolSpec) -> Tool:
    parameters = {
        name: {"type": schema["type"], "description": schema.get("description", "")}
        for name, schema in spec.parameters["properties"].items()
    }
    return Tool(spec=spec, parameters=parameters, groups=(GROUP,), destructive=False)


def _failed(error: MochiError) -> ToolResult:
    return ToolResult(success=False, error_message=error.message, error_code=error.code)
