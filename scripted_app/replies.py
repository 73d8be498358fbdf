r"""Plans the scripted model's reply to the messages of a request.

Without instructions (the fallback) the answer is lorem ipsum followed by the latest user message,
verbatim; reasoning of the same form comes first when that message has a ``\nReason:`` tail or
thinking was asked for. The number of lorem words is ``5 + stable_hash(message) % 496``.

A user message may script the answer with a block, outside of which nothing counts::

    <|instruction_start|>
    {
      "id_message": "ID-7",                  // around every reasoning and text; not counted
      "reasoning": {"length": 20},           // words before each text; or {"text": "exactly this"}
      "messages": [                          // all in one reply, in order
        {"text_message": {"length": 50}},
        {"text_message": {"text": "exactly this", "reasoning": "and exactly that before it"}},
        {"tool_call": [{"name": "add", "args": {"a": 1, "b": 2}}]}
      ],
      "per_request": true,                   // instead: each model request gets the next message
      "words_per_second": 0,                 // this block's pace; 0 is unpaced
      "status": 503, "retry_after": 2,       // faults: refuse before the first byte
      "stall_seconds": 5, "stall_after": 2,  // be silent, before the first chunk or after N
      "drop_after": 3, "end_after": 3,       // cut the connection, or end without the final event
      "malformed": true,                     // a broken line half-way, or after N chunks
      "error_line": "runner died",           // an error line, then the end; true, text or N
      "refuse_after": 2,                     // end as content that the provider refuses
      "ignores_format": true,                // the messages, also where a format is asked for
      "raw": ["data: {}\n\n"]                // instead of all messages: exactly these bytes
    }
    <|instruction_end|>

A literal ``text`` or ``reasoning`` may also be a list of strings: these are the chunks then, and
may cut a character in two (``["\\ud83d", "\\ude00"]``). A block without ``messages`` gives its
faults and pace to the fallback. The latest block in the history is answered until the answers after
it have used it up; then, and when a block is broken, the fallback answers.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from json import JSONDecoder
from typing import Annotated, Any, Literal

import msgspec

from scripted_app.instances import smallest_instance
from sessions_app.decoding import convert_to

BLOCK_START = "<|instruction_start|>"
BLOCK_END = "<|instruction_end|>"
REASON_TAIL = "\nReason:"
CHUNK_WORDS = 5
RUNNER_DIED = "an error was encountered while running the model: unexpected EOF"

LOREM = """
lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore
et dolore magna aliqua ut enim ad minim veniam quis nostrud exercitation ullamco laboris nisi ut
aliquip ex ea commodo consequat duis aute irure dolor in reprehenderit in voluptate velit esse
cillum dolore eu fugiat nulla pariatur excepteur sint occaecat cupidatat non proident sunt in culpa
qui officia deserunt mollit anim id est laborum
""".split()  # noqa: SIM905 - a list of words reads better as words

Count = Annotated[int, msgspec.Meta(ge=0)]
Words = Annotated[float, msgspec.Meta(ge=0, le=100_000)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=3600)]
Literally = str | list[str]


class RequestMessage(msgspec.Struct, frozen=True):
    """One message of the request."""

    role: str
    text: str


class ReasoningChunk(msgspec.Struct, frozen=True, gc=False):
    """The next piece of reasoning of message ``message_index`` of the reply."""

    text: str
    message_index: int = 0


class TextChunk(msgspec.Struct, frozen=True, gc=False):
    """The next piece of text of message ``message_index`` of the reply."""

    text: str
    message_index: int = 0


class ToolCallChunk(msgspec.Struct, frozen=True):
    """A whole tool call; ``call_index`` counts within its message."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    call_index: int = 0
    message_index: int = 0


class Silence(msgspec.Struct, frozen=True):
    """Nothing is sent for this long."""

    seconds: float


class BrokenLine(msgspec.Struct, frozen=True):
    """A line that is not JSON, after which the stream continues."""


class ErrorLine(msgspec.Struct, frozen=True):
    """An error inside the stream, which ends there."""

    message: str


Reason = Literal["stop", "length", "refused"]
"""Why a reply ends: it is complete, has as many tokens as it may, or a filter refuses it."""


class End(msgspec.Struct, frozen=True):
    """The stream ends before the plan does."""

    reason: Reason


class RawBytes(msgspec.Struct, frozen=True):
    """Text that is sent as it is; a reply that has any has nothing else, not even an end."""

    text: str


class Disconnect(msgspec.Struct, frozen=True):
    """The connection is cut, or an ``orderly`` end comes without the vendor's final event."""

    orderly: bool = False


Chunk = ReasoningChunk | TextChunk | ToolCallChunk
Step = Chunk | RawBytes | Silence | BrokenLine | ErrorLine | End | Disconnect


class ReplyPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole reply, before any of it is sent.

    Attributes:
        mode: Which rule made it.
        steps: Chunks and faults in the order in which they happen.
        status: An HTTP error status to refuse the request with, before the first byte.
        retry_after: The seconds in ``Retry-After`` of the refusal.
        words_per_second: The pace, if the block sets one; 0 is unpaced.
    """

    mode: Literal["fallback", "instruction", "format"]
    steps: Sequence[Step]
    status: int | None = None
    retry_after: float | None = None
    words_per_second: float | None = None


class _Reasoning(msgspec.Struct, frozen=True):
    length: Words = 0
    text: Literally | None = None


class _TextMessage(msgspec.Struct, frozen=True):
    length: Words | None = None
    text: Literally | None = None
    reasoning: Literally | None = None

    def __post_init__(self) -> None:
        if self.length is None and self.text is None:
            raise ValueError("a text_message needs a length or a text")


class _Call(msgspec.Struct, frozen=True):
    name: str
    args: dict[str, Any] = {}


class _Entry(msgspec.Struct, frozen=True):
    text_message: _TextMessage | None = None
    tool_call: Annotated[list[_Call], msgspec.Meta(min_length=1)] | None = None

    def __post_init__(self) -> None:
        if (self.text_message is None) is (self.tool_call is None):
            raise ValueError("a message is either a text_message or a tool_call")


class Instruction(msgspec.Struct, frozen=True):
    """A script for answers, as in the block that the module describes."""

    id_message: str = ""
    reasoning: _Reasoning | None = None
    messages: list[_Entry] = []
    per_request: bool = False
    words_per_second: Annotated[float, msgspec.Meta(ge=0)] | None = None
    status: Annotated[int, msgspec.Meta(ge=400, le=599)] | None = None
    retry_after: Seconds | None = None
    stall_seconds: Seconds = 0
    stall_after: Count = 0
    drop_after: Count | None = None
    end_after: Count | None = None
    malformed: bool | Count = False
    error_line: bool | Count | str = False
    refuse_after: Count | None = None
    ignores_format: bool = False
    raw: list[str] = []


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


_JSON_ENDS_ITSELF = JSONDecoder(parse_constant=_refuse)
_WORD = re.compile(r"\s*\S+|\s+")


def plan_reply(
    messages: Sequence[RequestMessage],
    *,
    think: bool = False,
    format: str | Mapping[str, Any] | None = None,  # noqa: A002 - the wire's name for it
    script: Instruction | None = None,
    calls_first: bool = False,
) -> ReplyPlan:
    """Decide the whole answer to a request.

    Args:
        messages: The conversation, oldest first.
        think: Whether thinking was asked for.
        format: ``"json"`` or a JSON schema, which the answer fits unless its script ignores it.
        script: The script to use instead of one in the messages.
        calls_first: Whether the calls of a script are made although the answer has a format.

    Raises:
        ValueError: No object can satisfy the schema.
    """
    latest = next((said.text for said in reversed(messages) if said.role == "user"), "")
    reasons = think or REASON_TAIL in latest
    due = _due(messages) if script is None else (script, script.messages)
    calls = calls_first and due is not None and any(entry.tool_call for entry in due[1])
    if format and not calls and not (due is not None and due[0].ignores_format):
        return ReplyPlan(mode="format", steps=_formatted(latest, format, reasons=reasons))
    if due is None:
        return ReplyPlan(mode="fallback", steps=_fallback(latest, reasons=reasons))
    instruction, entries = due
    salt = f"{len(messages)}:{latest}"
    chunks: Sequence[Chunk] = [
        chunk
        for index, entry in enumerate(entries)
        for chunk in _scripted(instruction, entry, index, salt)
    ]
    steps = [RawBytes(text) for text in instruction.raw] or chunks
    if not (entries or instruction.raw):
        steps = _fallback(latest, reasons=reasons)
    return ReplyPlan(
        mode="instruction",
        steps=_with_faults(steps, instruction),
        status=instruction.status,
        retry_after=instruction.retry_after,
        words_per_second=instruction.words_per_second,
    )


def stable_hash(text: str) -> int:
    """Return the first 8 bytes of the text's SHA-256 (as UTF-8), big-endian, unsigned."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")


def lorem(words: int) -> str:
    """Return this many words of the fixed list, repeated as needed."""
    whole, rest = divmod(words, len(LOREM))
    return " ".join(LOREM * whole + LOREM[:rest])


def chunk_words(text: str) -> list[str]:
    """Cut text into pieces of five words that concatenate to exactly the text."""
    words = _WORD.findall(text)
    return ["".join(words[at : at + CHUNK_WORDS]) for at in range(0, len(words), CHUNK_WORDS)]


