"""A vendor's server that answers each request as told, and what such answers are made of."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from models_app.language_model import Delta, ModelRequest
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


def chat_answer(text: str = "Hello") -> Answer:
    """Return an answer of Chat Completions."""
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    delta = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    return Answer(200, [{**head, "type": "x", "choices": [choice]} for choice in (delta, end)])


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


# OpenAI's Responses: the events of an answer, in the order in which OpenAI sends them.


def reasoning(item_id: str, *summary: str, sealed: str | None = "c2VhbGVk") -> list[dict[str, Any]]:
    """Return the events of a reasoning item, with a part for each text of its summary."""
    item = {"id": item_id, "type": "reasoning", "summary": []}
    place = {"item_id": item_id, "output_index": 0}
    events = [{"type": "response.output_item.added", "output_index": 0, "item": item}]
    name = "response.reasoning_summary"
    for index, text in enumerate(summary):
        at = {**place, "summary_index": index}
        empty, whole = ({"type": "summary_text", "text": it} for it in ("", text))
        events += [
            {"type": f"{name}_part.added", **at, "part": empty},
            *({"type": f"{name}_text.delta", **at, "delta": piece} for piece in _pieces(text)),
            {"type": f"{name}_text.done", **at, "text": text},
            {"type": f"{name}_part.done", **at, "part": whole},
        ]
    done = {**item, "summary": [{"type": "summary_text", "text": text} for text in summary]}
    done |= {} if sealed is None else {"encrypted_content": sealed}
    return [*events, {"type": "response.output_item.done", "output_index": 0, "item": done}]


def raw_reasoning(item_id: str, *contents: str) -> list[dict[str, Any]]:
    """Return the events of reasoning that is not summarized, as gpt-oss has it."""
    item = {"id": item_id, "type": "reasoning", "summary": [], "content": []}
    events = [{"type": "response.output_item.added", "output_index": 0, "item": item}]
    for index, text in enumerate(contents):
        at = {"item_id": item_id, "output_index": 0, "content_index": index}
        kind = "response.reasoning_text"
        events += [{"type": f"{kind}.delta", **at, "delta": piece} for piece in _pieces(text)]
        events.append({"type": f"{kind}.done", **at, "text": text})
    done = {**item, "content": [{"type": "reasoning_text", "text": text} for text in contents]}
    return [*events, {"type": "response.output_item.done", "output_index": 0, "item": done}]


def message(text: str, item_id: str = "msg_1", phase: str | None = None) -> list[dict[str, Any]]:
    """Return the events of a text."""
    item = {"id": item_id, "type": "message", "role": "assistant", "content": []}
    item |= {"status": "in_progress"} | ({} if phase is None else {"phase": phase})
    at = {"item_id": item_id, "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": text, "annotations": []}
    done = {**item, "status": "completed", "content": [part]}
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
        *(
            {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
            for piece in _pieces(text)
        ),
        {"type": "response.output_text.done", **at, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **at, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
    ]


def refusal(text: str) -> list[dict[str, Any]]:
    """Return the events of a refusal by the model."""
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    return [
        {"type": "response.refusal.delta", **at, "delta": text},
        {"type": "response.refusal.done", **at, "refusal": text},
    ]


def call(call_id: str, name: str = "now", arguments: str = "{}") -> list[dict[str, Any]]:
    """Return the events of a call; its item's id is the call's with ``fc_`` before it."""
    item = {
        "id": f"fc_{call_id}", "type": "function_call", "call_id": call_id, "name": name,
        "arguments": "", "status": "in_progress",
    }  # fmt: skip
    at = {"item_id": item["id"], "output_index": 0}
    kind = "response.function_call_arguments"
    done = {**item, "arguments": arguments, "status": "completed"}
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *({"type": f"{kind}.delta", **at, "delta": piece} for piece in _pieces(arguments)),
        {"type": f"{kind}.done", **at, "arguments": arguments, "name": name},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
    ]


USAGE = {
    "input_tokens": 590,
    "input_tokens_details": {"cached_tokens": 500, "cache_write_tokens": 80},
    "output_tokens": 40,
    "output_tokens_details": {"reasoning_tokens": 30},
    "total_tokens": 630,
}


def response(
    *items: list[dict[str, Any]], end: str | None = "completed", model: str = "m", **more: Any
) -> Answer:
    """Return the stream of an answer; ``end`` is its last event, None for a stream without one."""
    head = {
        "id": "resp_1", "object": "response", "created_at": 1, "model": model, "output": [],
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "status": "in_progress",
        "error": None, "incomplete_details": None, "usage": None,
    }  # fmt: skip
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": head},
        {"type": "response.in_progress", "response": head},
        *(event for item in items for event in item),
    ]
    if end is not None:
        last = {**head, "status": end, "usage": USAGE, **more}
        events.append({"type": f"response.{end}", "response": last})
    return Answer(200, [{**it, "sequence_number": number} for number, it in enumerate(events)])


def _pieces(text: str) -> list[str]:
    return [text[start : start + 4] for start in range(0, len(text), 4)]
