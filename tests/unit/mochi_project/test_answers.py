"""Small answers are sent whole, large ones bit by bit, and both say how long they are."""

import json
import threading
from typing import Any

import pytest
from django.http import HttpResponse, StreamingHttpResponse

from mochi_project.answers import WHOLE_BYTES, answer
from sessions_app.errors import SessionNotFound
from sessions_app.pieces import PIECE_BYTES, Many


def document(items: int) -> dict[str, Any]:
    return {"items": Many(range(items), str, lambda _: 10), "total": items}


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
    response = await answer(lambda: {"items": Many([text] * 3, str, len)})
    pieces = [bytes(piece) async for piece in response]
    assert max(map(len, pieces)) <= PIECE_BYTES
    assert json.loads(b"".join(pieces)) == {"items": [text] * 3}
