"""Describes what a scripted model answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool, as a model asks for it.

    Attributes:
        name: The tool's name.
        arguments: Its arguments.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _Faults:
    """The faults of an answer, and its pace."""

    status: int | None = None
    retry_after: float | None = None
    stall_seconds: float = 0
    stall_after: int = 0
    drop_after: int | None = None
    end_after: int | None = None
    malformed: bool | int = False
    error_line: bool | int | str = False
    refuse_after: int | None = None
    words_per_second: float | None = None
    ignores_format: bool = False


@dataclass(frozen=True)
class Reply(_Faults):
    """The answer to one request of a model.

    Attributes:
        text: The text; a list is streamed in exactly these pieces.
        reasoning: Thinking before the text.
        tool_calls: Calls of tools, after the text.
        times: How many requests get this answer, one after the other. A request that is refused
            (``status``) is sent again up to twice, each a request of its own.
        status: Refuse the request with this HTTP status (400 to 599).
        retry_after: What the refusal says in ``Retry-After``, in seconds.
        stall_seconds: Be silent for so long before the first piece, or after ``stall_after``.
        drop_after: Cut the connection after so many pieces.
        end_after: End the stream in good order after so many pieces, without its final event.
        malformed: Send a line that is no JSON, half-way or after so many pieces.
        error_line: End with an error inside the stream, half-way or after so many pieces; a text
            is the error's.
        refuse_after: End as content that the provider's filter refuses (not with Ollama).
        words_per_second: The pace of this answer; 0 is unpaced.
        ignores_format: Give this text although the request asks for JSON, which other replies wait
            for until a request without: it may be no JSON, or not fit the schema.
    """

    text: str | Sequence[str] = ""
    reasoning: str | Sequence[str] | None = None
    tool_calls: Sequence[ToolCall] = ()
    times: int = field(default=1, kw_only=True)

    def as_script(self) -> dict[str, Any]:
        """Return the reply as the content of a block of test mode."""
        entries: list[dict[str, Any]] = []
        if self.text or self.reasoning is not None or not self.tool_calls:
            said: dict[str, Any] = {"text": _literally(self.text)}
            if self.reasoning is not None:
                said["reasoning"] = _literally(self.reasoning)
            entries.append({"text_message": said})
        if self.tool_calls:
            calls = [{"name": it.name, "args": dict(it.arguments)} for it in self.tool_calls]
            entries.append({"tool_call": calls})
        faults = {name: getattr(self, name) for name in _Faults.__dataclass_fields__}
        return {"messages": entries, **faults}


def _literally(text: str | Sequence[str]) -> str | list[str]:
    return text if isinstance(text, str) else list(text)
