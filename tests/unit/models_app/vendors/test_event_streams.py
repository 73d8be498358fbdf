"""Streams that no server should send cost little, and end as errors."""

import time

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
