"""Converts the body of a request for a response to a request for a turn. Pure.

Unsupported options that would change the meaning of the answer are refused, naming the field; other
unsupported options are listed in ``x-mochi-warning``; unknown ones are ignored.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from chat.start.turn_request import TurnRequest
from dialects_app.responses.body import FormatIn, ResponseIn, ToolIn
from dialects_app.responses.tools import OfferedTools, additional_tools, read_tools
from dialects_app.shared.effort import think_of
from dialects_app.shared.fields import refuse
from dialects_app.shared.ids import conversation_id
from dialects_app.shared.labels import read_labels
from models_app.language_model import ANY_OBJECT, TOKEN_LIMITS

_REPEATED = (
    "instructions",
    "previous_response_id",
    "tool_choice",
    "parallel_tool_calls",
    "max_output_tokens",
    "max_tool_calls",
    "temperature",
    "top_p",
    "truncation",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "store",
)
_ECHOED_TOOLS = {
    "function": ("name", "description", "parameters"),
    "custom": ("name", "description", "format"),
    "namespace": ("name", "description", "tools"),
    "mcp": ("server_label", "allowed_tools", "require_approval"),
}
"""The fields that the resource repeats of each type of tools."""
_LOGPROBS = "message.output_text.logprobs"
_FUNCTION = re.compile(r"client_tools\[(\d+)\]")
_PARAMETERS = {
    "message": "input",
    "messages": "input",
    "attachments": "input",
    "think": "reasoning.effort",
    "selected_tools": "tools",
    "client_tools": "tools",
    "response_format": "text.format",
    "session_id": "previous_response_id",
}
"""The names of a turn's fields in this protocol."""


class ParsedResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed request for a response, without its input and what it continues.

    Attributes:
        turn: The request for the turn, without messages.
        tools: The offered tools.
        echo: The parameters that the resource repeats.
        warnings: The unsupported options, each beginning with its field.
    """

    turn: TurnRequest
    tools: OfferedTools
    echo: Mapping[str, Any]
    warnings: Sequence[str]


def read_request(body: ResponseIn) -> ParsedResponse:
    """Parse a request.

    Raises:
        ValidationFailed: A value is invalid or not supported; ``field`` is its path.
    """
    if body.prompt is not None:
        refuse("prompt", "Prompts that OpenAI keeps are not known here: send 'instructions'.")
    if body.top_logprobs:
        refuse("top_logprobs", "Probabilities of tokens are not given: leave out 'top_logprobs'.")
    for index, wanted in enumerate(body.include or ()):
        if wanted == _LOGPROBS:
            refuse(
                f"include[{index}]", f"Probabilities of tokens are not given: leave out {wanted}."
            )
    if body.previous_response_id is not None and body.conversation is not None:
        refuse(
            "previous_response_id",
            "'previous_response_id' and 'conversation' can't be used together.",
        )
    tools = _tools(body)
    effort = body.reasoning.effort if body.reasoning else None
    turn = TurnRequest(
        dialect="responses",
        think=None if effort is None else think_of(effort),
        detached=bool(body.background),
        approvals="suspend",
        instructions=body.instructions or None,
        client_tools=tools.client,
        tool_choice=tools.choice,
        options=_options(body),
        answer_schema=_answer_schema(body),
    )
    return ParsedResponse(turn=turn, tools=tools, echo=_echo(body), warnings=_warnings(body, tools))


def name_of_field(field: str, body: ResponseIn) -> str:
    """Return the name in this protocol of a field of a turn's request."""
    function = _FUNCTION.match(field)
    if function is not None:
        tools = _tools(body)
        return tools.paths[tools.client[int(function[1])].name] + field[function.end() :]
    beginning = field.partition("[")[0].partition(".")[0]
    return _PARAMETERS.get(beginning, field)


def _tools(body: ResponseIn) -> OfferedTools:
    return read_tools(body.tools or (), body.tool_choice, additional_tools(body.input))


def _options(body: ResponseIn) -> Mapping[str, Any]:
    """Return the sampling options, with Ollama's names."""
    options: dict[str, Any] = {}
    if body.temperature is not None:
        options["temperature"] = body.temperature
    if body.top_p is not None:
        options["top_p"] = body.top_p
    if body.max_output_tokens is not None:
        options |= dict.fromkeys(TOKEN_LIMITS, body.max_output_tokens)
    if body.text is not None and body.text.verbosity is not None:
        options["verbosity"] = body.text.verbosity
    if body.service_tier in ("auto", "default", "flex", "priority"):
        options["service_tier"] = body.service_tier
    return options


def _answer_schema(body: ResponseIn) -> Mapping[str, Any] | None:
    form = body.text.format if body.text else None
    if form is None or form.type == "text":
        return None
    if form.type == "json_object":
        return ANY_OBJECT
    for name in ("name", "schema"):
        if getattr(form, name) is None:
            path = f"text.format.{name}"
            refuse(path, f"Missing required parameter: '{path}'.")
    return form.schema


def _echo(body: ResponseIn) -> Mapping[str, Any]:
    """Return the given parameters that the resource repeats."""
    echo: dict[str, Any] = {
        name: value for name in _REPEATED if (value := getattr(body, name)) is not None
    }
    labels = read_labels(body.metadata)
    if labels:
        echo["metadata"] = labels
    if body.tools:
        echo["tools"] = [_echo_of_tool(tool) for tool in body.tools if tool.type in _ECHOED_TOOLS]
    if body.reasoning is not None:
        echo["reasoning"] = msgspec.structs.asdict(body.reasoning)
    if body.text is not None:
        echo["text"] = {"format": _echo_of_format(body.text.format)}
        if body.text.verbosity is not None:
            echo["text"]["verbosity"] = body.text.verbosity
    return echo


def _echo_of_tool(tool: ToolIn) -> dict[str, Any]:
    names = _ECHOED_TOOLS[tool.type]
    echo = {"type": tool.type, **{name: getattr(tool, name) for name in names}}
    return {**echo, "strict": bool(tool.strict)} if tool.type == "function" else echo


def _echo_of_format(form: FormatIn | None) -> dict[str, Any]:
    if form is None or form.type != "json_schema":
        return {"type": form.type if form else "text"}
    return msgspec.structs.asdict(form)


def _warnings(body: ResponseIn, tools: OfferedTools) -> Sequence[str]:
    """Return a warning for each unsupported option."""
    warnings = [*tools.left_out]
    if body.parallel_tool_calls is False and tools.has_some:
        warnings.append("parallel_tool_calls: the model may call several tools at once")
    if any(tool.strict for tool in body.tools or ()):
        warnings.append("tools: strict is not obeyed, arguments may not fit their schema")
    if body.truncation == "disabled":
        warnings.append("truncation: a history that is too long is made to fit")
    if body.max_tool_calls is not None:
        warnings.append("max_tool_calls: not obeyed")
    return warnings


def shown_conversation(session_id: str) -> dict[str, str]:
    """Return the conversation field of a resource."""
    return {"id": conversation_id(session_id)}
