"""Converts input items to session messages and decisions about approvals. Pure.

Clients send back our output items, whole or by id, with their new input. So all items made by
``saved_items.py`` are accepted and converted back to their messages, except ids, times, and the
round of calls without text in between.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from dialects_app.responses.content import read_each, shown, text_of, texts_and_files_of
from dialects_app.responses.errors import ItemNotFound
from dialects_app.responses.item_calls import (
    ApprovalAnswer,
    approval_of,
    call_of,
    client_call_of,
    outcome_of,
    server_call_id,
)
from dialects_app.responses.rounds import PHASE, Outcome, Round
from dialects_app.shared.fields import refuse, required
from dialects_app.shared.files import GivenFile
from dialects_app.shared.ids import read_item_id
from dialects_app.shared.sealed import Unsealer
from dialects_app.shared.transcript_merging import own_words
from sessions_app.calls import open_calls
from sessions_app.ids_and_clock import new_message_id, utc_now
from sessions_app.messages import (
    NO_EXTRA,
    Attachment,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

Item = Mapping[str, Any]
FindItem = Callable[[str], Item | None]
"""Returns the saved item with an id; None if there is none."""

MOST_ITEMS = 10_000
_LONGEST_TYPE = 64
_RECORD_MARK = "mochi.record:"
"""Begins the content of a record of release 0.2, which was not sealed."""
_BEFORE_RECORD = "(A record of the conversation so far, of which the answers are left out:)"


class ParsedInput(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed input of a request.

    Attributes:
        messages: The messages, oldest first: a message, outputs of calls, or a whole history.
        approvals: Decisions about calls without a result in the input.
        new_from: The index in ``messages`` after the last answer and its calls: the new messages
            of a session that has the rest. Outputs of client calls are new.
        files: The images and files that the messages refer to, which must be stored first.
        left_out: A sentence for each item that was left out, beginning with its path.
        words: What a person said, without what the client added, by the ids of messages.
    """

    messages: Sequence[Message]
    approvals: Sequence[ApprovalAnswer]
    new_from: int
    files: Sequence[GivenFile] = ()
    left_out: Sequence[str] = ()
    words: Mapping[str, str] = NO_EXTRA


def referenced_sessions(value: Any) -> set[str]:
    """Return the sessions of items referred to by id; see ``parse_input``."""
    if not isinstance(value, list):
        return set()
    named = [
        read_item_id(item["id"])
        for item in value
        if isinstance(item, dict) and _is_reference(item) and isinstance(item.get("id"), str)
    ]
    return {each.session_id for each in named if each is not None}


def parse_input(
    value: Any,
    *,
    history: Sequence[Message] | None = None,
    find: FindItem = lambda _: None,
    field: str = "input",
    is_whole: bool = True,
) -> ParsedInput:
    """Parse the input of a request.

    Args:
        value: A text, or a list of items.
        history: The earlier messages of the session. Outputs must belong to its open calls or to
            calls in the input. None if the session was not read: any outputs are accepted.
        find: Finds items by id.
        field: The parameter's name, for errors.
        is_whole: Whether it is the input of a response. Then every call needs an output: a client's
            call must have one; a call of the server gets one that says it was interrupted. Items of
            unknown types are left out instead of being refused.

    Raises:
        MissingToolResult: A client's call has no output.
        ValidationFailed: An item is invalid; ``details.field`` is its path.
        ItemNotFound: A referenced item does not exist.
    """
    if isinstance(value, str):
        value = [{"role": "user", "content": value}]
    if not isinstance(value, list):
        refuse(field, f"Invalid type for '{field}': expected a string or a list of items.")
    if len(value) > MOST_ITEMS:
        refuse(field, f"An input has no more than {MOST_ITEMS:,} items.")
    reader = _Reader(history, find, leaves_out=is_whole)
    said = [at for at, each in enumerate(value) if _role_of(each) == "user"]
    for at, item in enumerate(value):
        if at == (said[-1] if said else 0):  # what a person says ends the tool loop
            reader.reasons = reader.records
        reader.read(item, f"{field}[{at}]")
    return reader.parsed(field if is_whole else None)


