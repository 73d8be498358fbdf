"""What servers over HTTP answer: refusals, and replies of odd forms."""

import json

import pytest

from tests.unit.tools_app.mcp.http_servers import listening, older_server, reply


@pytest.mark.parametrize(
    ("status", "headers", "body", "message"),
    [
        (
            403,
            {},
            b'{"error": {"message": "not yours"}}',
            '403 Forbidden. It said: {"error": {"message": "not yours"',
        ),
        (429, {"Retry-After": "7"}, b"", "429 Too Many Requests. Try again in 7 sec"),
        (502, {"Content-Type": "text/html"}, b"<h1>Bad</h1> day", "502 Bad Gateway. It said: Bad"),
        (400, {}, b'{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"odd"}}', ": odd"),
        (404, {}, b"", "404 Not Found"),
        (403, {"Content-Type": "text/event-stream"}, b"data: no\n\n", "403 Forbidden"),
        (200, {"Content-Type": "text/html"}, b"<title>Login</title>", "text/html"),
        (200, {}, b"", "It said: nothing"),
        (200, {}, b'{"id":1,"result":' + b'{"a":' * 400 + b"1" + b"}" * 401, "nested too deeply"),
    ],
)
async def test_a_refusal_says_its_status_and_words(lab, status, headers, body, message):
    async with listening(older_server(lambda: reply(status, body, headers))) as url:
        await lab.configure(srv={"url": url})
        await lab.listed("srv")

        result = await lab.call("srv__run")

    assert result.error_code == "TOOL_EXECUTION_FAILED"
    assert message in (result.error_message or "")


async def test_a_server_that_wants_a_key_says_so_at_its_start(lab):
    async with listening(lambda *_: reply(401, b"No key")) as url:
        await lab.configure(srv={"url": url})
        await lab.listed("srv")

    error = (await lab.server("srv")).error or ""
    assert error.startswith("It needs a login: mochi-server mcp login srv. It answered 401")
    assert "It wants a valid key: set 'headers' of its entry" in error
    assert error.endswith("It said: No key")


def result_text(text):
    result = {"content": [{"type": "text", "text": text}]}
    return json.dumps({"jsonrpc": "2.0", "id": "other", "result": result})


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", "\ufeff" + result_text("ran")),
        ("application/json", f"[{result_text('ran')}]"),
        ("text/plain", result_text("ran")),
        ("text/event-stream", f": alive\n\ndata: ping\n\ndata: [{result_text('ran')}]\n\n"),
        (
            "text/event-stream",
            f"event: ping\ndata: {{}}\n\nevent: x\ndata:{result_text('ran')}\n\n",
        ),
        ("text/event-stream", 'data: {"jsonrpc": "2.0",\ndata: "result": "ran"}\n\n'),
    ],
)
async def test_a_reply_of_an_odd_form_is_used(lab, kind, body):
    answer = older_server(lambda: reply(200, body.encode(), {"Content-Type": kind}))
    async with listening(answer) as url:
        await lab.configure(srv={"url": url})
        await lab.listed("srv")

        assert (await lab.call("srv__run")).result == "ran"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}'),
        (400, b"Bad Request: No valid session ID provided"),
    ],
)
async def test_a_session_that_is_unknown_is_made_anew(lab, status, body):
    answers = [reply(status, body), {"content": "ran"}]

    async with listening(older_server(lambda: answers.pop(0))) as url:
        await lab.configure(srv={"url": url})
        await lab.listed("srv")

        assert not (await lab.call("srv__run")).success
        await lab.eventually(lambda: lab.tools._servers["srv"].state in ("backing_off", "failed"))
        assert (await lab.call("srv__run")).result == "ran"
