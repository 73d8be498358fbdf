"""Converts a request for a message to a request for a turn. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from chat.service import ChatRequest
from chat.start.turn_request import TurnRequest
from dialects_app.messages.body import CountTokensIn, MessagesIn
from dialects_app.messages.conversation import Conversation, read_conversation
from dialects_app.messages.tools import RequestedTools, read_tools
from dialects_app.shared.additions import POLICY_OF_NAMED_TOOLS
from dialects_app.shared.effort import think_of
from dialects_app.shared.fields import refuse
from dialects_app.shared.files import GivenFile, with_files
from models_app.language_model import TOKEN_LIMITS, Think
from sessions_app.ids_and_clock import new_session_id, utc_now
from sessions_app.messages import Attachment
from sessions_app.session import ToolSettings, make_session

_NO_THREADS = "thread_unsupported_request"
"""The code on which Anthropic's packages send the whole conversation (docs/decisions/0167)."""

_SAMPLING = ("temperature", "top_p", "top_k")
_MESSAGE = re.compile(r"messages\[(\d+)\]")
_CLIENT_TOOL = re.compile(r"^client_tools(\[\d+\])\.")
_PARAMETERS = {
    "message": "messages",
    "attachments": "messages",
    "think": "thinking",
    "selected_tools": "X-Mochi-Tools",
    "client_tools": "tools",
    "session_id": "X-Mochi-Session-Id",
}
"""The names that fields of a turn's request have in this protocol."""


class ParsedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed request.

    Attributes:
        chat: The turn and its session.
        paths: The paths of the turn's messages in the request.
        files: The images and files that they refer to, which must be stored first.
        warnings: What was left out.
    """

    chat: ChatRequest
    paths: Sequence[str]
    files: Sequence[GivenFile]
    warnings: Sequence[str]

    def with_files(self, attachments: Mapping[str, Attachment]) -> "ParsedRequest":
        """Return the request with what is known of its files, by path."""
        turn = self.chat.turn
        turn = replace(turn, messages=with_files(turn.messages, attachments))
        return replace(self, chat=replace(self.chat, turn=turn))

    def name_of_field(self, field: str) -> str:
        """Return the name in this protocol of a field of the turn's request."""
        message = _MESSAGE.match(field)
        if message is not None and int(message[1]) < len(self.paths):
            return self.paths[int(message[1])] + field[message.end() :]
        name = _CLIENT_TOOL.sub(r"tools\1.", field)
        return _PARAMETERS.get(name, name)


def read_request(
    body: CountTokensIn,
    *,
    can_think: bool,
    session_id: str | None = None,
    named_tools: str | None = None,
) -> ParsedRequest:
    """Parse a request.

    Args:
        body: Its body.
        can_think: Whether the model can reason.
        session_id: The session that it continues (``X-Mochi-Session-Id``).
        named_tools: Tools of this server, separated by commas (``X-Mochi-Tools``).

    Raises:
        ValidationFailed: A value is invalid or not supported; ``field`` is its path.
    """
    if body.thread is not None:
        refuse(
            "thread",
            "This server keeps no threads: send the whole conversation in 'messages'.",
            error_code=_NO_THREADS,
            unsupported=["thread"],
        )
    continues = session_id is not None
    conversation = read_conversation(body.messages, body.system, continues=continues)
    tools = read_tools(body, conversation.references, named_tools)
    form = body.output_config.format if body.output_config else None
    form = form or body.output_format
    conversation = conversation.what_follows() if continues else conversation.with_system_message()
    turn = TurnRequest(
        dialect="messages",
        messages=conversation.messages,
        instructions=conversation.system,
        think=_think(body, can_think=can_think),
        selected_tools=tools.own,
        approvals="deny",
        client_tools=() if tools.choice == "none" else tools.client,
        tool_choice=tools.choice,
        options=_options(body) if isinstance(body, MessagesIn) else {},
        answer_schema=form.schema if form else None,
    )
    return ParsedRequest(
        chat=_chat_request(body, turn, tools, session_id),
        paths=conversation.paths,
        files=_files_of(conversation),
        warnings=[*tools.left_out, *conversation.left_out],
    )


def _chat_request(
    body: CountTokensIn, turn: TurnRequest, tools: RequestedTools, session_id: str | None
) -> ChatRequest:
    if session_id is not None:
        return ChatRequest(turn=turn, session_id=session_id, model=body.model)
    settings = ToolSettings(tools=tools.own or (), execution_policy=POLICY_OF_NAMED_TOOLS)
    new = make_session(new_session_id(), body.model, now=utc_now(), tool_settings=settings)
    return ChatRequest(turn=turn, new=new, ephemeral=True)


def _files_of(conversation: Conversation) -> Sequence[GivenFile]:
    """Return the files of the messages that are left of a conversation."""
    referred = {
        attachment.id
        for message in conversation.messages
        for attachment in getattr(message, "attachments", ())
    }
    return [file for file in conversation.files if file.path in referred]


def _think(body: CountTokensIn, *, can_think: bool) -> Think | None:
    """Return whether to reason, and how hard; a model that can't is not asked to."""
    if not can_think:
        return None
    effort = body.output_config.effort if body.output_config else None
    if not body.thinks:
        return False
    return True if effort is None else think_of(effort)


def _options(body: MessagesIn) -> Mapping[str, Any]:
    """Return the sampling options, with Ollama's names."""
    options: dict[str, Any] = {
        name: value for name in _SAMPLING if (value := getattr(body, name)) is not None
    }
    options |= dict.fromkeys(TOKEN_LIMITS, body.max_tokens)
    if body.stop_sequences:
        options["stop"] = list(body.stop_sequences)
    return options
