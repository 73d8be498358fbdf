"""Few large bodies are held at a time, and each only until it was read."""

import asyncio
import json
from typing import Any

import pytest

from mochi_project.asgi_types import Receive, Scope, Send
from mochi_project.guard.guard import Guard
from mochi_project.memory import large_bodies
from mochi_project.memory.large_bodies import MOST, leave_large_body
from tests.unit.mochi_project.guard.asking import JSON, Reply, ask, settings

LARGE = [b" " * 2048, b"{}"]
SMALL = [b"{}"]


class Reading:
    """An application that has read the body, and answers when it is told to."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.arrived = asyncio.Condition()
        self.may_answer = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        async with self.arrived:
            self.scopes.append(scope)
            self.arrived.notify_all()
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    async def has(self, number: int) -> None:
        async with self.arrived:
            await self.arrived.wait_for(lambda: len(self.scopes) >= number)


@pytest.fixture
def app() -> Reading:
    return Reading()


@pytest.fixture
def guard(app: Reading) -> Guard:
    return Guard(app, settings(max_body_bytes=1024, max_history_bytes=4096))


def send(guard: Guard, body: list[bytes], path: str = "/v1/chat/completions") -> Any:
    return asyncio.create_task(ask(guard, JSON, method="POST", path=path, body=body))


async def fill(app: Reading, guard: Guard) -> list[asyncio.Task[Reply]]:
    asked = [send(guard, LARGE) for _ in range(MOST)]
    await app.has(MOST)
    return asked


async def finish(app: Reading, *asked: asyncio.Task[Reply]) -> list[int | None]:
    app.may_answer.set()
    return [reply.status for reply in await asyncio.gather(*asked)]


@pytest.mark.parametrize(
    ("path", "field"), [("/v1/chat/completions", "mochi_code"), ("/api/v1/ui/chat", "code")]
)
async def test_one_more_waits_and_is_told_to_come_back(
    app: Reading, monkeypatch: pytest.MonkeyPatch, path: str, field: str
) -> None:
    monkeypatch.setattr(large_bodies, "WAIT_SECONDS", 0.01)
    impatient = Guard(app, settings(max_body_bytes=1024, max_history_bytes=4096))
    asked = await fill(app, impatient)

    refused = await send(impatient, LARGE, path)

    error = json.loads(refused.body)["error"]
    assert (refused.status, error[field]) == (503, "TOO_MANY_LARGE_BODIES")
    assert error["details"]["retryable"] is True
    assert refused.headers[b"retry-after"] == b"5"
    assert b"x-should-retry" not in refused.headers
    assert await finish(app, *asked) == [200] * MOST


async def test_small_bodies_do_not_wait(app: Reading, guard: Guard) -> None:
    asked = await fill(app, guard)

    small = send(guard, SMALL)
    await app.has(MOST + 1)

    assert await finish(app, small, *asked) == [200] * (MOST + 1)


async def test_who_has_read_a_body_lets_the_next_one_in_before_it_answers(
    app: Reading, guard: Guard
) -> None:
    asked = await fill(app, guard)

    leave_large_body(app.scopes[0])
    leave_large_body(app.scopes[0])
    asked.append(send(guard, LARGE))
    await app.has(MOST + 1)

    assert await finish(app, *asked) == [200] * (MOST + 1)


async def test_an_answered_request_leaves_its_place(app: Reading, guard: Guard) -> None:
    app.may_answer.set()

    for _ in range(3 * MOST):
        assert (await send(guard, LARGE)).status == 200


async def test_a_body_that_is_refused_leaves_its_place(app: Reading, guard: Guard) -> None:
    app.may_answer.set()

    for _ in range(3 * MOST):
        assert (await send(guard, [b" " * 2048, b" " * 4096])).status == 413
    assert (await send(guard, LARGE)).status == 200


async def test_histories_may_be_larger_than_other_bodies(app: Reading, guard: Guard) -> None:
    app.may_answer.set()

    assert (await send(guard, LARGE)).status == 200
    assert (await send(guard, LARGE, path="/api/v1/sessions")).status == 413
    over = await send(guard, [b" " * 4097])
    error = json.loads(over.body)["error"]
    assert (over.status, error["details"]["max_bytes"]) == (413, 4096)
    assert "MOCHI_MAX_HISTORY_BYTES" in error["message"]


async def test_a_larger_limit_of_all_bodies_holds_for_histories_too(app: Reading) -> None:
    app.may_answer.set()
    guard = Guard(app, settings(max_body_bytes=4096, max_history_bytes=1024))

    assert (await send(guard, LARGE)).status == 200
