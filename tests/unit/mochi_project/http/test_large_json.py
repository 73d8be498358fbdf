"""Small answers are sent whole, large ones bit by bit, and both say how long they are."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.http import HttpResponse, StreamingHttpResponse

from mochi_project.http.large_json import WHOLE_BYTES, answer, answer_by_reading
from mochi_project.memory.large_responses import LARGE_BYTES, LargeResponses, TooManyLargeResponses
from sessions_app.errors import SessionNotFound
from sessions_app.format.json_pieces import PIECE_BYTES, LongList
from tests.services import install_services, services_of


def document(items: int) -> dict[str, Any]:
    return {"items": LongList(range(items), str, lambda _: 10), "total": items}


async def test_a_small_answer_is_sent_whole() -> None:
    response = await answer(lambda: document(3), status=201)
    assert isinstance(response, HttpResponse)
    assert response.status_code == 201
    assert json.loads(response.content) == {"items": ["0", "1", "2"], "total": 3}


async def test_a_large_answer_is_sent_bit_by_bit() -> None:
    response = await answer(lambda: document(100_000))
    assert isinstance(response, StreamingHttpResponse)
    pieces = [bytes(piece) async for piece in response]
    body = b"".join(pieces)
    assert len(body) > WHOLE_BYTES
    assert int(response["Content-Length"]) == len(body)
    assert max(map(len, pieces)) <= PIECE_BYTES
    assert json.loads(body) == {"items": list(map(str, range(100_000))), "total": 100_000}


async def test_the_work_is_done_in_a_thread_and_fails_before_anything_is_sent() -> None:
    threads = []

    def work() -> dict[str, Any]:
        threads.append(threading.current_thread())
        raise SessionNotFound("0123456789")

    with pytest.raises(SessionNotFound):
        await answer(work)
    assert threads != [threading.main_thread()]


async def test_an_item_that_is_large_itself_is_cut_for_the_connection() -> None:
    text = "é" * PIECE_BYTES
    response = await answer(lambda: {"items": LongList([text] * 3, str, len)})
    pieces = [bytes(piece) async for piece in response]
    assert max(map(len, pieces)) <= PIECE_BYTES
    assert json.loads(b"".join(pieces)) == {"items": [text] * 3}


class Reading:
    """Reads a document whose answer is over 8 MiB, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> dict[str, Any]:
        self.times += 1
        return {"items": LongList(range(100), lambda _: "x" * 100_000, lambda _: 100_000)}


@pytest.fixture
def wait_seconds() -> float:
    """Return how long large answers wait for room."""
    return 0.05


@pytest.fixture
def large(wait_seconds: float) -> Iterator[LargeResponses]:
    """Allow for two large answers at a time."""
    answers = LargeResponses(most=2, wait_seconds=wait_seconds)
    install_services(services_of({LargeResponses: answers}))
    yield answers
    install_services(None)


async def body_of(response: Any) -> bytes:
    return b"".join([bytes(piece) async for piece in response])


async def test_a_large_answer_that_was_read_is_whole_and_makes_room(large: LargeResponses) -> None:
    for _ in range(3):
        response = await answer_by_reading(Reading())
        body = await body_of(response)
        assert len(body) > LARGE_BYTES
        assert int(response["Content-Length"]) == len(body)
        assert len(json.loads(body)["items"]) == 100
    assert not large.is_full


async def test_large_answers_beyond_the_limit_wait_then_are_refused(large: LargeResponses) -> None:
    reading, late = Reading(), Reading()
    held = [await answer_by_reading(reading) for _ in range(2)]
    assert large.is_full
    with pytest.raises(TooManyLargeResponses) as refused:
        await answer_by_reading(late)
    assert (refused.value.code, refused.value.retryable) == ("TOO_MANY_LARGE_ANSWERS", True)
    assert (reading.times, late.times) == (2, 1)
    small = await answer_by_reading(lambda: document(3))
    assert isinstance(small, HttpResponse)
    for response in held:
        response.close()


@pytest.mark.parametrize("wait_seconds", [600])
async def test_who_waits_has_read_once_and_is_served_when_there_is_room(
    large: LargeResponses,
) -> None:
    first, _ = [await answer_by_reading(Reading()) for _ in range(2)]
    reading = Reading()
    waiting = asyncio.create_task(answer_by_reading(reading))
    while reading.times == 0:
        await asyncio.sleep(0.01)
    assert not waiting.done()
    await body_of(first)
    assert len(await body_of(await waiting)) > LARGE_BYTES
    assert reading.times == 1


@pytest.mark.parametrize("wait_seconds", [600])
async def test_no_more_large_answers_wait_than_are_sent(large: LargeResponses) -> None:
    sent = [await large.enter() for _ in range(2)]
    waiting = [asyncio.create_task(large.enter()) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyLargeResponses):
        await answer_by_reading(Reading())
    for place in sent:
        place.leave()
    sent = [await each for each in waiting]
    waiting = [asyncio.create_task(large.enter())]
    sent[0].leave()
    await waiting[0]


@pytest.mark.parametrize("end", ["closed", "left", "closed in a thread", "left in the middle"])
async def test_a_large_answer_that_nobody_reads_makes_room(large: LargeResponses, end: str) -> None:
    for _ in range(3):
        response: Any = await answer_by_reading(Reading())
        generator = vars(response)["_iterator"]
        if end == "closed":
            response.close()
        elif end == "closed in a thread":
            await asyncio.to_thread(response.close)
        else:
            if end == "left in the middle":
                await anext(generator)
            await generator.aclose()
        response.close()
        await asyncio.sleep(0)
    assert not large.is_full


async def test_a_large_answer_that_fails_makes_room(large: LargeResponses) -> None:
    def fail(index: int) -> str:
        if index == 99:
            raise SessionNotFound("0123456789")
        return "x" * 100_000

    for _ in range(3):
        with pytest.raises(SessionNotFound):
            await answer_by_reading(
                lambda: {"items": LongList(range(100), fail, lambda _: 100_000)}
            )
        await asyncio.sleep(0)
    assert not large.is_full
