"""A site of views of all kinds, and a client that sends raw ASGI."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path

from mochi_project.asgi_types import Message
from mochi_project.fast_django.handler import AsyncHandler


class Probe:
    """What the views of this module saw, and what lets them go on."""

    def reset(self) -> None:
        self.seen: list[str] = []
        self.threads: list[int] = []
        self.reached = asyncio.Event()
        self.ended = asyncio.Event()
        self.go_on = asyncio.Event()


probe = Probe()


async def hello(request: HttpRequest) -> HttpResponse:
    return HttpResponse(b"hello " + request.body)


async def hanging(request: HttpRequest) -> HttpResponse:
    try:
        probe.reached.set()
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        probe.seen.append("cancelled")
        raise
    finally:
        await asyncio.sleep(0)
        probe.seen.append("finally")
        probe.ended.set()
    return HttpResponse()


async def stubborn(request: HttpRequest) -> HttpResponse:
    probe.reached.set()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await asyncio.sleep(0)
    probe.seen.append("went on")
    probe.ended.set()
    return HttpResponse("late")


class Stream(StreamingHttpResponse):
    """A response over a generator that is closed with it, as streams of turns are."""

    def __init__(self, chunks: AsyncGenerator[Any]) -> None:
        super().__init__(chunks, content_type="text/event-stream")
        self._chunks = chunks

    def __aiter__(self) -> AsyncGenerator[Any]:
        return self._chunks


async def _stream() -> AsyncGenerator[bytes]:
    try:
        yield b"first"
        probe.reached.set()
        await probe.go_on.wait()
        yield "zweiter ü".encode()
        yield b"x" * 200_000
    except asyncio.CancelledError:
        probe.seen.append("cancelled")
        raise
    finally:
        await asyncio.sleep(0)
        await asyncio.to_thread(lambda: None)
        probe.seen.append("finally")
        probe.ended.set()


async def stream(request: HttpRequest) -> StreamingHttpResponse:
    return Stream(_stream())


async def _broken() -> AsyncGenerator[bytes]:
    try:
        yield b"first"
        raise RuntimeError("in mid-stream")
    finally:
        await asyncio.sleep(0)
        probe.ended.set()


async def broken(request: HttpRequest) -> StreamingHttpResponse:
    return Stream(_broken())


def sync_view(request: HttpRequest) -> HttpResponse:
    probe.threads.append(threading.get_ident())
    return HttpResponse("sync")


def sync_stream(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(iter([b"a", b"b"]))


def file_view(request: HttpRequest) -> FileResponse:
    return FileResponse(open(__file__, "rb"))


async def crash(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("secret words")


async def cookies(request: HttpRequest) -> HttpResponse:
    response = HttpResponse("ok")
    response.set_cookie("a", "b")
    return response


async def nothing(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=204)


class UrlConf:
    urlpatterns = (
        path("nothing", nothing),
        path("hello", hello),
        path("hanging", hanging),
        path("stubborn", stubborn),
        path("stream", stream),
        path("broken", broken),
        path("sync", sync_view),
        path("sync-stream", sync_stream),
        path("file", file_view),
        path("crash", crash),
        path("cookies", cookies),
    )


class Client:
    """One request over raw ASGI, so that every message and every disconnect is ours to choose."""

    def __init__(self, path: str, *incoming: Message, method: str = "GET") -> None:
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"host", b"localhost")],
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 5000),
        }
        self.incoming: asyncio.Queue[Message] = asyncio.Queue()
        for message in incoming or (REQUEST,):
            self.incoming.put_nowait(message)
        self.sent: list[Message] = []
        self.on_send: Callable[[Message], Awaitable[None]] | None = None

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        if self.on_send:
            await self.on_send(message)

    def leave(self) -> None:
        self.incoming.put_nowait({"type": "http.disconnect"})

    async def run(self, handler: AsyncHandler) -> None:
        await asyncio.wait_for(handler(self.scope, self.incoming.get, self.send), 10)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])


REQUEST: Message = {"type": "http.request", "body": b"", "more_body": False}


async def get(path: str, handler: AsyncHandler | None = None) -> Client:
    client = Client(path)
    await client.run(handler or AsyncHandler())
    return client
