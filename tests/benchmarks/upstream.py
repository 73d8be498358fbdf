"""A scripted model server for load: Ollama's NDJSON over HTTP/1.1, as cheap as Python allows.

Everything it streams is encoded before the first request; what it costs itself is printed with the
results. The model's name says how it talks: ``bench:256x0`` sends 256 tokens as fast as the reader
takes them, ``bench:100x20`` sends 100 tokens at 20 a second. A token is a line in an HTTP chunk of
its own, as Ollama sends it. ``bench-tool:16x0`` first asks for the tool ``echo`` and sends its
tokens in the round after that; ``bench-miss:16x0`` does the same with a tool that nobody has. Who
asks for a form of answer (``format``) gets a summary, in one piece.

    python tests/benchmarks/upstream.py --port 0

prints ``listening on http://127.0.0.1:43211`` once it listens.
"""

import argparse
import asyncio
import contextlib
import functools
import json
import random
import time
from collections.abc import Mapping, Sequence

import msgspec
import uvloop

CREATED_AT = "2026-11-21T01:10:16.003653631Z"
MODELS = (
    "bench:256x0",
    "bench:16x0",
    "bench:5000x0",
    "bench:1000x20",
    "bench:100x20",
    "bench:1000x2",
    "bench-tool:16x0",
    "bench-miss:16x0",
)
CALLED_TOOLS = {"bench-tool": "echo", "bench-miss": "nobody_has_this"}
CALL_ARGUMENTS = {"text": "once more"}
SUMMARY = {"summary": "Somebody was told of streams, at some length.", "topics": ["streams"]}
TOKENS_PER_WRITE = 16
PROMPT_TOKENS = 9_876_543
"""Stands in encoded scripts for what a request's prompt takes, in as many digits or spaces."""
BYTES_PER_TOKEN = 4
WORDS = (
    " the", " of", " stream", "ing", " token", "s", ",", " and", " a", ' "quoted"', " naïve", ".",
    " Then", "\n\n", " it", " goes", " on", ":", " 42", " <b>", " &", " 日本", "語", " déjà", "-vu",
    "!", " some", "what", " long", "er-than-usual", " word", " x",
)  # fmt: skip


class _Said(msgspec.Struct):
    role: str


class _ChatRequest(msgspec.Struct):
    model: str
    messages: msgspec.Raw = msgspec.Raw(b"[]")
    answer_form: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="format")

    @property
    def wants_a_form(self) -> bool:
        """Whether the answer shall be JSON of a certain form."""
        return bytes(self.answer_form) not in {b"null", b'""'}

    @property
    def follows_a_tool(self) -> bool:
        """Whether the last thing said is a tool's result."""
        said = msgspec.json.decode(self.messages, type=list[_Said])
        return bool(said) and said[-1].role == "tool"


class Script(msgspec.Struct, frozen=True):
    """What a model streams: HTTP chunks of one token each, the same in larger writes, the end."""

    tokens: Sequence[bytes]
    writes: Sequence[bytes]
    end: bytes
    interval: float


def token(index: int) -> str:
    """Return the text of a reply's token; neighbours differ, as real ones do."""
    return WORDS[index * 7 % len(WORDS)]


def reply_text(tokens: int) -> str:
    """Return the whole text of a reply of so many tokens."""
    return "".join(token(index) for index in range(tokens))


def reply_to(request: _ChatRequest) -> Script:
    """Choose what is streamed."""
    kind = request.model.partition(":")[0]
    if kind in CALLED_TOOLS and not request.follows_a_tool:
        return call_of(request.model, CALLED_TOOLS[kind])
    return script_of(request.model)


@functools.cache
def script_of(model: str) -> Script:
    """Encode what ``bench:<tokens>x<rate>`` streams."""
    count, rate = (int(number) for number in model.partition(":")[2].split("x"))
    said = [{"content": token(index)} for index in range(count)]
    return _script(model, said, interval=1 / rate if rate else 0)


@functools.cache
def call_of(model: str, tool: str) -> Script:
    """Encode an answer that asks for a tool."""
    call = {"function": {"name": tool, "arguments": CALL_ARGUMENTS}}
    return _script(model, [{"content": "", "tool_calls": [call]}])


@functools.cache
def summary_of(model: str) -> bytes:
    """Encode an answer that is a summary, in JSON and in one piece."""
    message = {"role": "assistant", "content": json.dumps(SUMMARY)}
    return _answer({**_end(model, 24), "prompt_eval_count": 400, "message": message})


def _script(model: str, said: Sequence[Mapping[str, object]], *, interval: float = 0) -> Script:
    tokens = [_line(_piece(model, message)) for message in said]
    return Script(
        tokens=tokens,
        writes=[
            b"".join(tokens[start : start + TOKENS_PER_WRITE])
            for start in range(0, len(tokens), TOKENS_PER_WRITE)
        ],
        end=_line({**_piece(model, {"content": ""}), **_end(model, len(said))}) + b"0\r\n\r\n",
        interval=interval,
    )


def _piece(model: str, said: Mapping[str, object]) -> dict[str, object]:
    message = {"role": "assistant", **said}
    return {"model": model, "created_at": CREATED_AT, "message": message, "done": False}


def _end(model: str, count: int) -> dict[str, object]:
    return {
        "model": model,
        "created_at": CREATED_AT,
        "done": True,
        "done_reason": "stop",
        "total_duration": 1_000_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_count": PROMPT_TOKENS,
        "prompt_eval_duration": 10_000_000,
        "eval_count": count,
        "eval_duration": 900_000_000,
    }


