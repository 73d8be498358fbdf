"""A vendor's server that answers each request as told, and what such answers are made of."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from models_app.language_model import CallDelta, Delta, ModelRequest, TextDelta, ThinkingDelta
from models_app.vendors.language_model import VendorLanguageModel
from sessions_app.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

NOW = ToolSpec(name="now", description="Tells the time.", parameters={"type": "object"})


@dataclass
class Answer:
    """An HTTP answer; a list of events is a stream of them."""

    status: int
    body: Any


@dataclass
class Request:
    """One request that came in."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class FakeVendor:
    """A server whose answers are given one after the other, by paths; the last is repeated."""

    answers: dict[str, list[Answer]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def bodies(self) -> list[Any]:
        return [request.body for request in self.requests]

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    def answer(self, path: str, *answers: Answer) -> None:
        self.answers[path] = list(answers)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            start, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            path = start.split(" ")[1].partition("?")[0]
            fields = (line.partition(":") for line in lines)
            headers = {name.lower(): value.strip() for name, _, value in fields}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.requests.append(Request(path, headers, json.loads(body or b"null")))
            given = self.answers.get(path, [Answer(404, b"404 page not found")])
            writer.write(_written(given.pop(0) if len(given) > 1 else given[0]))
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def _written(answer: Answer) -> bytes:
    is_stream = isinstance(answer.body, list)
    if is_stream:
        names = ((event["type"], json.dumps(event)) for event in answer.body)
        body = "".join(f"event: {name}\ndata: {data}\n\n" for name, data in names).encode()
    else:
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
    kind = "text/event-stream" if is_stream else "application/json"
    head = f"HTTP/1.1 {answer.status} X\r\nContent-Type: {kind}\r\nConnection: close\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


@asynccontextmanager
async def running(fake: FakeVendor) -> AsyncIterator[FakeVendor]:
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    fake.port = server.sockets[0].getsockname()[1]
    try:
        yield fake
    finally:
        server.close()


def refused(status: int, message: str, **more: Any) -> Answer:
    """Return a refusal as OpenAI and Anthropic write it."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return Answer(status, {"type": "error", "error": {**error, **more}})


def claude(text: str = "Hello") -> Answer:
    """Return an answer of Anthropic's."""
    usage = {"input_tokens": 4, "output_tokens": 1}
    message = {
        "id": "m", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    delta = {"type": "text_delta", "text": text}
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    return Answer(200, [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ])  # fmt: skip


def user(text: str) -> UserMessage:
    return UserMessage(content=text, message_id="u", timestamp="t")


def asking(*calls: ToolCall, text: str = "", **more: Any) -> AssistantMessage:
    """Return an answer with calls, as it is saved."""
    return AssistantMessage(
        content=text, message_id="a", timestamp="t", tool_calls=tuple(calls), **more
    )


def result(call: ToolCall, content: str = "noon") -> ToolMessage:
    return ToolMessage(
        content=content, message_id="r", timestamp="t", tool_name=call.name, tool_call_id=call.id
    )


async def ask(
    model: VendorLanguageModel, name: str, *messages: Message, **more: Any
) -> list[Delta]:
    request = ModelRequest(model=name, messages=messages or [user("Hello")], **more)
    async with aclosing(model.stream(request)) as batches:
        return [delta async for batch in batches for delta in batch]


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def thinking_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, ThinkingDelta))


def calls_of(deltas: list[Delta]) -> list[ToolCall]:
    return [delta.call for delta in deltas if isinstance(delta, CallDelta)]
