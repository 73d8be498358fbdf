"""A response whose output is a record of its input, while a model writes it and afterwards."""

import asyncio
from functools import partial

import pytest

from chat.http.sse import HEARTBEAT
from chat.stream import heartbeat
from dialects_app.responses.body import ResponseIn
from dialects_app.responses.compacting import CompactionOut
from dialects_app.responses.compaction_stream import (
    compacted,
    events_of_compaction,
    input_to_record,
)
from dialects_app.responses.record import ResponseRecord
from dialects_app.responses.resource import resource_of, usage_of
from models_app.errors import OllamaError
from sessions_app.messages import Usage
from tests.unit.dialects_app.responses.streams import check_resource, shown
from tests.unit.dialects_app.turns import SESSION_ID, TURN_ID

USER = {"role": "user", "content": "Hi"}
TRIGGER = {"type": "compaction_trigger"}
ITEM = {"id": "cmp_1", "type": "compaction", "encrypted_content": "m1.x"}
MADE = CompactionOut(
    id="resp_1", created_at=7, output=[USER, ITEM], usage=usage_of(Usage(input_tokens=3))
)


RESOURCE = partial(resource_of, ResponseRecord(), session_id=SESSION_ID, turn_id=TURN_ID, model="m")


async def collected(write):
    return [piece async for piece in events_of_compaction(RESOURCE, asyncio.ensure_future(write()))]


async def test_the_output_is_the_record_alone():
    async def write():
        return MADE

    whole = compacted(RESOURCE, MADE)
    check_resource(whole)
    assert (whole["output"], whole["status"], whole["usage"]) == ([ITEM], "completed", MADE.usage)
    first, *rest, last = [each["type"] for each in shown(b"".join(await collected(write)))]
    assert (first, last) == ("response.created", "response.completed")
    assert rest[1:] == ["response.output_item.added", "response.output_item.done"]


async def test_the_connection_is_kept_while_the_model_writes(monkeypatch):
    monkeypatch.setattr(heartbeat, "HEARTBEAT_SECONDS", 0.01)
    go_on = asyncio.Event()

    async def write():
        await go_on.wait()
        return MADE

    pieces = events_of_compaction(RESOURCE, asyncio.ensure_future(write()))
    await anext(pieces)
    assert await anext(pieces) == HEARTBEAT
    go_on.set()
    rest = [piece async for piece in pieces]
    assert b"response.completed" in rest[-1]


async def test_a_failure_is_told_in_the_stream():
    async def write():
        raise OllamaError("It broke.")

    events = shown(b"".join(await collected(write)))
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"]["code"] == "invalid_prompt"


async def test_a_client_that_leaves_stops_the_model():
    stopped = asyncio.Event()

    async def write():
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    pieces = events_of_compaction(RESOURCE, asyncio.ensure_future(write()))
    await anext(pieces)
    waiting = asyncio.ensure_future(anext(pieces))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(20):
        await stopped.wait()


@pytest.mark.parametrize(
    ("sent", "items"),
    [
        ([USER, TRIGGER], [USER]),
        ([TRIGGER], []),
        ([TRIGGER, USER], None),
        ([USER], None),
        ([], None),
        ("Hi", None),
        (None, None),
    ],
)
def test_only_a_trigger_at_the_end_asks_for_a_record(sent, items):
    assert input_to_record(ResponseIn(input=sent)) == items