def _line(piece: object) -> bytes:
    data = json.dumps(piece, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


def _answer(body: object) -> bytes:
    data = json.dumps(body).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(data) + data


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
)
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n"
DETAILS = {
    "format": "gguf",
    "family": "bench",
    "families": ["bench"],
    "parameter_size": "1B",
    "quantization_level": "Q4_K_M",
}
FIXED_ANSWERS = {
    "/api/version": _answer({"version": "0.32.15"}),
    "/": b"HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\nOllama is running",
    "/api/tags": _answer(
        {
            "models": [
                {
                    "name": name,
                    "model": name,
                    "modified_at": CREATED_AT,
                    "size": 1_000_000_000,
                    "digest": f"{number:064x}",
                    "details": DETAILS,
                }
                for number, name in enumerate(MODELS, start=1)
            ]
        }
    ),
    "/api/ps": _answer({"models": [{"name": name, "context_length": 8192} for name in MODELS]}),
    "/api/show": _answer(
        {
            "details": DETAILS,
            "model_info": {"general.architecture": "bench", "bench.context_length": 32768},
            "capabilities": ["completion", "tools", "vision"],
            "template": "",
            "modified_at": CREATED_AT,
        }
    ),
    "/v1/traces": _answer({}),
}


class Statistics:
    """What the server did, asked for at ``/bench/stats``."""

    def __init__(self) -> None:
        self.tokens = 0
        self.open_streams = 0
        self.broken_at: list[float] = []

    def as_json(self) -> dict[str, object]:
        """Return the numbers; ``broken_at`` are ``time.monotonic`` of streams left by readers."""
        return {
            "cpu_seconds": time.process_time(),
            "tokens": self.tokens,
            "open_streams": self.open_streams,
            "broken_at": self.broken_at,
        }


class Connection(asyncio.Protocol):
    """One keep-alive connection; requests are answered one after another."""

    transport: asyncio.Transport

    def __init__(self, statistics: Statistics) -> None:
        self.statistics = statistics
        self.loop = asyncio.get_running_loop()
        self.buffer = bytearray()
        self.needed = 0
        self.script: Script | None = None
        self.prompt_tokens = 0
        self.position = 0
        self.due = 0.0
        self.writable = True
        self.timer: asyncio.Handle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        """Note when a reader left in mid-stream."""
        if self.timer is not None:
            self.timer.cancel()
        if self.script is not None:
            self.script = None
            self.statistics.open_streams -= 1
            self.statistics.broken_at.append(time.monotonic())

    def pause_writing(self) -> None:
        """The reader is slower than we are."""
        self.writable = False

    def resume_writing(self) -> None:
        """The reader caught up."""
        self.writable = True
        if self.script is not None and not self.script.interval:
            self._pump()

    def data_received(self, data: bytes) -> None:
        """Answer when a whole request (with ``Content-Length``, if it has a body) is there."""
        self.buffer += data
        if len(self.buffer) < self.needed:
            return
        head, separator, rest = bytes(self.buffer).partition(b"\r\n\r\n")
        if not separator:
            return
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line[15:])
            if line.startswith(b"transfer-encoding:"):
                raise NotImplementedError("request bodies need a Content-Length")
        self.needed = len(head) + len(separator) + length
        if len(rest) >= length:
            self.buffer, self.needed = bytearray(rest[length:]), 0
            self._respond(head.split(b" ", 2)[1].decode(), rest[:length])

    def _respond(self, path: str, body: bytes) -> None:
        if path == "/api/chat":
            request = msgspec.json.decode(body, type=_ChatRequest)
            if request.wants_a_form:
                self.transport.write(summary_of(request.model))
            else:
                self._start(reply_to(request), len(body) // BYTES_PER_TOKEN)
        elif path == "/bench/stats":
            self.transport.write(_answer(self.statistics.as_json()))
        else:
            self.transport.write(FIXED_ANSWERS.get(path, NOT_FOUND))

    def _start(self, script: Script, prompt_tokens: int) -> None:
        self.script = script
        self.prompt_tokens = prompt_tokens
        self.position = 0
        self.statistics.open_streams += 1
        if script.interval:
            self.transport.write(STREAM_HEAD + script.tokens[0])
            self.position = 1
            self.due = self.loop.time() + script.interval * random.uniform(0.5, 1)
            self.timer = self.loop.call_at(self.due, self._tick)
        else:
            self.transport.write(STREAM_HEAD + script.writes[0])
            self.position = 1
            self.timer = self.loop.call_soon(self._pump)

    def _pump(self) -> None:
        script = self.script
        if script is None or not self.writable:
            return
        if self.position == len(script.writes):
            self._finish(script)
            return
        self.transport.write(script.writes[self.position])
        self.position += 1
        self.timer = self.loop.call_soon(self._pump)

    def _tick(self) -> None:
        script = self.script
        if script is None:
            return
        if self.position == len(script.tokens):
            self._finish(script)
            return
        self.transport.write(script.tokens[self.position])
        self.position += 1
        self.due += script.interval
        self.timer = self.loop.call_at(self.due, self._tick)

    def _finish(self, script: Script) -> None:
        self.script = None
        self.statistics.open_streams -= 1
        self.statistics.tokens += len(script.tokens)
        tokens = b"%7d" % self.prompt_tokens  # spaces are as good as digits before a number
        self.transport.write(script.end.replace(b"%d" % PROMPT_TOKENS, tokens))


async def serve(port: int) -> None:
    """Listen on loopback until the process is ended."""
    statistics = Statistics()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(statistics), "127.0.0.1", port, backlog=4096
    )
    print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--port", type=int, default=0)
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(serve(parser.parse_args().port))
