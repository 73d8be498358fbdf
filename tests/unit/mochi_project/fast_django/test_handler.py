import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import httpx
import psutil
import pytest
import uvicorn
from asgiref.sync import markcoroutinefunction
from django.core import signals
from django.core.signals import got_request_exception, request_finished, request_started
from django.http import HttpRequest, HttpResponse
from django.test import override_settings
from django.utils.decorators import async_only_middleware, sync_only_middleware

from mochi_project.asgi_types import Message
from mochi_project.fast_django.handler import AsyncHandler, detach_database_receivers
from tests.unit.mochi_project.fast_django.site import (
    Client,
    UrlConf,
    get,
    probe,
)

pytestmark = pytest.mark.conformance


@pytest.fixture(autouse=True)
def _fresh_probe() -> None:
    probe.reset()


@pytest.fixture(autouse=True)
def _urls() -> Iterator[None]:
    with override_settings(ROOT_URLCONF=UrlConf, MIDDLEWARE=[]):
        yield


async def test_a_view_gets_the_body_in_one_piece_or_many() -> None:
    one = Client("/hello", {"type": "http.request", "body": b"you"})
    await one.run(AsyncHandler())
    many = Client(
        "/hello",
        {"type": "http.request", "body": b"y", "more_body": True},
        {"type": "http.request", "body": b"o", "more_body": True},
        {"type": "http.request", "body": b"u"},
    )
    await many.run(AsyncHandler())
    assert one.body == many.body == b"hello you"


@pytest.mark.parametrize("path", ["/hello", "/cookies", "/stream", "/sync", "/crash"])
async def test_head_gets_the_headers_of_get_and_waits_for_nothing_of_a_stream(path: str) -> None:
    probe.go_on.set()
    got, head = await get(path), Client(path, method="HEAD")
    await head.run(AsyncHandler())
    assert head.sent[0] == got.sent[0]
    assert head.body == b""


async def test_a_client_that_leaves_before_its_body_is_complete_reaches_no_view() -> None:
    for first in ([], [{"type": "http.request", "body": b"y", "more_body": True}]):
        client = Client("/hello", *first, {"type": "http.disconnect"})
        await client.run(AsyncHandler())
        assert client.sent == []


async def test_a_view_is_cancelled_when_its_client_leaves() -> None:
    client = Client("/hanging")
    request = asyncio.create_task(client.run(AsyncHandler()))
    await probe.reached.wait()
    client.leave()
    await request
    assert probe.seen == ["cancelled", "finally"]
    assert client.sent == []


async def test_a_view_may_swallow_its_cancellation_and_go_on() -> None:
    client = Client("/stubborn")
    request = asyncio.create_task(client.run(AsyncHandler()))
    await probe.reached.wait()
    client.leave()
    await request
    assert probe.seen == ["went on"]


async def test_a_stream_is_sent_chunk_by_chunk_with_large_chunks_in_pieces() -> None:
    client = Client("/stream")
    request = asyncio.create_task(client.run(AsyncHandler()))
    await probe.reached.wait()
    assert [message.get("body") for message in client.sent] == [None, b"first"]
    probe.go_on.set()
    await request
    bodies = [message["body"] for message in client.sent[1:-1]]
    assert bodies[:2] == [b"first", "zweiter ü".encode()]
    assert [len(body) for body in bodies[2:]] == [65536, 65536, 65536, 200_000 - 3 * 65536]
    assert client.sent[-1] == {"type": "http.response.body"}
    assert all(message.get("more_body") for message in client.sent[1:-1])


async def test_a_stream_that_waits_is_cancelled_and_its_finally_runs_to_its_end() -> None:
    client = Client("/stream")
    request = asyncio.create_task(client.run(AsyncHandler()))
    await probe.reached.wait()
    client.leave()
    await request
    assert probe.seen == ["cancelled", "finally"]


async def test_a_stream_whose_client_does_not_read_is_closed_when_it_leaves() -> None:
    client = Client("/stream")
    blocked = asyncio.Event()

    async def never_drained(message: Message) -> None:
        if message.get("body"):
            blocked.set()
            await asyncio.Event().wait()

    client.on_send = never_drained
    request = asyncio.create_task(client.run(AsyncHandler()))
    await blocked.wait()
    client.leave()
    await request
    assert probe.seen == ["finally"]  # closed where it stood, at its yield


async def test_the_servers_cancellation_reaches_the_stream_and_is_not_swallowed() -> None:
    client = Client("/stream")
    handler = AsyncHandler()
    request = asyncio.create_task(handler(client.scope, client.incoming.get, client.send))
    await probe.reached.wait()
    request.cancel()
    await asyncio.wait([request], timeout=5)
    assert request.cancelled()
    assert probe.seen == ["cancelled", "finally"]


async def test_an_error_in_mid_stream_reaches_the_server_and_closes_the_generator() -> None:
    client = Client("/broken")
    with pytest.raises(RuntimeError, match="in mid-stream"):
        await client.run(AsyncHandler())
    assert probe.ended.is_set()


async def test_sync_views_have_a_thread_of_their_own_request() -> None:
    handler = AsyncHandler()
    await asyncio.gather(get("/sync", handler), get("/sync", handler))
    assert threading.get_ident() not in probe.threads
    assert len(probe.threads) == 2


@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume")
async def test_sync_streams_and_files_are_served_and_closed() -> None:
    assert (await get("/sync-stream")).body == b"ab"
    assert b"def file_view" in (await get("/file")).body


