"""Replies and the requests that they answer."""

from collections import Counter

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest

from tools_app.mcp.descriptions import RESULT
from tools_app.mcp.elicitation import OpenCalls
from tools_app.mcp.exchange import Replies, Requests
from tools_app.mcp.messages import read_messages


@pytest.fixture
async def server():
    """Return the streams of a client, and those of its server."""
    replying, replies = anyio.create_memory_object_stream(10)
    requests, requested = anyio.create_memory_object_stream(10)
    async with replying, replies, requests, requested:
        sending = Requests(requests, OpenCalls())
        yield Replies(replies, sending, Counter()), sending, replying


async def send(requests, **fields):
    kind = JSONRPCRequest if "id" in fields else JSONRPCNotification
    await requests.send(SessionMessage(kind(jsonrpc="2.0", **fields)))


async def reply(replies, replying, text):
    (message,) = read_messages(text)
    await replying.send(SessionMessage(message))
    return (await replies.receive()).message


async def test_a_reply_without_an_id_answers_the_only_open_request(server):
    replies, requests, replying = server
    await send(requests, id=4, method="tools/call")

    message = await reply(replies, replying, b'{"jsonrpc": "2.0", "result": {"a": 1}}')

    assert message.id == "4"
    assert message.result["_meta"][RESULT] == {"a": 1}


async def test_a_cancelled_request_is_forgotten(server):
    replies, requests, replying = server
    await send(requests, id=1, method="tools/call")
    await send(requests, method="notifications/cancelled", params={"requestId": 1})

    assert (await reply(replies, replying, b'{"id": 1, "result": {}}')).result == {}
