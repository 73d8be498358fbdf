"""Converts a request for a message to a request for a turn. Pure."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from chat.service import ChatRequest
from chat.start.turn_request import TurnRequest
from dialects_app.messages.body import CountTokensIn, MessagesIn
from dialects_app.messages.conversation import Conversation, read_conversation
from dialects_app.messages.tools import read_tools
from dialects_app.shared import parsed_request
from dialects_app.shared.additions import POLICY_OF_NAMED_TOOLS
from dialects_app.shared.effort import think_of
from dialects_app.shared.fields import refuse
from dialects_app.shared.files import GivenFile
from dialects_app.shared.parsed_request import PARAMETERS, ParsedRequest, RequestedTools
from models_app.language_model import TOKEN_LIMITS, Think
from sessions_app.ids_and_clock import new_session_id, utc_now
from sessions_app.session import ToolSettings, make_session

_NO_THREADS = "thread_unsupported_request"
"""The code on which Anthropic's packages send the whole conversation (docs/decisions/0167)."""

_SAMPLING = ("temperature", "top_p", "top_k")
_NAMES = {**PARAMETERS, "think": "thinking"}

name_of_field = partial(parsed_request.name_of_field, names=_NAMES, tool=r"tools[\1].")
"""Returns the name in this protocol of a field of a turn's request."""


def read_request(
    body: CountTokensIn,
    *,
    can_think: bool,
    session_id: str | None = None,
    own_tools: str | None = None,
) -> ParsedRequest:
    """Parse a request.

    Args:
        body: Its body.
        can_think: Whether the model can reason.
        session_id: The session that it continues (``X-Mochi-Session-Id``).
        own_tools: Tools of this server, separated by commas (``X-Mochi-Tools``).

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
    tools = read_tools(body, conversation.references, own_tools)
    conversation = conversation.what_follows() if continues else conversation.with_system_message()
    turn = TurnRequest(
        dialect="messages",
        messages=conversation.messages,
        instructions=conversation.system,
        think=_think(body, can_think=can_think),
        selected_tools=tools.own,
        approvals="deny",
        client_tools=tools.client,
        tool_choice=tools.choice,
        options=_options(body) if isinstance(body, MessagesIn) else {},
        answer_schema=body.answer_schema,
    )
    return ParsedRequest(
        chat=_chat_request(body, turn, tools, session_id),
        paths=conversation.paths,
        files=_files_of(conversation),
        model=body.model,
        warnings=[*tools.left_out, *conversation.left_out],
        words=conversation.words,
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
