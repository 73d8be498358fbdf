"""One turn, followed in every protocol at once: the same text, the same calls, the same end."""

import json
import threading
from contextlib import closing

import pytest

from tests.functional.conftest import block
from tests.functional.dialects.connecting import client_at, http_at

TOOLS = '''
"""Two tools."""

__all__ = ["add", "note"]


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One.
        b: The other.
    """
    return a + b


def note(text: str) -> str:
    """Write a line down.

    Args:
        text: The line.
    """
    return f"noted {text}"
'''
CONFIRM = "tool_call_confirmation_required"
SCRIPT = block(
    {
        "tool_call": [
            {"name": "add", "args": {"a": 1, "b": 2}},
            {"name": "note", "args": {"text": "three"}},
        ]
    },
    {
        "text_message": {
            "text": [" \n", "\n It is ", "3,", " \n", " ", "and noted\u2028.", " \n", "\t"],
            "reasoning": ["\n Bo", "th.\u2029", "\u2028 ", "Né. \n\n"],
        }
    },
    per_request=True,
)
# A last piece of nothing but white space is shown when it comes, and so it is saved.
TEXT, REASONING = "It is 3, \n and noted\u2028. \n\t", "Both.\u2029\u2028 Né."


@pytest.fixture(scope="module")
def server(start_once):
    server = start_once("--workers", "2")
    folder = server.data_dir / "tools"
    folder.mkdir(exist_ok=True)
    (folder / "pair.py").write_text(TOOLS)
    return server


class Following(threading.Thread):
    """Reads a stream in a thread, and tells what it saw."""

    def __init__(self, read, is_question):
        super().__init__(daemon=True)
        self.asked = threading.Event()
        self.seen = []
        self._read = read
        self._is_question = is_question
        self.start()

    def run(self):
        try:
            for event in self._read():
                self.seen.append(event)
                if self._is_question(event):
                    self.asked.set()
        finally:
            self.asked.set()

    def to_the_end(self):
        self.join(timeout=60)
        assert not self.is_alive()
        return self.seen


def follow(client, name):
    return Following(
        lambda: client.responses.retrieve(name, stream=True),
        lambda event: (
            event.type == "response.output_item.done" and event.item.type == "mcp_approval_request"
        ),
    )


def follow_thread(http, thread_id):
    """Follow a thread of AG-UI."""

    def read():
        with closing(http), http.stream("GET", f"/agui/{thread_id}") as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

    return Following(read, lambda event: event.get("name") == "interrupt")


def follow_page(http, chat_id):
    """Follow a chat of the AI SDK, up to the question that ends its stream."""

    def read():
        with closing(http), http.stream("GET", f"/ui/chat/{chat_id}/stream") as answer:
            yield from chunks_in(answer.iter_lines())

    return Following(read, lambda chunk: chunk["type"] == "tool-approval-request")


def chunks_in(lines):
    *chunks, end = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    assert end == "[DONE]"
    return [json.loads(chunk) for chunk in chunks]


def approval(chat_id, chunks):
    """Return what a page sends when the question that it was asked is answered with yes."""
    [asked] = [chunk for chunk in chunks if chunk["type"] == "tool-approval-request"]
    part = {
        "type": "dynamic-tool",
        "toolCallId": asked["toolCallId"],
        "state": "approval-responded",
        "approval": {"id": asked["approvalId"], "approved": True},
    }
    message = {"id": chunks[0]["messageId"], "role": "assistant", "parts": [part]}
    return {"id": chat_id, "message": message, "messageId": message["id"]}


