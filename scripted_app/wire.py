"""Declares ``ReplyWire``, the port that each provider's wire format implements."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from scripted_app.model_cards import ModelCard
from scripted_app.replies import (
    Chunk,
    End,
    Instruction,
    Reason,
    ReasoningChunk,
    ReplyPlan,
    RequestMessage,
    Step,
    TextChunk,
    estimate_tokens,
    plan_reply,
)


class Refused(Exception):
    """The request gets no reply but an error: HTTP ``status`` and the server's words.

    ``retry_after`` is the number of seconds to wait, if set, and ``details`` what else the body of
    OpenAI's errors says: ``param`` and ``code``.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        retry_after: float | None = None,
        details: Mapping[str, str | None] | None = None,
    ) -> None:
        super().__init__(message)
        self.details = details or {}
        self.status = status
        self.message = message
        self.retry_after = retry_after


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A chat request, read and checked.

    Attributes:
        card: The model.
        name: The model's name as the client wrote it.
        messages: The conversation, oldest first.
        stream: Whether the reply is streamed.
        think: Whether thinking was asked for.
        format: ``"json"``, a JSON schema, or None.
        context_window: The most tokens the request may have; None is unlimited.
        answer_tokens: The most tokens that the answer may have; None is unlimited (Ollama and
            Responses only).
        include_usage: Whether a stream ends with the token counts (OpenAI only).
        calls_first: Whether the reply may call tools although it has a format (not Ollama).
        makes_calls: Whether the reply has tool calls: set when it is planned.
    """

    card: ModelCard
    name: str
    messages: Sequence[RequestMessage]
    stream: bool
    think: bool = False
    format: str | Mapping[str, Any] | None = None
    context_window: int | None = None
    answer_tokens: int | None = None
    include_usage: bool = False
    calls_first: bool = False
    makes_calls: bool = False

    @property
    def prompt_tokens(self) -> int:
        """The estimated tokens of the messages' text (4 characters each)."""
        return estimate_tokens(sum(len(said.text) for said in self.messages))

    def plan(self, script: Instruction | None = None) -> ReplyPlan:
        """Return the reply to this request, from a script or its messages.

        Raises:
            Refused: No object can satisfy the requested schema.
        """
        try:
            plan = plan_reply(
                self.messages,
                think=self.think,
                format=self.format,
                script=script,
                calls_first=self.calls_first,
            )
        except ValueError as error:
            raise Refused(500, f"invalid JSON schema in format: {error}") from error
        if self.answer_tokens is None:
            return plan
        return msgspec.structs.replace(plan, steps=limited(plan.steps, self.answer_tokens))


class ReplyWire(Protocol):
    """Writes one reply in one wire format."""

    content_type: str

    def frames(self, chunk: Chunk) -> Iterator[bytes]:
        """Yield the frames of a chunk, each to be sent by itself."""
        ...

    def end(self, reason: Reason, completion_tokens: int) -> bytes:
        """Return the end of a stream."""
        ...

    def error(self, message: str) -> bytes:
        """Return the frame of an error inside the stream."""
        ...

    def whole(self, chunks: Sequence[Chunk], completion_tokens: int) -> bytes:
        """Return the body of a reply that is not streamed."""
        ...


def encode(value: Any) -> bytes:
    """Return compact JSON; half a surrogate pair, which has no UTF-8, becomes its escape."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def characters(chunk: Chunk) -> int:
    """Return how many characters a chunk counts as a model's output."""
    if isinstance(chunk, ReasoningChunk | TextChunk):
        return len(chunk.text)
    return len(chunk.name) + len(json.dumps(chunk.arguments, separators=(",", ":")))


def cut_by_utf16(text: str, size: int) -> Iterator[str]:
    """Yield pieces of this many UTF-16 units, as some vendors cut; also within a surrogate pair."""
    units = text.encode("utf-16-le", "surrogatepass")
    for at in range(0, len(units), 2 * size):
        yield units[at : at + 2 * size].decode("utf-16-le", "surrogatepass")


def limited(steps: Sequence[Step], tokens: int) -> list[Step]:
    """Return the steps of an answer up to so many tokens, which may end within a chunk."""
    kept: list[Step] = []
    room = 4 * tokens
    for step in steps:
        if isinstance(step, Chunk):
            if room < characters(step):
                if room and isinstance(step, TextChunk | ReasoningChunk):
                    kept.append(msgspec.structs.replace(step, text=step.text[:room]))
                return [*kept, End("length")]
            room -= characters(step)
        kept.append(step)
    return kept


def joined(chunks: Sequence[Chunk], kind: type[ReasoningChunk] | type[TextChunk]) -> str:
    """Return the text of all chunks of one kind."""
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, kind))


def check_length(request: ChatRequest, words: str) -> None:
    """Refuse a request that is longer than the model's context.

    Args:
        request: The request.
        words: The vendor's words, with ``{tokens}`` and ``{limit}`` in them.

    Raises:
        Refused: With 400.
    """
    tokens, limit = request.prompt_tokens, request.card.context_length
    if tokens > limit:
        raise Refused(400, words.format(tokens=tokens, limit=limit))
