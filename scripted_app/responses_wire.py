"""Speaks OpenAI's Responses API: output items, each added, streamed in pieces, and done.

Reasoning is an item with a summary. A piece that begins with ``**``, as the heading of a real part
does, begins a new part of the summary.
"""

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scripted_app.openai_wire import FRAGMENT_CHARACTERS
from scripted_app.replies import (
    Chunk,
    Reason,
    ReasoningChunk,
    TextChunk,
    ToolCallChunk,
    estimate_tokens,
)
from scripted_app.responses_requests import SMALLEST_CACHED, ResponsesRequest, encrypted
from scripted_app.wire import cut_by_utf16, encode

INCOMPLETE: Mapping[Reason, Mapping[str, str]] = {
    "length": {"reason": "max_output_tokens"},
    "refused": {"reason": "content_filter"},
}
FAILURES = ("server_error", "rate_limit_exceeded")
"""The codes of ``response.failed``: the one that the text begins with, or else the first."""


class ResponsesReply:
    """One reply of ``POST /v1/responses``."""

    content_type = "text/event-stream"

    def __init__(self, request: ResponsesRequest) -> None:
        self._request = request
        self._id = f"resp_{secrets.token_hex(12)}"
        self._created = int(time.time())
        self._sequence = -1
        self._output: list[dict[str, Any]] = []
        self._item: dict[str, Any] = {}
        self._message_index = 0
        self._text = ""
        self._thought = 0

    def frames(self, chunk: Chunk) -> Iterator[bytes]:
        """Yield the events of a chunk; a tool call's arguments are sent in fragments."""
        match chunk:
            case TextChunk(text):
                yield self._message(chunk) + self._text_delta(text)
            case ReasoningChunk(text):
                self._thought += len(text)
                yield self._reasoning(chunk) + self._summary_delta(text)
            case ToolCallChunk():
                call = {"call_id": chunk.id, "name": chunk.name, "arguments": ""}
                yield self._open("function_call", "fc", chunk, **call)
                for piece in cut_by_utf16(encode(chunk.arguments).decode(), FRAGMENT_CHARACTERS):
                    self._text += piece
                    yield self._about_item("function_call_arguments.delta", delta=piece)

    def end(self, reason: Reason, completion_tokens: int) -> bytes:
        """Return the end: what is left of the last item, and the whole response.

        Reasoning counts into its limit of tokens.
        """
        status = "completed" if reason == "stop" else "incomplete"
        events = self._start() + self._close()
        response = self._response(
            status,
            usage=self._usage(completion_tokens),
            incomplete_details=INCOMPLETE.get(reason),
        )
        return events + self._event(f"response.{status}", response=response)

    def error(self, message: str) -> bytes:
        """Return ``response.failed``; the message may begin with one of ``FAILURES``."""
        code, colon, words = message.partition(": ")
        named = bool(colon) and code in FAILURES
        failure = (
            {"code": code, "message": words} if named else {"code": FAILURES[0], "message": message}
        )
        response = self._response("failed", error=failure)
        return self._start() + self._event("response.failed", response=response)

    def whole(self, chunks: Sequence[Chunk], completion_tokens: int) -> bytes:
        """Return a whole response."""
        for chunk in chunks:
            for _ in self.frames(chunk):
                pass
        self._close()
        return encode(self._response("completed", usage=self._usage(completion_tokens)))

    def _message(self, chunk: TextChunk) -> bytes:
        if self._continues("message", chunk):
            return b""
        phase = "commentary" if self._request.makes_calls else "final_answer"
        marked = {"phase": phase} if self._request.card.efforts else {}
        opening = self._open("message", "msg", chunk, role="assistant", content=[], **marked)
        part = _text_part("")
        return opening + self._about_item("content_part.added", content_index=0, part=part)

    def _text_delta(self, text: str) -> bytes:
        self._text += text
        return self._about_item("output_text.delta", content_index=0, delta=text, logprobs=[])

    def _reasoning(self, chunk: ReasoningChunk) -> bytes:
        if self._continues("reasoning", chunk):
            return b""
        return self._open("reasoning", "rs", chunk, summary=[])

    def _summary_delta(self, text: str) -> bytes:
        if not self._request.summarizes:
            return b""
        events, index = b"", len(self._item["summary"])
        if self._text and text.startswith("**"):
            events, index = self._end_part(), index + 1
        if not self._text:
            part = {"type": "summary_text", "text": ""}
            events += self._about_item(
                "reasoning_summary_part.added", summary_index=index, part=part
            )
        self._text += text
        return events + self._about_item(
            "reasoning_summary_text.delta", summary_index=index, delta=text
        )

    def _end_part(self) -> bytes:
        """End the open part of a summary."""
        part, text = {"type": "summary_text", "text": self._text}, self._text
        index = len(self._item["summary"])
        self._item["summary"].append(part)
        self._text = ""
        return self._about_item(
            "reasoning_summary_text.done", summary_index=index, text=text
        ) + self._about_item("reasoning_summary_part.done", summary_index=index, part=part)

    def _continues(self, kind: str, chunk: Chunk) -> bool:
        return self._item.get("type") == kind and self._message_index == chunk.message_index

    def _open(self, kind: str, prefix: str, chunk: Chunk, **fields: Any) -> bytes:
        """Begin an item, and the response with the first one."""
        events = self._start() + self._close()
        item_id = f"{prefix}_{secrets.token_hex(12)}"
        self._message_index = chunk.message_index
        self._item = {"id": item_id, "type": kind, "status": "in_progress", **fields}
        return events + self._item_event("added")

    def _close(self) -> bytes:
        """End the open item."""
        item, text = self._item, self._text
        if not item:
            return b""
        events = b""
        match item["type"]:
            case "message":
                part = _text_part(text)
                item["content"] = [part]
                events = self._about_item(
                    "output_text.done", content_index=0, text=text, logprobs=[]
                ) + self._about_item("content_part.done", content_index=0, part=part)
            case "function_call":
                item["arguments"] = text
                events = self._about_item("function_call_arguments.done", arguments=text)
            case _:
                events = self._end_part() if text else b""
                if self._request.encrypts:
                    item["encrypted_content"] = encrypted(self._request.name, item["id"])
        item["status"] = "completed"
        events += self._item_event("done")
        self._output.append(item)
        self._item, self._text = {}, ""
        return events

    def _start(self) -> bytes:
        if self._sequence >= 0:
            return b""
        response = self._response("in_progress")
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def _item_event(self, what: str) -> bytes:
        place = len(self._output)
        return self._event(f"response.output_item.{what}", output_index=place, item=self._item)

    def _about_item(self, kind: str, **fields: Any) -> bytes:
        place = {"item_id": self._item["id"], "output_index": len(self._output)}
        return self._event(f"response.{kind}", **place, **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        self._sequence += 1
        data = encode({"type": kind, "sequence_number": self._sequence, **fields})
        return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"

    def _response(self, status: str, **rest: Any) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "model": self._request.name,
            "output": self._output,
            "parallel_tool_calls": True,
            "store": False,
            "tool_choice": "auto",
            "tools": [],
            **rest,
        }

    def _usage(self, completion_tokens: int) -> dict[str, Any]:
        prompt, cached = self._request.prompt_tokens, self._request.cached_tokens
        written = prompt - cached if prompt >= SMALLEST_CACHED else 0
        return {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
            "output_tokens": completion_tokens,
            "output_tokens_details": {"reasoning_tokens": estimate_tokens(self._thought)},
            "total_tokens": prompt + completion_tokens,
        }


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