async def test_the_length_of_a_whole_response_is_announced() -> None:
    assert (b"Content-Length", b"6") in (await get("/hello")).sent[0]["headers"]
    probe.go_on.set()
    names = {name for name, _ in (await get("/stream")).sent[0]["headers"]}
    assert b"Content-Length" not in names


async def test_cookies_are_sent() -> None:
    client = await get("/cookies")
    assert (b"Set-Cookie", b"a=b; Path=/") in client.sent[0]["headers"]


async def test_a_crash_is_signalled_and_answered_without_a_word_of_it() -> None:
    caught: list[Any] = []

    def receiver(**kwargs: Any) -> None:
        caught.append(kwargs["request"].path)

    got_request_exception.connect(receiver)
    try:
        client = await get("/crash")
    finally:
        got_request_exception.disconnect(receiver)
    assert caught == ["/crash"]
    assert client.status == 500
    assert b"secret" not in client.body


async def test_receivers_that_others_connect_are_called_sync_and_async() -> None:
    calls: list[str] = []

    def started(**kwargs: Any) -> None:
        calls.append(f"started {kwargs['scope']['path']}")
        probe.threads.append(threading.get_ident())

    async def finished(**kwargs: Any) -> None:
        calls.append("finished, async")

    def finished_sync(**kwargs: Any) -> None:
        calls.append("finished, sync")

    handler = AsyncHandler()
    request_started.connect(started)
    request_finished.connect(finished)
    request_finished.connect(finished_sync)
    try:
        await get("/hello", handler)
        probe.go_on.set()
        await get("/stream", handler)
    finally:
        request_started.disconnect(started)
        request_finished.disconnect(finished)
        request_finished.disconnect(finished_sync)
    assert calls == [
        "started /hello",
        "finished, sync",
        "finished, async",
        "started /stream",
        "finished, sync",
        "finished, async",
    ]
    assert threading.get_ident() not in probe.threads


async def test_requests_that_a_client_left_are_finished_too() -> None:
    calls: list[str] = []

    async def finished(**kwargs: Any) -> None:
        calls.append("finished")

    client = Client("/hanging")
    request_finished.connect(finished)
    try:
        request = asyncio.create_task(client.run(AsyncHandler()))
        await probe.reached.wait()
        client.leave()
        await request
    finally:
        request_finished.disconnect(finished)
    assert calls == ["finished"]


async def test_only_djangos_own_tidying_receivers_are_detached() -> None:
    detach_database_receivers()
    assert not signals.request_started.has_listeners()
    assert not signals.request_finished.has_listeners()


async def test_async_views_never_leave_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_thread(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a thread was asked for")

    monkeypatch.setattr("asgiref.sync.SyncToAsync.__call__", no_thread)
    handler = AsyncHandler()
    probe.go_on.set()
    assert (await get("/hello", handler)).status == 200
    assert (await get("/stream", handler)).status == 200


@async_only_middleware
def async_stamp(get_response: Callable[[HttpRequest], Awaitable[HttpResponse]]) -> Any:
    async def middleware(request: HttpRequest) -> HttpResponse:
        response = await get_response(request)
        response["X-Async"] = "yes"
        return response

    return middleware


@sync_only_middleware
def sync_stamp(get_response: Callable[[HttpRequest], HttpResponse]) -> Any:
    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response["X-Sync"] = "yes"
        return response

    return middleware


async def test_django_middleware_runs_async_and_sync() -> None:
    with override_settings(MIDDLEWARE=[f"{__name__}.async_stamp", f"{__name__}.sync_stamp"]):
        client = await get("/hello")
    headers = dict(client.sent[0]["headers"])
    assert headers[b"X-Async"] == headers[b"X-Sync"] == b"yes"
    assert client.body == b"hello "


class AnsweringErrors:
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Awaitable[HttpResponse]]) -> None:
        self._get_response = get_response
        markcoroutinefunction(self)

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        return await self._get_response(request)

    async def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse:
        return HttpResponse(f"caught {type(error).__name__}", status=418)


async def test_a_middlewares_hook_for_exceptions_is_called() -> None:
    with override_settings(MIDDLEWARE=[f"{__name__}.AnsweringErrors"]):
        client = await get("/crash")
    assert (client.status, client.body) == (418, b"caught RuntimeError")


@contextlib.asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    config = uvicorn.Config(
        app, port=0, lifespan="off", log_config=None, ws="none", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await running


def thread_names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


def number_of_threads() -> int:
    return int(psutil.Process().num_threads())


async def test_threads_do_not_grow_with_the_number_of_open_streams() -> None:
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(served(AsyncHandler()))
        client = await stack.enter_async_context(
            httpx.AsyncClient(limits=httpx.Limits(max_connections=None), trust_env=False)
        )
        await client.get(f"{url}/hello")
        before = await asyncio.to_thread(number_of_threads)
        others = {name.partition("_")[0] for name in thread_names()}
        for _ in range(50):
            response = await stack.enter_async_context(client.stream("GET", f"{url}/stream"))
            assert await anext(response.aiter_raw()) == b"first"
        # Looking up names and the like may fill the loop's own pool (32 threads at most).
        assert await asyncio.to_thread(number_of_threads) <= before + 32
        assert {name.partition("_")[0] for name in thread_names()} <= {*others, "asyncio"}
        probe.go_on.set()


async def test_a_real_client_that_hangs_up_ends_its_stream() -> None:
    async with served(AsyncHandler()) as url, httpx.AsyncClient(trust_env=False) as client:
        async with client.stream("GET", f"{url}/stream") as response:
            assert await anext(response.aiter_raw()) == b"first"
            await probe.reached.wait()
        await asyncio.wait_for(probe.ended.wait(), 20)
    assert probe.seen == ["cancelled", "finally"]
