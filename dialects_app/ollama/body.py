"""Declares the bodies of Ollama's routes, with the fields that are read; others are ignored.

The fields are described at https://github.com/ollama/ollama/blob/main/docs/api.md.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dialects_app.chat_completions.body import CalledFunction, FewKeys, ToolIn
from dialects_app.shared.effort import Effort
from sessions_app.bounds import FEW

Images = Annotated[Sequence[str], FEW]


class ToolCallIn(msgspec.Struct, frozen=True, kw_only=True):
    """A call of the model, sent back by the client; most clients drop its id."""

    id: str | None = None
    function: CalledFunction


class MessageIn(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the conversation; ``name`` is the older name of ``tool_name``."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    thinking: str | None = None
    images: Images | None = None
    tool_calls: Annotated[Sequence[ToolCallIn], FEW] | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    name: str | None = None


class AskIn(msgspec.Struct, frozen=True, kw_only=True):
    """A request to ``/api/chat``, or to ``/api/generate`` with a prompt instead of messages."""

    model: Annotated[str, Meta(min_length=1)]
    messages: Sequence[MessageIn] | None = None
    prompt: str | None = None
    system: str | None = None
    images: Images | None = None
    stream: bool | None = None
    think: bool | Effort | None = None
    format: str | FewKeys | None = None
    tools: Annotated[Sequence[ToolIn], FEW] | None = None
    options: FewKeys | None = None
    keep_alive: Any = None
    raw: Any = None
    suffix: Any = None
    template: Any = None


class NameIn(msgspec.Struct, frozen=True, kw_only=True):
    """A request about a model; ``name`` is the older name of ``model``."""

    model: str | None = None
    name: str | None = None
