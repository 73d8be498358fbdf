"""How files are fetched by their URLs: from addresses that were checked, and with limits."""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import httpx
import pytest

from dialects_app.shared.fetching import Fetcher
from dialects_app.shared.files import FetchFailed, FetchRefused
from sessions_app.errors import AttachmentTooLarge

PICTURE = b"a picture"
Answer = Callable[[str, asyncio.StreamWriter], Awaitable[None]]


class Web:
    """A web server on loopback whose answers are by path, and what it was asked."""

    def __init__(self) -> None:
        self.port = 0
        self.answers: dict[str, bytes | Answer] = {"/": plain(PICTURE)}
        self.heads: list[list[str]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            self.heads.append(head)
            answer = self.answers[head[0].split(" ")[1]]
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(head[0], writer)
        finally:
            writer.close()


def plain(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    head = "\r\n".join([f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers])
    return f"{head}\r\n\r\n".encode() + body


def redirect(location: str, status: str = "302 Found") -> bytes:
    return plain(b"", status, f"location: {location}")


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    web = Web()
    server = await asyncio.start_server(web.serve, "127.0.0.1", 0)
    web.port = server.sockets[0].getsockname()[1]
    yield web
    server.close()


class Names:
    """Addresses of hosts, in the order in which they are asked for; the last one stays."""

    def __init__(self, **addresses: Sequence[str]) -> None:
        self._addresses = {host.replace("_", "."): list(each) for host, each in addresses.items()}

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        found = self._addresses.get(host)
        if found is None:
            raise OSError("not known")
        return [found.pop(0) if len(found) > 1 else found[0]]


class Loopback:
    """Allows 127.0.0.1, as if it were public, and no other address."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, address: str, port: int) -> bool:
        self.asked.append(address)
        return address == "127.0.0.1"


CATS = Names(cats_example=["127.0.0.1"], inside_example=["10.0.0.1"])


async def fetched(
    url: str, *, names: Names = CATS, policy: object = None, max_bytes: int = 1000, **how: float
) -> bytes:
    fetcher = Fetcher(policy or Loopback(), resolve=names, **how)  # type: ignore[arg-type]
    async with fetcher.fetch(url, max_bytes=max_bytes) as pieces:
        return b"".join([piece async for piece in pieces])


async def test_a_file_is_fetched_from_the_address_that_was_checked_by_its_hosts_name(web):
    assert await fetched(f"http://cats.example:{web.port}/") == PICTURE
    [head] = web.heads
    lower = [line.lower() for line in head]
    assert f"host: cats.example:{web.port}" in lower
    assert "accept-encoding: identity" in lower
    assert not any(line.startswith(("cookie", "authorization")) for line in lower)


async def test_tls_is_spoken_with_the_host_at_the_address_that_was_checked():
    hellos: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hellos.append(await reader.read(4096))
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(FetchFailed):
        await fetched(f"https://cats.example:{port}/")
    server.close()
    [hello] = hellos
    assert hello.startswith(b"\x16\x03")  # a handshake
    assert b"cats.example" in hello


async def test_certificates_are_read_once_and_not_in_the_loop(web, monkeypatch):
    threads: list[threading.Thread] = []
    make = httpx.create_ssl_context

    def made(**how: object) -> ssl.SSLContext:
        threads.append(threading.current_thread())
        return make(**how)  # type: ignore[arg-type]

    monkeypatch.setattr(httpx, "create_ssl_context", made)
    fetcher = Fetcher(Loopback(), resolve=CATS)  # type: ignore[arg-type]
    for _ in range(3):
        async with fetcher.fetch(f"http://cats.example:{web.port}/", max_bytes=10) as pieces:
            assert b"".join([piece async for piece in pieces]) == PICTURE
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


async def test_a_name_that_changes_after_the_check_is_not_asked_again(web):
    names = Names(rebind_example=["127.0.0.1", "10.0.0.1"])
    policy = Loopback()
    url = f"http://rebind.example:{web.port}/"
    assert await fetched(url, names=names, policy=policy) == PICTURE
    assert policy.asked == ["127.0.0.1"]


@pytest.mark.parametrize(
    "url",
    [
        "http://inside.example/",
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://localhost/",
        "http://localhost./",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://0/",
        "https://169.254.169.254/latest/meta-data/",
    ],
)
async def test_what_leads_into_the_own_network_is_refused_by_default(url):
    names = {"resolve": CATS} if "inside" in url else {}
    with pytest.raises((FetchRefused, FetchFailed)):
        async with Fetcher(**names).fetch(url, max_bytes=10):  # type: ignore[arg-type]
            pass


@pytest.mark.parametrize(
    "url",
    [
        "ftp://cats.example/",
        "file:///etc/passwd",
        "gopher://cats.example/",
        "http://",
        "http:///path",
        "http://user:secret@cats.example/",
        "http://cats.example:99999/",
        "http://[::1",
    ],
)
async def test_what_is_no_plain_web_url_is_refused(url):
    with pytest.raises(FetchRefused):
        await fetched(url)


async def test_redirects_are_followed_and_each_is_checked(web):
    web.answers["/moved"] = redirect("/")
    assert await fetched(f"http://cats.example:{web.port}/moved") == PICTURE
    web.answers["/inward"] = redirect("http://inside.example/")
    with pytest.raises(FetchRefused):
        await fetched(f"http://cats.example:{web.port}/inward")
    web.answers["/file"] = redirect("file:///etc/passwd")
    with pytest.raises(FetchRefused):
        await fetched(f"http://cats.example:{web.port}/file")


async def test_a_host_that_leads_inward_at_its_redirect_is_refused(web):
    web.answers["/again"] = redirect("/")
    names = Names(rebind_example=["127.0.0.1", "10.0.0.1"])
    with pytest.raises(FetchRefused):
        await fetched(f"http://rebind.example:{web.port}/again", names=names)
    assert len(web.heads) == 1


async def test_redirects_have_an_end(web):
    web.answers["/round"] = redirect("/round")
    with pytest.raises(FetchFailed, match="redirected"):
        await fetched(f"http://cats.example:{web.port}/round")
    assert len(web.heads) == 4


async def test_a_file_that_says_that_it_is_too_large_is_not_read(web):
    web.answers["/"] = b"HTTP/1.1 200 OK\r\ncontent-length: 2000\r\n\r\n"
    with pytest.raises(AttachmentTooLarge):
        await fetched(f"http://cats.example:{web.port}/")


async def test_a_file_that_does_not_say_it_is_read_up_to_the_limit(web):
    web.answers["/"] = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + bytes(5000)
    with pytest.raises(AttachmentTooLarge):
        await fetched(f"http://cats.example:{web.port}/")


@pytest.mark.parametrize(
    "answer",
    [
        plain(b"", "404 Not Found"),
        plain(b"", "206 Partial Content"),
        plain(b"", "304 Not Modified"),
        plain(b"", "302 Found"),
        plain(b"x", "200 OK", "content-encoding: gzip"),
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
        b"rubbish\r\n\r\n",
        b"",
    ],
)
async def test_what_is_no_whole_file_fails(web, answer):
    web.answers["/"] = answer
    with pytest.raises(FetchFailed):
        await fetched(f"http://cats.example:{web.port}/")


async def test_a_server_that_is_silent_is_given_up(web):
    gone = asyncio.Event()

    async def silent(_: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n")
        await gone.wait()

    web.answers["/"] = silent
    with pytest.raises(FetchFailed, match="too long"):
        await fetched(f"http://cats.example:{web.port}/", seconds=0.2)
    gone.set()


async def test_a_host_that_is_not_known_and_a_port_where_nobody_listens_fail(web):
    with pytest.raises(FetchFailed):
        await fetched("http://nowhere.example/")
    with pytest.raises(FetchFailed):
        await fetched("http://cats.example:1/")
