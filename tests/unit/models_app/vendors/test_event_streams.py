"""Ordinary texts are passed on, and streams that no server should send end as errors."""

import json
import time

import pytest

from models_app.vendors.chat_chunks import ChatChunks
from models_app.vendors.event_streams import EventReader

READ_BYTES = 65_536


def longest_read(stream):
    reader = EventReader(ChatChunks())
    longest = 0.0
    for begin in range(0, len(stream), READ_BYTES):
        before = time.thread_time()
        reader.feed(stream[begin : begin + READ_BYTES])
        longest = max(longest, time.thread_time() - before)
    return longest


def test_a_name_repeated_with_each_piece_of_a_long_call_holds_nothing_up():
    piece = b'{"id":"a","function":{"name":"f","arguments":"1"}}'
    chunk = b'data: {"choices":[{"delta":{"tool_calls":[' + b",".join([piece] * 1_000)
    assert longest_read((chunk + b"]}}]}\n\n") * 40) < 0.25


def test_lines_after_a_long_one_of_the_same_event_hold_nothing_up():
    assert longest_read(b"data:  {" + b"x" * 4_000_000 + b"\n" + b"data:x\n" * 9_000) < 0.25


def test_a_chunk_nested_too_deep_to_read_is_an_error_of_the_server():
    deep = b"[" * 900 + b"]" * 900
    told = EventReader(ChatChunks()).feed(
        b'data: {"choices":[{"delta":{"content":' + deep + b"}}]}\n\n"
    )
    assert told.startswith(b'data: {"error":')


def test_a_detail_of_reasoning_whose_type_is_no_text_is_still_reasoning():
    data = b'data: {"choices":[{"delta":{"reasoning_details":[{"type":[],"text":"why"}]}}]}\n\n'

    events = EventReader(ChatChunks(is_openrouter=True)).feed(data)

    assert b'"reasoning_content":"why"' in events


def chunk(content, **more):
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": None}
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**head, "choices": [choice], **more}


def sent(*values, **how):
    return b"".join(f"data: {json.dumps(value, **how)}\n\n".encode() for value in values)


def read(reader, *reads):
    events = b"".join(map(reader.feed, reads)).decode().split("\n\n")
    return [json.loads(event.removeprefix("data: ")) for event in events if event]


def texts(values):
    return "".join(value["choices"][0]["delta"]["content"] for value in values)


@pytest.fixture
def reader():
    """Return a reader of an answer that has begun."""
    begun = EventReader(ChatChunks())
    begun.feed(sent(chunk("Once")))
    return begun


ORDINARY = [
    chunk(" upon"),
    chunk(" a", usage=None, obfuscation="x7", service_tier="default"),
    dict(reversed(chunk(' "time"\n\\').items())),
    chunk("\u2028\u0085Zürich 猫 🐈 \x7f"),
]


@pytest.mark.parametrize("value", ORDINARY)
@pytest.mark.parametrize("is_ascii", [True, False])
@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":")])
def test_ordinary_text_is_passed_on_as_it_is(reader, value, is_ascii, separators):
    written = sent(value, ensure_ascii=is_ascii, separators=separators)
    assert reader.feed(written) is written


@pytest.mark.parametrize("size", [1, 7, 100, 150, 1000])
def test_texts_come_whole_however_they_are_cut(reader, size):
    written = sent(*ORDINARY, ensure_ascii=False)
    pieces = [written[at : at + size] for at in range(0, len(written), size)]
    assert texts(read(reader, *pieces)) == texts(ORDINARY)


@pytest.mark.parametrize(
    ("odd", "expected"),
    [
        (sent({"choices": chunk("x")["choices"]}), "x"),
        (sent(chunk(5)), "5"),
        (sent(chunk([{"type": "text", "text": "x"}])), "x"),
        (sent(chunk("x", usage={"prompt_tokens": "1"})), "x"),
        (sent(chunk("\ud83d")), "\ud83d"),
        (sent(chunk("x\xff"), ensure_ascii=False).replace("\xff".encode(), b"\xff"), "x\ufffd"),
        (sent(chunk("x")).replace(b"\n\n", b"\r\n\r\n"), "x"),
        (b": ping\n\n" + sent(chunk("x")), "x"),
        (sent(chunk("x" * 100_000)), "x" * 100_000),
        (sent(chunk("")), ""),
    ],
)
def test_an_odd_chunk_between_ordinary_ones_is_translated(reader, odd, expected):
    ordinary = sent(chunk("."))
    found = read(reader, ordinary, odd, ordinary, ordinary + odd + ordinary)
    assert texts(found) == f".{expected}..{expected}."
    assert all(value.keys() >= {"id", "object", "created", "model"} for value in found)


def test_the_first_chunk_of_an_answer_is_translated():
    written = sent(chunk("Once"))
    assert EventReader(ChatChunks()).feed(written) != written


@pytest.mark.parametrize(
    "content", [b'"\\x41"', b'"\\u12"', b'"a\tb"', b'"a"b"', b'"a', b'"\\"', b"{}"]
)
def test_what_is_no_text_in_json_is_read_with_care(reader, content):
    written = sent(chunk("TEXT")).replace(b'"TEXT"', content)
    assert reader.feed(written) is not written


def test_an_error_beside_a_text_is_one(reader):
    assert b'data: {"error":' in reader.feed(sent(chunk("x", error="out of memory")))
