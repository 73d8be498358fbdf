import asyncio

import pytest

from mochi_project.asgi_types import Message
from mochi_project.guard.refusal import Refused
from mochi_project.guard.streamed_body import StreamedBody


def _too_large() -> Refused:
    return Refused("PAYLOAD_TOO_LARGE", "It is too large.")


async def test_a_body_that_is_refused_at_its_last_piece_is_not_waited_for() -> None:
    queue: asyncio.Queue[Message] = asyncio.Queue()
    queue.put_nowait({"type": "http.request", "body": b"x", "more_body": False})
    body = StreamedBody(queue.get, {}, max_bytes=10, silence_seconds=60, too_large=_too_large)
    pieces = body.pieces()
    assert await anext(pieces) == b"x"
    draining = asyncio.ensure_future(body.drain())
    await asyncio.sleep(0)
    assert draining.done()
    await pieces.aclose()


@pytest.mark.parametrize(("more", "closes"), [(True, True), (False, False)])
async def test_an_answer_before_the_end_of_the_body_is_the_last_of_its_connection(
    more: bool, closes: bool
) -> None:
    queue: asyncio.Queue[Message] = asyncio.Queue()
    queue.put_nowait({"type": "http.request", "body": b"x", "more_body": more})
    body = StreamedBody(queue.get, {}, max_bytes=10, silence_seconds=60, too_large=_too_large)
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    assert await anext(body.pieces()) == b"x"
    await body.closing(send)({"type": "http.response.start", "status": 422, "headers": []})
    assert ((b"connection", b"close") in sent[0]["headers"]) == closes
