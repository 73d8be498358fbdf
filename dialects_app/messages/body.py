"""Declares the bodies of ``POST /v1/messages`` and of ``/v1/messages/count_tokens``.

Other fields are ignored, and so are all betas: clients send new ones each month. Blocks of messages
are read by hand (``blocks.py``), since there are kinds of them that this server leaves out.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dialects_app.shared.effort import Effort
from sessions_app.bounds import FEW

Block = Annotated[Mapping[str, Any], FEW]
Blocks = str | Sequence[Block]
"""A text, or the parts of a message."""

Share = Annotated[float, Meta(ge=0, le=1)]


class MessageIn(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the conversation; roles may repeat."""

    role: Literal["user", "assistant", "system"]
    content: Blocks


class ToolIn(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the client runs, or one of Anthropic's, which has another ``type``.

    Attributes:
        name: Its name.
        type: Absent or ``custom`` for a tool of the client.
        description: What it does.
        input_schema: The JSON schema of its arguments.
        defer_loading: Whether it is offered only once a ``tool_reference`` names it.
    """

    name: str
    type: str | None = None
    description: str | None = None
    input_schema: Block | None = None
    defer_loading: bool | None = None


class ToolChoiceIn(msgspec.Struct, frozen=True, kw_only=True):
    """The choice of tools: ``auto``, ``any``, ``none``, or ``tool`` for the one with ``name``."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class ThinkingIn(msgspec.Struct, frozen=True, kw_only=True):
    """Switches reasoning on or off; with the display ``omitted`` it is sealed alone."""

    type: Literal["enabled", "adaptive", "disabled"]
    display: str | None = None


class FormatIn(msgspec.Struct, frozen=True, kw_only=True):
    """The form of the answer: JSON that matches a schema."""

    type: Literal["json_schema"]
    schema: Block


class OutputConfigIn(msgspec.Struct, frozen=True, kw_only=True):
    """The effort of reasoning, and the form of the answer."""

    effort: Effort | None = None
    format: FormatIn | None = None


class CountTokensIn(msgspec.Struct, frozen=True, kw_only=True):
    """A request for the tokens of a conversation. Other fields are ignored.

    Attributes:
        model: A model's name, ``profile:<name>`` or ``agent:<name>``.
        messages: The whole conversation, oldest first.
        system: The system prompt, as a text or as blocks.
        tools: The functions that the client runs.
        tool_choice: Whether one of them must be called.
        thinking: Whether the model reasons.
        output_config: The effort of reasoning, and the form of the answer.
        output_format: The form under its older name.
        mcp_servers: Refused.
        thread: Refused, as ``messages`` then are only what is new.
    """

    model: Annotated[str, Meta(min_length=1)]
    messages: Annotated[Sequence[MessageIn], Meta(min_length=1)]
    system: Blocks | None = None
    tools: Annotated[Sequence[ToolIn], FEW] | None = None
    tool_choice: ToolChoiceIn | None = None
    thinking: ThinkingIn | None = None
    output_config: OutputConfigIn | None = None
    output_format: FormatIn | None = None
    mcp_servers: Any = None
    thread: Any = None

    @property
    def answer_schema(self) -> Block | None:
        """Return the schema that the answer must match."""
        form = (self.output_config and self.output_config.format) or self.output_format
        return form.schema if form else None

    @property
    def thinks(self) -> bool:
        """Return whether the model is to reason, if it can."""
        return self.thinking is not None and self.thinking.type != "disabled"


class MessagesIn(CountTokensIn, frozen=True, kw_only=True):
    """A request for the next message. Other fields are ignored.

    Attributes:
        max_tokens: The longest answer, in tokens.
        stream: Whether to send the answer as server-sent events.
        temperature: From 0 to 1.
        top_p: From 0 to 1.
        top_k: The number of likeliest tokens to choose from.
        stop_sequences: Texts that end the answer.
    """

    max_tokens: Annotated[int, Meta(ge=1)]
    stream: bool | None = None
    temperature: Share | None = None
    top_p: Share | None = None
    top_k: Annotated[int, Meta(ge=0)] | None = None
    stop_sequences: Annotated[Sequence[Annotated[str, Meta(min_length=1)]], FEW] | None = None

    @property
    def shows_reasoning(self) -> bool:
        """Return whether the reasoning is sent as text, and not only as a seal."""
        return self.thinking is None or self.thinking.display != "omitted"
