"""Declares the body of ``POST /v1/responses``, as far as this server reads it.

Fields that are not here are ignored: clients send dozens of them. What clients may send as null has
``| None``, and what they send in several shapes is ``Any`` and read by hand.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Temperature = Annotated[float, Meta(ge=0, le=2)]
Share = Annotated[float, Meta(ge=0, le=1)]
Tokens = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class ReasoningIn(msgspec.Struct, frozen=True, kw_only=True):
    """The effort of reasoning, and the summary of it, for which all that there is is shown."""

    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


class FormatIn(msgspec.Struct, frozen=True, kw_only=True):
    """The form of the answer; a ``json_schema`` has a name and a schema."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    description: str | None = None
    schema: Mapping[str, Any] | None = None
    strict: bool | None = None


class TextIn(msgspec.Struct, frozen=True, kw_only=True):
    """The form of the answer's text; its verbosity can't be told a model here."""

    format: FormatIn | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ToolIn(msgspec.Struct, frozen=True, kw_only=True):
    """A tool: a ``function`` of the client, or ``mcp`` for those of this server.

    Attributes:
        type: ``function`` or ``mcp``; others are refused.
        name: The function's name.
        description: What it is for.
        parameters: The JSON schema of its arguments.
        strict: Not obeyed; see ``x-mochi-warning``.
        server_label: Of ``mcp``: ``mochi``.
        allowed_tools: Of ``mcp``: which tools, all by default; ``agent:<name>`` is an agent.
        require_approval: Of ``mcp``: ``always``, ``never``, or lists of tools for each.
    """

    type: str
    name: str | None = None
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    strict: bool | None = None
    server_label: str | None = None
    allowed_tools: Sequence[str] | Mapping[str, Any] | None = None
    require_approval: str | Mapping[str, Any] | None = None


class ConversationRef(msgspec.Struct, frozen=True, kw_only=True):
    """Names a conversation."""

    id: str


class ResponseIn(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a response. Fields that are not here are ignored.

    Attributes:
        input: A text, or a list of items.
        model: A model's name, ``profile:<name>`` or ``agent:<name>``; by default the one of what is
            continued.
        instructions: A system text for this response alone.
        previous_response_id: The response that this one follows; an older one is forked.
        conversation: The conversation that this one continues: its id, or ``{"id": ...}``.
        store: Whether it is kept; true by default.
        background: Whether it goes on without a listener.
        stream: Whether to send it as server-sent events.
        tools: The functions of the client, and the tools of this server.
        tool_choice: ``auto``, ``none``, ``required``, a function, or ``allowed_tools``.
        parallel_tool_calls: Several calls at once can't be kept from a model; see
            ``x-mochi-warning``.
        max_output_tokens: The longest answer, in tokens.
        max_tool_calls: Not obeyed; see ``x-mochi-warning``.
        temperature: From 0 to 2.
        top_p: From 0 to 1.
        text: The form of the answer.
        reasoning: How hard a thinking model reasons.
        include: ``mochi.agent_events`` shows what agents do; probabilities of tokens are refused,
            others are ignored.
        truncation: A history that is too long is made to fit either way; see ``x-mochi-warning``.
        metadata: Up to 16 pairs of text.
        user: Repeated, as are the next ones.
        safety_identifier: Repeated.
        prompt_cache_key: Repeated.
        top_logprobs: Probabilities of tokens are refused.
        prompt: Prompts that OpenAI keeps are refused.
    """

    input: str | Sequence[Mapping[str, Any]] | None = None
    model: str | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | ConversationRef | None = None
    store: bool | None = None
    background: bool | None = None
    stream: bool | None = None
    tools: Sequence[ToolIn] | None = None
    tool_choice: str | Mapping[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: Tokens | None = None
    max_tool_calls: Tokens | None = None
    temperature: Temperature | None = None
    top_p: Share | None = None
    text: TextIn | None = None
    reasoning: ReasoningIn | None = None
    include: Sequence[str] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    metadata: Any = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    top_logprobs: Count | None = None
    prompt: Any = None


def what_was_sent(body: ResponseIn) -> Mapping[str, Any]:
    """Return what a key knows a request by: whether it is streamed makes no other one of it."""
    return {"responses": {**msgspec.to_builtins(body), "stream": None}}