def test_text_calls_and_status_are_the_same_for_all_who_follow_a_turn(server, connect):
    chat = server.chat()
    policies = {"tools": ["add", "note"], "tool_policies": {"add": "never_confirm"}}
    session_id = chat.new_session(tool_settings=policies)
    with chat.stream(session_id, message=SCRIPT, think=True) as events:
        started = next(events)
        name = f"resp_{session_id}{started.data['turn_id']}"
        native = Following(lambda: events, lambda event: event.name == CONFIRM)
        followers = [follow(client_at(server, worker, connect), name) for worker in (0, 1)]
        threads = [follow_thread(http_at(server, worker), session_id) for worker in (0, 1)]
        pages = [follow_page(http_at(server, worker), session_id) for worker in (0, 1)]
        for follower in (native, *followers, *threads, *pages):
            assert follower.asked.wait(60)
        first, same = (page.to_the_end() for page in pages)
        assert first == same
        answer = server.chat().http.post("/ui/chat", json=approval(session_id, first))
        assert answer.status_code == 200, answer.text
        rest = chunks_in(answer.text.splitlines())
        seen = native.to_the_end()
    expected = told_natively(seen)
    assert (expected["text"], expected["thinking"]) == (TEXT, REASONING)
    assert [call["output"] for call in expected["calls"]] == ["3", "noted three"]
    streams = [as_sent(follower.to_the_end()) for follower in followers]
    client = connect(server)
    streams.append(as_sent(client.responses.retrieve(name, stream=True)))  # a late joiner
    assert streams[0] == streams[1] == streams[2]
    final = streams[0][-1]["response"]
    assert told_by(final) == expected
    assert told_by_deltas(streams[0]) == (expected["thinking"], expected["text"])
    assert client.responses.retrieve(name).to_dict() == final
    late = chat.reattach(session_id)
    assert told_natively(late) == expected
    runs = [thread.to_the_end() for thread in threads]
    assert runs[0] == runs[1]
    [*_, end] = runs[0]
    assert (end["type"], end["outcome"]) == ("RUN_FINISHED", {"type": "success"})
    assert told_by_run(runs[0]) == expected
    late = follow_thread(http_at(server, 0), session_id).to_the_end()
    assert [event["type"] for event in late] == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert told_by_snapshot(late[1]["messages"]) == expected
    assert first[0]["messageId"] == rest[0]["messageId"] == f"turn-{started.data['turn_id']}"
    assert told_by_chunks([*first, *rest]) == expected
    page = chat.http.get(f"/ui/chat/{session_id}/messages").json()["messages"]
    assert page[-1]["id"] == first[0]["messageId"]
    assert told_by_page(page) == expected
    assert told_by_messages(server.session_file(session_id)["messages"]) == expected


def test_pieces_of_a_completion_add_up_to_the_whole_one(server, connect):
    said = [{"role": "user", "content": SCRIPT}, {"role": "assistant", "content": "1"}]
    asked = {"model": "qwen3:14b", "messages": said, "reasoning_effort": "low"}
    create = connect(server).chat.completions.create
    whole = create(**asked).choices[0].message
    chunks = [chunk.choices[0].delta for chunk in create(**asked, stream=True)]
    assert "".join(delta.content or "" for delta in chunks) == whole.content == TEXT
    thoughts = [getattr(delta, "reasoning_content", None) or "" for delta in chunks]
    assert "".join(thoughts) == whole.reasoning_content == REASONING


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/v1/responses", {"model": "qwen3:14b", "input": SCRIPT, "reasoning": {"effort": "low"}}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "\u2028é"}]}),
    ],
)
def test_no_stream_has_line_separators_of_others(server, path, more):
    body = {"model": "qwen3:14b", "stream": True, **more}
    answer = server.chat().http.post(f"{server.url}{path}", json=body)
    assert answer.status_code == 200
    assert answer.content.isascii()


def as_sent(events):
    return [event.to_dict() for event in events]


def told_natively(events):
    by_name = {}
    for event in events:
        by_name.setdefault(event.name, []).append(event.data)
    [complete] = by_name["message_complete"]
    assert "".join(data["content"] for data in by_name["content_delta"]) == complete["content"]
    assert "".join(data["content"] for data in by_name["thinking_delta"]) == complete["thinking"]
    return {
        "thinking": complete["thinking"],
        "text": complete["content"],
        "status": "completed",
        "calls": [
            {"name": call["tool_name"], "arguments": call["arguments"], "output": call["result"]}
            for call in complete["tool_calls"]
        ],
    }


