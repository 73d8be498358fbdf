"""Parses replies of Ollama's chat protocol, streams of JSON lines, to deltas. Pure.

The hot path of the whole server runs through ``ReplyParser.feed``, so it works on whole network
reads and allocates nothing but the deltas.
"""

import secrets
from collections.abc import Iterable
from typing import Any

import msgspec

from models_app.call_arguments import NO_NAME, arguments_of
from models_app.errors import ModelError
from models_app.language_model import (
    CallDelta,
    Delta,
    Finished,
    TextDelta,
    ThinkingDelta,
)
from models_app.ollama import errors
from models_app.ollama.lines import MAX_LINE_BYTES, LineSplitter
from sessions_app.decoding import convert_to, decoder_of
from sessions_app.messages import ToolCall

MAX_REPLY_BYTES = 256 * 1024 * 1024
"""Some two million tokens. A reply is in memory until its end: text, reasoning, calls."""


class _WireFunction(msgspec.Struct, gc=False):
    name: str = ""
    arguments: Any = None


class _WireCall(msgspec.Struct, gc=False):
    function: _WireFunction
    id: str | None = None


class _WireMessage(msgspec.Struct, gc=False):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_WireCall] | None = None


class _Chunk(msgspec.Struct, gc=False):
    message: _WireMessage | None = None
    done: bool = False
    error: Any = None
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None


_OLLAMAS_REASONS = frozenset(["stop", "length", "load", "unload"])
_decoder = decoder_of(_Chunk)
_decode_lines = _decoder.decode_lines
# Bytes that are no UTF-8 raise UnicodeDecodeError, which is no DecodeError.
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


def _read_line(line: bytes) -> _Chunk:
    """Decode a line; also one that msgspec refuses: half a surrogate pair, values of other types.

    Raises:
        UNREADABLE: It is not a line of Ollama's.
    """
    try:
        return _decoder.decode(line)
    except msgspec.DecodeError:
        from models_app.ollama.odd_lines import mend_line  # noqa: PLC0415 - rare

        try:
            return convert_to(mend_line(line), _Chunk)
        except (ValueError, RecursionError):  # it is broken elsewhere, too
            pass
        raise


class ReplyParser:
    """Parses the bytes of one reply to deltas, however they are cut into reads.

    Attributes:
        finished: Whether the final line was seen; bytes after it are not parsed.
        failure: The error to raise once the deltas of the same call were handed on.
    """

    __slots__ = (
        "_call_ids",
        "_has_output",
        "_is_split",
        "_lines",
        "_model",
        "_received",
        "_stray",
        "failure",
        "finished",
    )

    def __init__(self, model: str) -> None:
        self._model = model
        self._lines = LineSplitter()
        self._call_ids: set[str] = set()
        self._is_split = False  # the last line that came: the rest of it is to come
        self._received = 0
        self._has_output = False
        self._stray = b""  # a line that says neither a message nor an error in Ollama's form
        self.finished = False
        self.failure: ModelError | None = None

    def feed(self, data: bytes) -> list[Delta]:
        """Parse one network read; return the deltas of the lines that it completes."""
        lines = data
        self._received += len(data)
        if self._received > MAX_REPLY_BYTES:
            self._fail(errors.reply_too_long(MAX_REPLY_BYTES))
            return []
        if self._is_split or data[-1:] != b"\n":
            lines = self._lines.push(data)
            self._is_split = self._lines.held_bytes > 0
            if self._lines.held_bytes > MAX_LINE_BYTES:
                deltas = self._read_one_by_one(lines) if lines else []
                self._fail(errors.line_too_long(MAX_LINE_BYTES))
                return deltas
            if not lines:
                return []
        if len(lines) > MAX_LINE_BYTES:
            return self._read_one_by_one(lines)
        try:
            chunks = _decode_lines(lines)
        except UNREADABLE:
            return self._read_one_by_one(lines)
        return self._deltas(chunks, lines)

    def end(self) -> list[Delta]:
        """Handle the end of the stream; set ``failure`` unless the final line was seen."""
        rest = self._lines.take_rest().strip()
        deltas: list[Delta] = []
        if rest and not self.finished:
            try:
                deltas = self._deltas([_read_line(rest)], rest)
            except UNREADABLE:
                self._fail(errors.interrupted("the connection closed within a line."))
        if not self.finished and self._stray:
            words = errors.parse_error(self._stray)
            self._fail(errors.error_from_answer(None, words, model=self._model))
        elif not self.finished:
            self._fail(errors.interrupted("it ended without its final line."))
        return deltas

    def _deltas(self, chunks: Iterable[_Chunk], lines: bytes) -> list[Delta]:
        deltas: list[Delta] = []
        for chunk in chunks:
            message = chunk.message
            if message is not None:
                if message.thinking:
                    deltas.append(ThinkingDelta(message.thinking))
                if message.content:
                    deltas.append(TextDelta(message.content))
                if message.tool_calls:
                    deltas.extend([CallDelta(self._call(call)) for call in message.tool_calls])
            elif not chunk.done:
                self._stray = lines.strip().rpartition(b"\n")[2]
            if chunk.error is not None:
                words = errors.parse_error_value(chunk.error)
                self._fail(errors.error_from_answer(None, words, model=self._model))
                break
            if chunk.done:
                self._finish(chunk, deltas)
                break
        self._has_output = self._has_output or bool(deltas)
        return deltas

    def _finish(self, chunk: _Chunk, deltas: list[Delta]) -> None:
        reason = chunk.done_reason
        if reason in ("load", "unload") and not (deltas or self._has_output):
            self._fail(errors.only_loaded())
            return
        if reason is not None and reason not in _OLLAMAS_REASONS:
            from models_app.finish_reasons import finish_reason  # noqa: PLC0415 - rare

            kind = finish_reason(reason)
            if kind == "content_filter":
                self._fail(errors.content_refused(reason))
                return
            reason = "length" if kind == "length" else reason
        self.finished = True
        deltas.append(Finished(reason, chunk.prompt_eval_count, chunk.eval_count))

    def _read_one_by_one(self, lines: bytes) -> list[Delta]:
        """Parse lines of which one is invalid: those before it still count."""
        deltas: list[Delta] = []
        for line in lines.split(b"\n"):
            if len(line) > MAX_LINE_BYTES:
                self._fail(errors.line_too_long(MAX_LINE_BYTES))
            elif line.strip():
                try:
                    deltas += self._deltas([_read_line(line)], line)
                except UNREADABLE as error:
                    self._fail(errors.invalid_answer(f"a line can't be read ({error})."))
            if self.finished or self.failure is not None:
                break
        return deltas

    def _call(self, wire: _WireCall) -> ToolCall:
        # Results are paired with calls by id, so an id must be there, and only once.
        call_id = wire.id
        while not call_id or call_id in self._call_ids:
            call_id = f"call_{secrets.token_hex(4)}"
        self._call_ids.add(call_id)
        name = wire.function.name or NO_NAME
        return ToolCall(id=call_id, name=name, arguments=arguments_of(wire.function.arguments))

    def _fail(self, error: ModelError) -> None:
        if self.failure is None:
            self.failure = error
