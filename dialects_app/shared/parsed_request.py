"""Holds what is parsed of a request that sends the whole conversation, in several protocols."""

import re
from collections.abc import Mapping, Sequence
from typing import Self, TypeVar

import msgspec
from django.http.response import HttpResponseBase
from msgspec.structs import replace

from chat.service import ChatRequest
from chat.start.turn_request import ToolChoice, TurnRequest
from dialects_app.shared.additions import SESSION_HEADER
from dialects_app.shared.files import GivenFile, with_files
from dialects_app.shared.warnings import add_warnings, notes_on_choice
from models_app.catalogue import ModelCatalogue
from sessions_app.ids_and_clock import new_message_id, utc_now
from sessions_app.inbox import WhenBusy
from sessions_app.messages import NO_EXTRA, Attachment, Message, SystemMessage, ToolSpec

COMPLETION = TurnRequest(dialect="chat_completions", approvals="deny")
_MESSAGE = re.compile(r"messages\[(\d+)\]")
_CLIENT_TOOL = re.compile(r"^client_tools\[(\d+)\]\.")
PARAMETERS = {
    "message": "messages",
    "attachments": "messages",
    "think": "reasoning_effort",
    "selected_tools": "X-Mochi-Tools",
    "client_tools": "tools",
    "session_id": "X-Mochi-Session-Id",
}
"""The names that fields of a turn's request have in this protocol."""

_TOOL = r"tools[\1].function."


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a request.

    Attributes:
        system: The text of all system messages, in order; None without any.
        messages: All others, oldest first.
        paths: Their paths in the request.
        files: The images and files that they refer to, by path.
        prompt_path: The path of the system text in the request.
    """

    system: str | None
    messages: Sequence[Message]
    paths: Sequence[str]
    files: Sequence[GivenFile] = ()
    prompt_path: str = "messages"

    def with_system_message(self) -> Self:
        """Return the conversation with its system text as the first message."""
        if self.system is None:
            return self
        prompt = SystemMessage(
            content=self.system, message_id=new_message_id(), timestamp=utc_now()
        )
        return replace(
            self,
            system=None,
            messages=(prompt, *self.messages),
            paths=(self.prompt_path, *self.paths),
        )


class RequestedTools(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a request.

    Attributes:
        client: The tools that the client runs, and that the model may call by now.
        own: Names of tools of this server; None uses those of the session, profile or agent.
        choice: The tool choice.
        left_out: A warning for each tool, or wish, that can't be had here.
    """

    client: Sequence[ToolSpec]
    own: Sequence[str] | None
    choice: ToolChoice
    left_out: Sequence[str] = ()

    @property
    def offers_some(self) -> bool:
        """Return whether the request offers tools of its own."""
        return self.choice != "none" and bool(self.client or self.own)


class RequestContext(msgspec.Struct, frozen=True, kw_only=True):
    """The headers of a request that matter here.

    Attributes:
        session_id: The session that it continues (``X-Mochi-Session-Id``).
        own_tools: Tools of this server (``X-Mochi-Tools``).
        chat_id: The chat of another program, if its chats have sessions here.
        when_busy: What to do while a turn of the session runs (``X-Mochi-When-Busy``).
        key: Its ``Idempotency-Key``.
        client: The client, if turns are limited per client.
        turn: What requests in its protocol say of the turn beside those for completions.
    """

    session_id: str | None = None
    own_tools: str | None = None
    chat_id: str | None = None
    when_busy: WhenBusy | None = None
    key: str | None = None
    client: str | None = None
    turn: TurnRequest = COMPLETION


class ParsedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed request.

    Attributes:
        chat: The turn and its session.
        model: The requested model name.
        warnings: A sentence for each thing that was left out.
        paths: The paths of the turn's messages in the request.
        files: The images and files that they refer to, which must be stored first.
        words: What a person said, without what the client added, by the ids of messages.
    """

    chat: ChatRequest
    model: str
    warnings: Sequence[str]
    paths: Sequence[str]
    files: Sequence[GivenFile] = ()
    words: Mapping[str, str] = NO_EXTRA


AnyRequest = TypeVar("AnyRequest", bound=ParsedRequest)


def with_kept_files(parsed: AnyRequest, attachments: Mapping[str, Attachment]) -> AnyRequest:
    """Return the request with its stored files, by path."""
    if not attachments:
        return parsed
    chat = parsed.chat
    turn = replace(chat.turn, messages=with_files(chat.turn.messages, attachments))
    return replace(parsed, chat=replace(chat, turn=turn))


def name_of_field(
    field: str,
    paths: Sequence[str] = (),
    *,
    names: Mapping[str, str] = PARAMETERS,
    tool: str = _TOOL,
) -> str:
    """Return the name in this protocol of a field of a turn's request.

    Args:
        field: The field.
        paths: The paths of the turn's messages in the request.
        names: The names in the protocol.
        tool: The beginning of the paths of tools there.
    """
    message = _MESSAGE.match(field)
    if message is not None and int(message[1]) < len(paths):
        return paths[int(message[1])] + field[message.end() :]
    name = _CLIENT_TOOL.sub(tool, field)
    return names.get(name, name)


def with_notes(
    answer: HttpResponseBase, parsed: ParsedRequest, session_id: str, models: ModelCatalogue
) -> HttpResponseBase:
    """Return an answer that names its session, if that is saved, and what was left out."""
    if not parsed.chat.ephemeral:
        answer[SESSION_HEADER] = session_id
    notes = [*parsed.warnings, *notes_on_choice(parsed.chat.turn.tool_choice, parsed.model, models)]
    add_warnings(answer, notes)
    return answer
