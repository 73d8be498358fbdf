"""JSON-RPC messages in the forms in which servers send them."""

import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from tools_app.mcp.limits import MAX_BATCH, MAX_VALUES
from tools_app.mcp.messages import BARE, MessageLines, in_thread_if_large, read_messages

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def reply(**more):
    return {"jsonrpc": "2.0", "id": 1, **more}


def read(value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    (message,) = read_messages(data)
    return message


def test_numbers_that_json_lacks_are_text():
    data = b'{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"n":[NaN,-Infinity,1e999]}}}'
    assert read(data).result == {"structuredContent": {"n": ["NaN", "-Infinity", "1e999"]}}


@pytest.mark.parametrize(
    "data",
    [
        b'\xef\xbb\xbf{"jsonrpc": "2.0", "id": 1, "result": {"a": "b"}}',
        b'{"id": 1, "result": {"a": "b"}}',
        b'{"jsonrpc": 2.0, "id": 1, "result": {"a": "b"}, "error": null}',
        b'{"jsonrpc": "2.0", "id": 1.0, "result": {"a": "b"}}',
        b'[{"jsonrpc": "2.0", "id": 1, "result": {"a": "b"}}]',
    ],
)
def test_a_result_is_one_in_any_form(data):
    message = read(data)

    assert isinstance(message, JSONRPCResponse)
    assert (message.id, message.result) == ("1", {"a": "b"})


@pytest.mark.parametrize("value", [None, "text", [1], 5])
def test_a_result_that_is_no_object_is_kept(value):
    assert read(reply(result=value)).result == {BARE: value}


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ("broken", -32603, "broken"),
        ({"code": -32042, "message": "sign in"}, -32042, "sign in"),
        ({"code": None, "message": {"why": 1}}, -32603, '{"code":null,"message":{"why":1}}'),
        ({"reason": "x"}, -32603, '{"reason":"x"}'),
    ],
)
def test_an_error_is_one_in_any_form(error, code, message):
    read_error = read(reply(error=error))

    assert isinstance(read_error, JSONRPCError)
    assert (read_error.error.code, read_error.error.message) == (code, message)


def test_bytes_that_are_no_utf_8_and_tabs_in_texts_are_read():
    assert read(b'{"jsonrpc":"2.0","id":1,"result":{"a":"\xe4\t"}}').result == {"a": "\ufffd\t"}


def test_requests_and_notifications_with_odd_parameters_are_read():
    assert isinstance(
        read({"jsonrpc": "2.0", "id": 1, "method": "m", "params": []}), JSONRPCRequest
    )
    notification = read({"jsonrpc": "2.0", "id": True, "method": "m", "params": None})
    assert isinstance(notification, JSONRPCNotification)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"Welcome!",
        b"[INFO] started",
        b"{}",
        b"null",
        b'{"level": "info", "id": 1, "result": "done"}',
        b'{"level": "info", "id": 1, "method": "GET"}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_message_is_none(data):
    assert read_messages(data) == []


def feed(text):
    lines = MessageLines()
    messages, noise = [], b""
    for line in text.splitlines(keepends=True):
        read_now, passed = lines.feed(line)
        messages += read_now
        noise += passed
    return messages, noise


@given(JSON, st.sampled_from([None, 0, 2, "\t"]))
def test_a_message_may_be_printed_in_many_lines(value, indent):
    text = json.dumps(reply(result={"v": value}), indent=indent).encode() + b"\n"

    messages, noise = feed(b"[INFO] ready {\n" + text + text)

    assert [message.result for message in messages] == [{"v": value}] * 2
    assert noise == b"[INFO] ready {\n"


def test_a_line_end_within_a_text_is_read():
    messages, _ = feed(b'{"jsonrpc":"2.0","id":1,"result":{"a":"one\n{two"}}\n')

    assert [message.result for message in messages] == [{"a": "one\n{two"}]


def test_a_log_that_quotes_a_reply_is_none():
    quoted = b'sending {"jsonrpc":"2.0","id":7,"result":{}}\n'

    assert feed(quoted) == ([], quoted)


def test_a_reply_of_broken_json_fails_its_request():
    (message,), _ = feed(b'{"jsonrpc":"2.0","id":7,"result":{"a":oops}}\n')

    assert isinstance(message, JSONRPCError)
    assert message.id == 7  # the SDK takes texts of digits as well
    assert "oops" in message.error.message


def test_a_reply_that_is_never_completed_fails_when_the_next_message_comes():
    whole = json.dumps(reply(result={})).encode()

    broken, message = feed(b'{"jsonrpc":"2.0","id":7,"result":{\n' + whole + b"\n")[0]

    assert (broken.id, message.id) == (7, "1")


def test_a_reply_of_too_many_values_fails_without_being_parsed():
    line = json.dumps(reply(result={"content": [1] * (MAX_VALUES + 1)})).encode()

    (message,), _ = feed(line + b"\n")

    assert message.id == 1
    assert message.error.message.startswith(
        "Its answer can't be read: it has more than 200,000 values. The tool may have run."
    )


def test_a_line_of_more_quotes_than_its_values_can_have_is_not_split_but_fails():
    (message,), _ = feed(b'{"jsonrpc":"2.0","id":7,"result":' + b'"' * (4 * MAX_VALUES) + b"\n")

    assert isinstance(message, JSONRPCError)
    assert message.id == 7


def test_quotes_within_a_text_of_a_message_in_many_lines_are_not_counted():
    text = '"' * (4 * MAX_VALUES + 1)

    messages, _ = feed(json.dumps(reply(result={"a": text}), indent=2).encode())

    assert [message.result for message in messages] == [{"a": text}]


def test_a_batch_of_too_many_messages_fails():
    (message,) = read_messages(json.dumps([reply(result={})] * (MAX_BATCH + 1)).encode())

    assert "more than 1,000 messages" in message.error.message


@pytest.mark.parametrize(
    "end", [b'"id":7}', b'"id":7,"jsonrpc":"2.0"}', b'"jsonrpc":"2.0","id":"7"}']
)
def test_a_reply_that_can_not_be_read_may_name_its_request_at_its_end(end):
    data = b'{"jsonrpc":"2.0","result":{"a":oops, "text":"' + b"x" * 500 + b'"},' + end

    assert [message.id for message in read_messages(data)] == [7]


async def test_a_large_message_is_read_in_a_thread():
    threads = [
        await in_thread_if_large(lambda _: threading.get_ident(), data, held)
        for data, held in ((b"x", 0), (b"x" * 300_000, 0), (b"x", 300_000))
    ]

    assert [thread == threading.get_ident() for thread in threads] == [True, False, False]
