"""Declares the body of ``POST /v1/responses``, with the fields that are read.

Other fields are ignored: clients send dozens of them. Fields that clients send as null have
``| None``; those of several shapes are ``Any`` and parsed by hand.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dialects_app.shared.effort import Effort
from sessions_app.bounds import FEW

Temperature = Annotated[float, Meta(ge=0, le=2)]
Share = Annotated[float, Meta(ge=0, le=1)]
Tokens = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]

FewKeys = Annotated[Mapping[str, Any], FEW]


class ReasoningIn(msgspec.Struct, frozen=True, kw_only=True):
    """The effort of reasoning, and the kind of summary, which always is the whole reasoning."""

    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


class FormatIn(msgspec.Struct, frozen=True, kw_only=True):
    """The form of the answer; a ``json_schema`` has a name and a schema."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    description: str | None = None
    schema: FewKeys | None = None
    strict: bool | None = None


class TextIn(msgspec.Struct, frozen=True, kw_only=True):
    """The format of the answer's text, and its verbosity."""

    format: FormatIn | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ToolIn(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of the client, or ``mcp`` for those of this server.

    Attributes:
        type: ``function``, ``custom``, ``namespace`` or ``mcp``; others are left out, with a
            warning.
        name: Its name, or that of the namespace.
        description: Its description.
        parameters: The JSON schema of a function's arguments.
        format: The form of the text that a ``custom`` tool takes.
        tools: The functions and custom tools of a ``namespace``.
        strict: Not supported; see ``x-mochi-warning``.
        server_label: For ``mcp``: ``mochi``.
        allowed_tools: For ``mcp``: tools, by default all not built in; ``agent:<name>``: an agent.
        require_approval: For ``mcp``: ``always``, ``never``, or lists of tools for each.
    """

    type: str
    name: str | None = None
    description: str | None = None
    parameters: FewKeys | None = None
    format: FewKeys | None = None
    tools: Annotated[Sequence[FewKeys], FEW] | None = None
    strict: bool | None = None
    server_label: str | None = None
    allowed_tools: Annotated[Sequence[str], FEW] | FewKeys | None = None
    require_approval: str | FewKeys | None = None


class ConversationRef(msgspec.Struct, frozen=True, kw_only=True):
    """A reference to a conversation."""

    id: str


class ResponseIn(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a response. Other fields are ignored.

    Attributes:
        input: A text, or a list of items.
        model: A model's name, ``profile:<name>`` or ``agent:<name>``; by default that of the
            continued session, else the default model.
        instructions: A system message for this response only.
        previous_response_id: The response that this one follows; an older one is forked.
        conversation: The conversation that this one continues: its id, or ``{"id": ...}``.
        store: Whether it is stored; true by default.
        background: Whether it runs without a client.
        stream: Whether to send it as server-sent events.
        tools: The functions of the client, and the tools of this server.
        tool_choice: ``auto``, ``none``, ``required``, a function, or ``allowed_tools``.
        parallel_tool_calls: Parallel calls can't be prevented; see ``x-mochi-warning``.
        max_output_tokens: The longest answer, in tokens.
        max_tool_calls: Not supported; see ``x-mochi-warning``.
        temperature: From 0 to 2.
        top_p: From 0 to 1.
        text: The form of the answer.
        reasoning: How hard a thinking model reasons.
        include: ``mochi.agent_events`` adds the events of agents; log probabilities are refused,
            others are ignored.
        truncation: A long history is always truncated; see ``x-mochi-warning``.
        metadata: Up to 16 pairs of strings.
        user: Returned unchanged, like the next ones.
        safety_identifier: Returned unchanged.
        prompt_cache_key: Returned unchanged.
        top_logprobs: Refused unless 0.
        prompt: Refused: prompts stored at OpenAI.
    """

    input: str | Sequence[Mapping[str, Any]] | None = None
    model: str | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | ConversationRef | None = None
    store: bool | None = None
    background: bool | None = None
    stream: bool | None = None
    tools: Annotated[Sequence[ToolIn], FEW] | None = None
    tool_choice: str | FewKeys | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: Tokens | None = None
    max_tool_calls: Tokens | None = None
    temperature: Temperature | None = None
    top_p: Share | None = None
    text: TextIn | None = None
    reasoning: ReasoningIn | None = None
    include: Annotated[Sequence[str], FEW] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    metadata: Any = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    top_logprobs: Count | None = None
    prompt: Any = None
    service_tier: Any = None


def what_was_sent(body: ResponseIn) -> Mapping[str, Any]:
    """Return the part of a request that identifies it under its key: all but ``stream``."""
    sent = {**msgspec.to_builtins(body), "stream": None}
    if body.service_tier is None:  # which the last release did not read, like the next ones
        del sent["service_tier"]
    for tool in sent["tools"] or ():
        for name in ("format", "tools"):
            if tool[name] is None:
                del tool[name]
    return {"responses": sent}
