"""Converts a request for a chat completion to a request for a turn.

Unsupported options that would change the meaning of the answer are refused, naming the field; other
unsupported options are listed in ``x-mochi-warning``; unknown ones are ignored.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from chat.service import ChatRequest
from chat.start.turn_request import TurnRequest
from dialects_app.chat_completions.body import CompletionIn, ReasoningIn
from dialects_app.chat_completions.branches import Branch
from dialects_app.chat_completions.messages import (
    rest_of_conversation,
    what_follows,
    whole_conversation,
)
from dialects_app.chat_completions.tools import read_tools
from dialects_app.shared.additions import POLICY_OF_NAMED_TOOLS
from dialects_app.shared.effort import think_of
from dialects_app.shared.fields import refuse
from dialects_app.shared.labels import read_labels
from dialects_app.shared.parsed_request import (
    COMPLETION,
    Conversation,
    ParsedRequest,
    RequestedTools,
)
from models_app.language_model import ANY_OBJECT, TOKEN_LIMITS, Think
from sessions_app.ids_and_clock import new_session_id, utc_now
from sessions_app.session import Session, ToolSettings, fork, make_session

_SAMPLING = ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty")


class ParsedCompletion(ParsedRequest, frozen=True, kw_only=True):
    """A parsed request for a chat completion.

    Attributes:
        streams: Whether the answer is streamed.
        includes_usage: Whether a stream ends with the usage.
    """

    streams: bool
    includes_usage: bool


def read_request(
    body: CompletionIn,
    *,
    session_id: str | None = None,
    branch: Branch | None = None,
    own_tools: str | None = None,
    turn: TurnRequest = COMPLETION,
) -> ParsedCompletion:
    """Parse a request.

    Args:
        body: Its body.
        session_id: The session that it continues (``X-Mochi-Session-Id``).
        branch: The session that holds its history, or the one to make: an empty one, or a copy of
            another one's beginning.
        own_tools: Tools of this server, separated by commas (``X-Mochi-Tools``).
        turn: What is known of the turn beside.

    Raises:
        ValidationFailed: A value is invalid or not supported; ``field`` is its path.
    """
    _refuse_what_is_not_done(body)
    tools = read_tools(body, own_tools)
    turn = replace(
        turn,
        think=_think(body),
        selected_tools=tools.own,
        detached=bool(body.store),
        client_tools=tools.client,
        tool_choice=tools.choice,
        options={**_options(body), **turn.options},
        answer_schema=_answer_schema(body),
    )
    if branch is not None and branch.exists:
        session_id, branch = branch.session_id, None
    if branch is not None and branch.copied is not None:
        conversation = rest_of_conversation(body.messages, branch.first)
    elif branch is None and session_id is not None:
        conversation = what_follows(body.messages)
    else:
        conversation = whole_conversation(body.messages).with_system_message()
    return ParsedCompletion(
        chat=_chat_request(body, conversation, turn, session_id, branch),
        paths=conversation.paths,
        files=conversation.files,
        model=body.model_name,
        streams=bool(body.stream),
        includes_usage=bool(body.stream_options and body.stream_options.include_usage),
        warnings=_warnings(body, tools),
    )


def _refuse_what_is_not_done(body: CompletionIn) -> None:
    if body.n is not None and body.n != 1:
        refuse("n", "One answer is given at a time: 'n' can only be 1.")
    if body.logprobs:
        refuse("logprobs", "Probabilities of tokens are not given: leave out 'logprobs'.")
    if body.top_logprobs:
        refuse("top_logprobs", "Probabilities of tokens are not given: leave out 'top_logprobs'.")
    if body.audio is not None:
        refuse("audio", "Answers are text: leave out 'audio'.")
    if body.functions is not None:
        refuse("functions", "The old form of functions is not taken; use 'tools'.")
    if body.function_call is not None:
        refuse(
            "function_call",
            "The old form of functions is not taken; use 'tools' and 'tool_choice'.",
        )


def _chat_request(
    body: CompletionIn,
    conversation: Conversation,
    turn: TurnRequest,
    session_id: str | None,
    branch: Branch | None,
) -> ChatRequest:
    turn = replace(turn, messages=conversation.messages, instructions=conversation.system)
    if branch is None and session_id is not None:
        return ChatRequest(turn=turn, session_id=session_id, model=body.model)
    saves = bool(body.store) or branch is not None
    named = None if branch is None else branch.session_id
    if branch is not None and branch.copied is not None:
        new = fork(
            branch.copied,
            session_id=branch.session_id,
            now=utc_now(),
            message_index=branch.length - 1,
        )
    else:
        new = _new_session(body, turn, named or new_session_id(), saves=saves)
    return ChatRequest(turn=turn, session_id=named, new=new, ephemeral=not saves)


def _new_session(body: CompletionIn, turn: TurnRequest, session_id: str, *, saves: bool) -> Session:
    metadata = read_labels(body.metadata) if saves else None
    return make_session(
        session_id,
        body.model_name,
        now=utc_now(),
        tool_settings=ToolSettings(
            tools=turn.selected_tools or (), execution_policy=POLICY_OF_NAMED_TOOLS
        ),
        metadata=metadata or None,
    )


def _think(body: CompletionIn) -> Think | None:
    reasoning = body.reasoning or ReasoningIn()
    effort = body.reasoning_effort or reasoning.effort
    return reasoning.enabled if effort is None else think_of(effort)


def _options(body: CompletionIn) -> Mapping[str, Any]:
    """Return the sampling options, with Ollama's names."""
    options: dict[str, Any] = {
        name: value for name in _SAMPLING if (value := getattr(body, name)) is not None
    }
    longest = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    if longest == 0:
        refuse("max_tokens", "An answer of 0 tokens is none: leave it out, or say -1.")
    if longest is not None and longest > 0:
        options |= dict.fromkeys(TOKEN_LIMITS, longest)
    if body.stop:
        options["stop"] = [body.stop] if isinstance(body.stop, str) else list(body.stop)
    return options


def _answer_schema(body: CompletionIn) -> Mapping[str, Any] | None:
    form = body.response_format
    if form is None or form.type == "text":
        return None
    if form.type == "json_object":
        return ANY_OBJECT
    if form.json_schema is None:
        refuse(
            "response_format.json_schema",
            "Missing required parameter: 'response_format.json_schema'.",
        )
    if form.json_schema.schema is None:
        refuse(
            "response_format.json_schema.schema",
            "Missing required parameter: 'response_format.json_schema.schema'.",
        )
    return form.json_schema.schema


def _warnings(body: CompletionIn, tools: RequestedTools) -> Sequence[str]:
    """Return a warning for each unsupported option, beginning with its field."""
    warnings: list[str] = []
    if body.parallel_tool_calls is False and tools.offers_some:
        warnings.append("parallel_tool_calls: the model may call several tools at once")
    if any(tool.function is not None and tool.function.strict for tool in body.tools or ()):
        warnings.append("tools: strict is not obeyed, arguments may not fit their schema")
    if body.logit_bias:
        warnings.append("logit_bias: not obeyed")
    return warnings