def told_by(response):
    items = response["output"]
    [reasoning] = [item for item in items if item["type"] == "reasoning"]
    [message] = [item for item in items if item["type"] == "message"]
    ran = {item["name"]: item for item in items if item["type"] == "mcp_call"}
    return {
        "thinking": reasoning["summary"][0]["text"],
        "text": message["content"][0]["text"],
        "status": response["status"],
        "calls": [
            {
                "name": name,
                "arguments": json.loads(ran[name]["arguments"]),
                "output": ran[name]["output"],
            }
            for name in ("add", "note")
        ],
    }


def told_by_deltas(events):
    deltas = {"response.reasoning_summary_text.delta": "", "response.output_text.delta": ""}
    for event in events:
        if event["type"] in deltas:
            deltas[event["type"]] += event["delta"]
    return tuple(deltas.values())


def told_by_run(events):
    texts, calls = {}, {}
    for event in events:
        kind = event["type"]
        if kind in {"TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"}:
            texts[kind] = texts.get(kind, "") + event["delta"]
        elif kind == "TOOL_CALL_START":
            calls[event["toolCallId"]] = {"name": event["toolCallName"]}
        elif kind == "TOOL_CALL_ARGS":
            calls[event["toolCallId"]]["arguments"] = json.loads(event["delta"])
        elif kind == "TOOL_CALL_RESULT":
            calls[event["toolCallId"]]["output"] = event["content"]
    return {
        "thinking": texts["REASONING_MESSAGE_CONTENT"],
        "text": texts["TEXT_MESSAGE_CONTENT"],
        "status": "completed",
        "calls": sorted(calls.values(), key=lambda call: call["name"]),
    }


def told_by_snapshot(messages):
    [asking, answer] = [each for each in messages if each["role"] == "assistant"]
    outputs = {each["toolCallId"]: each["content"] for each in messages if each["role"] == "tool"}
    [reasoning] = [each for each in messages if each["role"] == "reasoning"]
    return {
        "thinking": reasoning["content"],
        "text": answer["content"],
        "status": "completed",
        "calls": [
            {
                "name": call["function"]["name"],
                "arguments": json.loads(call["function"]["arguments"]),
                "output": outputs[call["id"]],
            }
            for call in asking["toolCalls"]
        ],
    }


def told_by_chunks(chunks):
    texts, calls = {}, {}
    for chunk in chunks:
        kind = chunk["type"]
        if kind in {"text-delta", "reasoning-delta"}:
            texts[kind] = texts.get(kind, "") + chunk["delta"]
        elif kind == "tool-input-available":
            call = {"name": chunk["toolName"], "arguments": chunk["input"]}
            calls[chunk["toolCallId"]] = call
        elif kind == "tool-output-available":
            calls[chunk["toolCallId"]]["output"] = chunk["output"]
    assert (chunks[-1]["type"], chunks[-1]["finishReason"]) == ("finish", "stop")
    return {
        "thinking": texts["reasoning-delta"],
        "text": texts["text-delta"],
        "status": "completed",
        "calls": sorted(calls.values(), key=lambda call: call["name"]),
    }


def told_by_page(messages):
    [_, answer] = messages
    [reasoning] = [part for part in answer["parts"] if part["type"] == "reasoning"]
    [text] = [part for part in answer["parts"] if part["type"] == "text"]
    return {
        "thinking": reasoning["text"],
        "text": text["text"],
        "status": "completed",
        "calls": [
            {"name": part["toolName"], "arguments": part["input"], "output": part["output"]}
            for part in answer["parts"]
            if part["type"] == "dynamic-tool"
        ],
    }


def told_by_messages(messages):
    [asking, answer] = [message for message in messages if message["role"] == "assistant"]
    outputs = {
        message["tool_call_id"]: message["content"]
        for message in messages
        if message["role"] == "tool"
    }
    return {
        "thinking": answer["thinking"],
        "text": answer["content"],
        "status": "completed" if answer["done_reason"] == "stop" else answer["done_reason"],
        "calls": [
            {
                "name": call["function"]["name"],
                "arguments": call["function"]["arguments"],
                "output": outputs[call["id"]],
            }
            for call in asking["tool_calls"]
        ],
    }