class _Reader:
    """Parses items in order; a round stays open until an item of another round."""

    def __init__(
        self, history: Sequence[Message] | None, find: FindItem, *, leaves_out: bool
    ) -> None:
        self._find = find
        self._leaves_out = leaves_out
        self._left_out: list[str] = []
        self._left_out_calls: set[str] = set()
        self._history_calls = (
            None if history is None else {call.id: call for call in open_calls(history)}
        )
        self._entries: list[Round | Message] = []
        self._round: Round | None = None
        self._calls: dict[str, Round] = {}
        self._approvals: dict[str, ApprovalAnswer] = {}
        self._referred: set[str] = set()
        self._open_questions: dict[str, str] = {}
        self._files: list[GivenFile] = []
        self._words: dict[str, str] = {}
        self._now = utc_now()
        self.records = Unsealer()
        self.reasons = Unsealer(room=0)

    def read(self, item: Any, path: str) -> None:
        """Parse the next item."""
        if not isinstance(item, dict):
            refuse(path, "An item is an object.")
        if _is_reference(item):
            self._refer(item, path)
            return
        kind = "message" if item.get("type") is None else item["type"]
        read = _READERS.get(kind) if isinstance(kind, str) else None
        if read is not None:
            read(self, item, path)
        elif self._leaves_out and isinstance(kind, str):
            self._leave_out(item, path)
        else:
            refuse(f"{path}.type", f"Items of the type {shown(kind)} are not taken.")

    def parsed(self, needs_outputs: str | None) -> ParsedInput:
        """Return the result; errors about missing outputs name the parameter."""
        for name, path in self._open_questions.items():  # the AI SDK refers to what it answers
            if name not in self._approvals:
                raise ItemNotFound(name, field=path)
        messages: list[Message] = []
        new_from = 0
        for entry in self._entries:
            if not isinstance(entry, Round):
                messages.append(entry)
                continue
            if entry.is_empty:
                continue
            if needs_outputs is not None:
                entry.require_outputs(needs_outputs)
                entry.give_up_questions()
            messages += entry.messages(self._now)
            new_from = len(messages)
        return ParsedInput(
            messages=messages,
            approvals=tuple(self._approvals.values()),
            new_from=new_from,
            files=self._files,
            left_out=tuple(self._left_out),
            words=self._words,
        )

    # Items

    def _leave_out(self, item: Item, path: str, reason: str = "is not taken") -> None:
        """Leave an item out, and the output of its call with it."""
        self._left_out.append(f"{path}: {item['type'][:_LONGEST_TYPE]} {reason}")
        if isinstance(call_id := item.get("call_id"), str):
            self._left_out_calls.add(call_id)

    def _refer(self, item: Item, path: str) -> None:
        """Parse a referenced item; the AI SDK may refer twice to a call that ran here."""
        name = required(item, "id", path)
        if name in self._referred:
            return
        self._referred.add(name)
        found = self._find(name)
        if found is not None:
            self.read(found, path)
            return
        named = read_item_id(name)
        if named is None or named.kind != "mcpr":
            raise ItemNotFound(name, field=path)
        self._open_questions[name] = path

    def message(self, item: Item, path: str) -> None:
        role = required(item, "role", path)
        if role == "assistant":
            text = text_of(item.get("content"), f"{path}.content", between="")
            self._say().add_text(text, item.get(PHASE))
            return
        if role not in ("user", "system", "developer"):
            refuse(
                f"{path}.role",
                f"Invalid value: {shown(role)}. Supported values are: 'assistant', 'system', "
                "'developer', and 'user'.",
            )
        self._round = None
        self._entries.append(self._sent_message(role, item.get("content"), f"{path}.content"))

    def _sent_message(self, role: str, content: Any, path: str) -> UserMessage | SystemMessage:
        identity: dict[str, Any] = {"message_id": new_message_id(), "timestamp": self._now}
        if role != "user":
            return SystemMessage(content=text_of(content, path), **identity)
        texts, attachments = self._with_files(content, path)
        self._words[identity["message_id"]] = "\n".join(own_words(texts))
        return UserMessage(content="\n".join(texts), attachments=attachments, **identity)

    def _with_files(self, content: Any, path: str) -> tuple[Sequence[str], tuple[Attachment, ...]]:
        """Return texts, and placeholders for their images and files, which are recorded."""
        texts, files = texts_and_files_of(content, path)
        self._files += files
        return texts, tuple(file.placeholder() for file in files)

    def reasoning(self, item: Item, path: str) -> None:
        texts = [
            *read_each(item.get("summary"), f"{path}.summary", _text),
            *read_each(item.get("content"), f"{path}.content", _text),
        ]
        sealed = item.get("encrypted_content")
        text = self.reasons.open(sealed) if isinstance(sealed, str) else None
        self._say().thinking += filter(None, texts if text is None else [text])

    def function_call(self, item: Item, path: str) -> None:
        self._ask(client_call_of(item, path, is_custom=False), path)

    def custom_tool_call(self, item: Item, path: str) -> None:
        self._ask(client_call_of(item, path, is_custom=True), path)

    def function_call_output(self, item: Item, path: str) -> None:
        call_id = required(item, "call_id", path)
        if call_id in self._left_out_calls:
            return
        texts, attachments = self._with_files(item.get("output"), f"{path}.output")
        asked_by = self._calls.get(call_id)
        if asked_by is not None:
            asked_by.results.setdefault(call_id, Outcome("\n".join(texts), attachments=attachments))
            asked_by.closed = True
            return
        self._entries.append(
            ToolMessage(
                content="\n".join(texts),
                attachments=attachments,
                tool_call_id=call_id,
                tool_name=self._called(call_id, path),
                message_id=new_message_id(),
                timestamp=self._now,
            )
        )

    def mcp_call(self, item: Item, path: str) -> None:
        asked = item.get("approval_request_id")
        if isinstance(asked, str) and asked in self._calls:
            self._approvals.pop(asked, None)
            self._keep(asked, outcome_of(item, path))
            return
        call = call_of(item, server_call_id(item, path), path)
        self._ask(call, path)
        self._keep(call.id, outcome_of(item, path))

    def mcp_approval_request(self, item: Item, path: str) -> None:
        self._ask(call_of(item, required(item, "id", path), path), path)

    def mcp_approval_response(self, item: Item, path: str) -> None:
        self._approvals[required(item, "approval_request_id", path)] = approval_of(item, path)

    def compaction(self, item: Item, path: str) -> None:
        """Read the record of an earlier part, which stands in its place."""
        content = required(item, "encrypted_content", path)
        record = self.records.open(content)
        if record is None and content.startswith(_RECORD_MARK):
            record = content.removeprefix(_RECORD_MARK)
        if record is None:
            if not self._leaves_out:
                refuse(
                    f"{path}.encrypted_content",
                    "Another server wrote this record: send the messages that it stands for.",
                )
            self._leave_out(item, path, "is of another server")
            return
        self._round = None
        message = self._sent_message("user", f"{_BEFORE_RECORD}\n\n{record}", path)
        self._words[message.message_id] = ""
        self._entries.append(message)

    def nothing(self, item: Item, path: str) -> None:
        """Ignore a list of tools: it is created for each turn, or read with the others."""

    # Rounds

    def _keep(self, call_id: str, outcome: Outcome | None) -> None:
        if outcome is not None:
            self._calls[call_id].results[call_id] = outcome

    def _say(self) -> Round:
        """Return a round that has only reasoning so far."""
        self._approvals.clear()  # it has gone on since
        return self._answer(fits=lambda each: not (each.text or each.calls))

    def _answer(self, fits: Callable[[Round], bool]) -> Round:
        """Return the open round if the item belongs to it, else a new one."""
        if self._round is None or not fits(self._round):
            self._round = Round()
            self._entries.append(self._round)
        return self._round

    def _ask(self, call: ToolCall, path: str) -> None:
        """Add a call to the open round, unless outputs of the client followed.

        Some models restart their numbering of calls in every round.
        """
        before = self._calls.get(call.id)
        is_open = before is not None and before is self._round and not before.closed
        if before is not None and (is_open or call.id not in before.results):
            refuse(path, f"Two calls have the id {shown(call.id)}.")
        asked_by = self._answer(fits=lambda each: not each.closed)
        asked_by.calls.append(call)
        self._calls[call.id] = asked_by

    def _called(self, call_id: str, path: str) -> str:
        """Return the tool of a call in the history; "" if the history was not read."""
        if self._history_calls is None:
            return ""
        call = self._history_calls.pop(call_id, None)
        if call is None:
            refuse(
                f"{path}.call_id",
                f"No tool call found for function call output with call_id {call_id[:100]}.",
                tool_call_id=call_id,
            )
        return call.name


def _role_of(item: Any) -> object:
    return item.get("role") if isinstance(item, dict) else None


def _is_reference(item: Item) -> bool:
    """Return whether an item is a reference by id; the type is optional."""
    return item.get("type") == "item_reference" or (
        item.get("type") is None and "role" not in item and "id" in item
    )


def _text(part: Item, path: str) -> str:
    return required(part, "text", path)


_READERS: Mapping[str, Callable[[_Reader, Item, str], None]] = {
    "message": _Reader.message,
    "reasoning": _Reader.reasoning,
    "function_call": _Reader.function_call,
    "function_call_output": _Reader.function_call_output,
    "mcp_call": _Reader.mcp_call,
    "mcp_approval_request": _Reader.mcp_approval_request,
    "mcp_approval_response": _Reader.mcp_approval_response,
    "custom_tool_call": _Reader.custom_tool_call,
    "custom_tool_call_output": _Reader.function_call_output,
    "mcp_list_tools": _Reader.nothing,
    "additional_tools": _Reader.nothing,
    "compaction": _Reader.compaction,
}
