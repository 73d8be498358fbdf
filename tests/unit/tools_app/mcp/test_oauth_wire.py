"""The requests of a login go to addresses that were checked, with limits."""

import asyncio
import ssl

import httpx2
import pytest

from mochi_project.addresses import is_public_web, is_this_machine
from tests.unit.tools_app.mcp.http_servers import reply
from tests.unit.tools_app.mcp.oauth_servers import serving
from tools_app.mcp.oauth_wire import MAX_BYTES, OAuthWire, oauth_wire
from tools_app.mcp.remote import RemoteError

HERE = "http://127.0.0.1:1"


def wire_to(addresses, *, origins=(), policy=is_public_web):
    """Return what sends requests, the requests that it sends, and how hosts are resolved."""
    sent = []

    def answer(request):
        sent.append(request)
        return httpx2.Response(200, stream=httpx2.ByteStream(b"{}"))

    async def resolve(host, port):
        if not addresses:
            raise OSError
        return addresses

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    return OAuthWire(client, frozenset(origins), policy, resolve), sent


async def test_a_public_address_is_asked_as_the_one_that_was_checked():
    wire, sent = wire_to(["2606:2800:21f:cb07::1", "93.184.215.14"])

    await wire.send(httpx2.Request("GET", "https://login.example/.well-known/x?y=z"))

    [request] = sent
    assert str(request.url) == "https://93.184.215.14/.well-known/x?y=z"
    assert request.headers["host"] == "login.example"
    assert request.extensions["sni_hostname"] == "login.example"


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("https://login.example/x", ["10.0.0.1"]),
        ("https://login.example/x", ["93.184.215.14", "169.254.169.254"]),
        ("https://login.example/x", ["::1"]),
        ("https://169.254.169.254/latest/meta-data", ["169.254.169.254"]),
        ("https://[::ffff:127.0.0.1]/x", ["::ffff:127.0.0.1"]),
        ("http://login.example/x", ["93.184.215.14"]),
        ("https://login.example:6379/x", ["93.184.215.14"]),
        ("https://me:hush@login.example/x", ["93.184.215.14"]),
    ],
)
async def test_other_addresses_are_not_asked(url, addresses):
    wire, sent = wire_to(addresses)

    with pytest.raises(RemoteError, match="at an address that is not fetched") as refused:
        await wire.send(httpx2.Request("POST", url, data={"code": "hush"}))

    assert sent == []
    assert "hush" not in str(refused.value)


async def test_a_host_that_is_not_known_is_not_asked():
    wire, sent = wire_to([])

    with pytest.raises(RemoteError, match="is not known"):
        await wire.send(httpx2.Request("GET", "https://login.example/x"))

    assert sent == []


async def test_what_the_operator_named_may_be_private():
    wire, sent = wire_to(["10.0.0.1"], origins=["https://login.corp:443"])

    await wire.send(httpx2.Request("GET", "https://login.corp/x"))
    with pytest.raises(RemoteError):
        await wire.send(httpx2.Request("GET", "https://login.corp:8443/x"))

    assert [str(request.url) for request in sent] == ["https://login.corp/x"]


@pytest.mark.parametrize("address", ["93.184.215.14", "10.0.0.1"])
async def test_in_test_mode_only_this_machine_is_asked(address):
    wire, sent = wire_to([address], policy=is_this_machine)

    with pytest.raises(RemoteError):
        await wire.send(httpx2.Request("GET", "https://login.example/x"))

    assert sent == []


async def send_to(handler, wait=None):
    """Send a request to a server of this machine that answers like this."""
    waits = {} if wait is None else {"wait": wait}
    async with serving(handler, **waits) as url, oauth_wire(frozenset(), is_this_machine) as wire:
        return await wire.send(httpx2.Request("GET", f"{url}/x"))


async def test_an_answer_is_read_to_its_end():
    response = await send_to(lambda *_: reply(404, b"x" * MAX_BYTES))

    assert (response.status_code, len(response.content)) == (404, MAX_BYTES)


async def test_a_redirect_is_not_followed():
    paths = []

    def redirect(method, path, headers, body):
        paths.append(path)
        return reply(307, b"", {"Location": "/elsewhere"})

    response = await send_to(redirect)

    assert response.next_request is None
    assert paths == ["/x"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (reply(200, b"x" * (MAX_BYTES + 1)), "more than 1,048,576 bytes"),
        (reply(200, b"x", {"Content-Encoding": "gzip"}), "compressed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", "can't be reached"),
        (b"nothing of the kind\r\n\r\n", "can't be reached"),
    ],
)
async def test_an_odd_answer_is_refused(answer, words):
    with pytest.raises(RemoteError, match=words):
        await send_to(lambda *_: answer)


async def test_a_slow_answer_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("tools_app.mcp.oauth_wire.SECONDS", 0.2)

    async def never(_):
        await asyncio.Event().wait()

    with pytest.raises(RemoteError, match=r"did not answer within 0\.2 s"):
        await send_to(lambda *_: b"", never)


async def test_nobody_there():
    async with oauth_wire(frozenset([HERE])) as wire:
        with pytest.raises(RemoteError, match="can't be reached"):
            await wire.send(httpx2.Request("GET", f"{HERE}/x"))


async def test_a_certificate_of_another_host_is_refused():
    def answer(_):
        raise httpx2.ConnectError("certificate") from ssl.SSLCertVerificationError()

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    wire = OAuthWire(client, frozenset(["https://login.corp:443"]))

    with pytest.raises(RemoteError, match="can't be reached"):
        await wire.send(httpx2.Request("GET", "https://login.corp/x"))
