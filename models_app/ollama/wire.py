"""Encodes requests in Ollama's chat protocol, and parses replies to deltas. Pure.

A reply is a stream of JSON lines. The hot path of the whole server runs through
``ReplyParser.feed``, so it works on whole network reads and allocates nothing but the deltas.
"""

import base64
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from models_app.call_arguments import NO_NAME, arguments_of
from models_app.errors import ModelError
from models_app.language_model import (
    CallDelta,
    Delta,
    Finished,
    ModelRequest,
    TextDelta,
    Think,
    ThinkingDelta,
)
from models_app.ollama import errors
from models_app.ollama.lines import MAX_LINE_BYTES, LineSplitter
from models_app.tool_schemas import inline_all
from sessions_app.decoding import convert_to, decoder_of
from sessions_app.messages import (
    NO_EXTRA,
    AssistantMessage,
    Attachment,
    Message,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
    unmark_cancelled,
)

MAX_REPLY_BYTES = 256 * 1024 * 1024
"""Some two million tokens. A reply is in memory until its end: text, reasoning, calls."""
_OTHERS_OPTIONS = frozenset(["max_tokens", "thinking_budget", "reasoning_effort"])
"""Options of other providers; of these, Ollama has ``max_tokens`` by another name."""


# --- requests -----------------------------------------------------------------------------------


def encode_request(request: ModelRequest, context_window: int | None) -> bytes:
    """Return the body of ``POST /api/chat`` for a request, with this context window."""
    return encode_body(
        chat_body(
            model=request.model,
            messages=wire_messages(request.messages, request.files),
            tools=wire_tools(request.tools),
            think=request.think,
            context_window=context_window,
            options=request.options,
            answer_schema=request.answer_schema,
        )
    )


def chat_body(
    *,
    model: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] = (),
    think: Think | None = None,
    context_window: int | None = None,
    options: Mapping[str, Any] | None = None,
    answer_schema: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the body of a streaming chat request, as a JSON-compatible dict.

    ``truncate`` is off: an overflow is then an error that can be acted upon, where Ollama would
    otherwise drop the oldest messages without a word. ``shift`` is off, too: an answer that comes
    to the end of the window then ends with ``length``, where Ollama would otherwise drop the
    system prompt and the question, and go on.
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "stream": True,
        "truncate": False,
        "shift": False,
    }
    if tools:
        body["tools"] = tools
    if think is not None:
        body["think"] = think
    if answer_schema is not None:
        body["format"] = answer_schema
    settings = _ollama_options(options) if options else {}
    if context_window is not None:
        settings["num_ctx"] = context_window
    if settings:
        body["options"] = settings
    return body


def _ollama_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that Ollama knows, by its names; it ignores others without a word."""
    known = {name: value for name, value in options.items() if name not in _OTHERS_OPTIONS}
    if (longest := options.get("max_tokens")) is not None:
        known.setdefault("num_predict", longest)
    return known


def encode_body(body: Mapping[str, Any]) -> bytes:
    """Return a body as JSON bytes."""
    try:
        return _encoder.encode(body)
    except UnicodeEncodeError:
        # A lone surrogate (a tool can return one) has no UTF-8, but it has an escape, which
        # Ollama reads as U+FFFD.
        return json.dumps(body, default=_plain).encode("ascii")


def wire_messages(
    messages: Sequence[Message], files: Mapping[str, bytes] = NO_EXTRA
) -> list[dict[str, Any]]:
    """Return the conversation in Ollama's form, oldest first, with the images among ``files``.

    Reasoning is sent back only within the running tool round: a model needs it to go on from its
    own calls, and older reasoning only costs context. Answers without text and calls (cancelled
    before the first word) are left out.
    """
    wired, in_running_round = list[dict[str, Any]](), True
    for message in reversed(messages):
        # Nearly all are plain text, and a history can have thousands: no call for those.
        if type(message) is ToolMessage:
            wired.append(_wire_tool_result(message, files))
        elif type(message) is AssistantMessage and (
            message.tool_calls or message.cancelled or not message.content
        ):
            entry = _wire_assistant(message, with_thinking=in_running_round)
            if entry is not None:
                wired.append(entry)
        else:
            wired.append({"role": message.role, "content": message.content})
            if type(message) is UserMessage:
                in_running_round = False
                if message.attachments:
                    wired[-1] |= _images(message.attachments, files)
    wired.reverse()
    return wired


def wire_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Return tools in Ollama's form."""
    inlined = inline_all(tool.parameters for tool in tools)
    functions = [
        {"name": tool.name, "description": tool.description, "parameters": parameters}
        for tool, parameters in zip(tools, inlined, strict=True)
    ]
    return [{"type": "function", "function": function} for function in functions]


def _wire_assistant(message: AssistantMessage, *, with_thinking: bool) -> dict[str, Any] | None:
    content = unmark_cancelled(message.content) if message.cancelled else message.content
    if not content and not message.tool_calls:
        return None
    entry: dict[str, Any] = {"role": "assistant", "content": content}
    if message.tool_calls:
        if with_thinking and message.thinking:
            entry["thinking"] = message.thinking
        entry["tool_calls"] = [
            {
                "id": call.id,
                "function": {"index": index, "name": call.name, "arguments": dict(call.arguments)},
            }
            for index, call in enumerate(message.tool_calls)
        ]
    return entry


def _wire_tool_result(message: ToolMessage, files: Mapping[str, bytes]) -> dict[str, Any]:
    entry = {"role": "tool", "content": message.content, "tool_name": message.tool_name}
    if message.tool_call_id is not None:
        entry["tool_call_id"] = message.tool_call_id
    return {**entry, **_images(message.attachments, files)} if message.attachments else entry


def _images(attachments: Sequence[Attachment], files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return images in bare base64: Ollama refuses data URLs."""
    found = [base64.b64encode(files[one.id]).decode() for one in attachments if one.id in files]
    return {"images": found} if found else {}


def _plain(value: Any) -> Any:
    """Convert frozen mappings and sequences to JSON's."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


_encoder = msgspec.json.Encoder(enc_hook=_plain)


# --- replies ------------------------------------------------------------------------------------


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