def estimate_tokens(characters: int) -> int:
    """Return the number of tokens that scripted models report for characters (4 each)."""
    return -(-characters // 4)


def _fallback(message: str, *, reasons: bool) -> list[Chunk]:
    pieces = chunk_words(lorem(5 + stable_hash(message) % 496))
    if message:
        pieces += chunk_words(f"\n\n{message}")
    return _chunks(pieces if reasons else (), pieces, 0)


def _formatted(message: str, form: str | Mapping[str, Any], *, reasons: bool) -> list[Chunk]:
    value = {"text": lorem(CHUNK_WORDS)} if form == "json" else smallest_instance(form)
    thought = chunk_words(lorem(5 + stable_hash(message) % 496)) if reasons else ()
    return _chunks(thought, chunk_words(msgspec.json.encode(value).decode()), 0)


def _due(messages: Sequence[RequestMessage]) -> tuple[Instruction, Sequence[_Entry]] | None:
    """Return the latest block and those of its messages that this request gets.

    None when there is no block, when it is broken, and when it is used up.
    """
    answered = 0
    for said in reversed(messages):
        if said.role == "user" and BLOCK_START in said.text:
            instruction = _read_block(said.text)
            if instruction is None:
                return None
            if instruction.per_request and instruction.messages:
                entries = instruction.messages[answered : answered + 1]
                return (instruction, entries) if entries else None
            return None if answered else (instruction, instruction.messages)
        answered += said.role == "assistant"
    return None


def _read_block(text: str) -> Instruction | None:
    opened = text[text.index(BLOCK_START) + len(BLOCK_START) :].lstrip()
    try:
        # Strings inside may hold the end marker, so the JSON itself has to say where it ends.
        # Half a surrogate pair may be in them too: it is streamed as its escape.
        block, end = _JSON_ENDS_ITSELF.raw_decode(opened)
        if not opened[end:].lstrip().startswith(BLOCK_END):
            return None
        return convert_to(block, Instruction)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors too
        return None


def _scripted(
    instruction: Instruction, entry: _Entry, message_index: int, salt: str
) -> list[Chunk]:
    if entry.tool_call is not None:
        return [
            ToolCallChunk(
                id=f"call_{stable_hash(f'{salt}:{message_index}:{index}') >> 32:08x}",
                name=call.name,
                arguments=call.args,
                call_index=index,
                message_index=message_index,
            )
            for index, call in enumerate(entry.tool_call)
        ]
    message = entry.text_message
    assert message is not None  # noqa: S101 - _Entry holds one or the other
    name = instruction.id_message
    text = _around(name, _pieces(message.text, message.length))
    top = instruction.reasoning
    if message.reasoning is not None:
        return _chunks(_around(name, _pieces(message.reasoning, 0)), text, message_index)
    if top is not None and (top.length or top.text):
        return _chunks(_around(name, _pieces(top.text, top.length)), text, message_index)
    return _chunks((), text, message_index)


def _pieces(literal: Literally | None, words: float | None) -> list[str]:
    if literal is None:
        return chunk_words(lorem(int(words or 0)))
    return chunk_words(literal) if isinstance(literal, str) else literal


def _around(name: str, pieces: list[str]) -> list[str]:
    return [*chunk_words(f"{name} "), *pieces, *chunk_words(f" {name}")] if name else pieces


def _chunks(thought: Sequence[str], text: Sequence[str], message_index: int) -> list[Chunk]:
    return [
        *(ReasoningChunk(piece, message_index) for piece in thought),
        *(TextChunk(piece, message_index) for piece in text),
    ]


def _with_faults(chunks: Sequence[Step], instruction: Instruction) -> list[Step]:
    middle = len(chunks) // 2
    faults: list[tuple[int, Step]] = []
    if instruction.stall_seconds:
        faults.append((instruction.stall_after, Silence(instruction.stall_seconds)))
    if (broken := instruction.malformed) is not False:
        faults.append((middle if broken is True else broken, BrokenLine()))
    if (error := instruction.error_line) is not False:
        text = error if isinstance(error, str) else RUNNER_DIED
        faults.append((middle if isinstance(error, bool | str) else error, ErrorLine(text)))
    places = (instruction.refuse_after, instruction.drop_after, instruction.end_after)
    ends: Sequence[Step] = (End("refused"), Disconnect(), Disconnect(orderly=True))
    faults += [(at, end) for at, end in zip(places, ends, strict=True) if at is not None]
    steps: list[Step] = list(chunks)
    faults.sort(key=lambda fault: fault[0])
    while faults:  # from the back, so that no insertion moves the place of another
        place, fault = faults.pop()
        steps.insert(place, fault)
    return steps
