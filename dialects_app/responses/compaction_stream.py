"""Answers requests that end with a ``compaction_trigger``: the output is one record.

They make no turn, and nothing is saved of them (docs/decisions/0169).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from chat.http.sse import HEARTBEAT
from chat.stream import heartbeat
from chat.turn.outcome import failed
from dialects_app.responses.body import ResponseIn
from dialects_app.responses.compacting import CompactionOut
from dialects_app.responses.ending import COMPLETED, IN_PROGRESS, ending_of
from dialects_app.responses.frames import Frames
from dialects_app.responses.resource import Resource
from sessions_app.errors import MochiError

Item = Mapping[str, Any]
MakeResource = Callable[..., Resource]
"""``resource_of`` with the parameters and the ids of the response."""

_TRIGGER = "compaction_trigger"


def input_to_record(body: ResponseIn) -> Sequence[Item] | None:
    """Return the input before a ``compaction_trigger``; None if a request ends with no such."""
    items = body.input
    if isinstance(items, str) or not items or items[-1].get("type") != _TRIGGER:
        return None
    return items[:-1]


def compacted(resource: MakeResource, made: CompactionOut) -> Resource:
    """Return the response of a request for a record, of which nothing is saved."""
    return resource(
        ending=COMPLETED,
        output=made.output[-1:],
        usage=made.usage,
        completed_at=made.created_at,
    )


async def events_of_compaction(
    resource: MakeResource, writing: asyncio.Task[CompactionOut]
) -> AsyncIterator[bytes]:
    """Yield the events of that response, and heartbeats while the model writes.

    Args:
        resource: Makes the resource of the response.
        writing: Makes the record; it is cancelled when the client leaves.
    """
    frames = Frames()
    for kind in ("created", "in_progress"):
        frames.add(f"response.{kind}", response=resource(ending=IN_PROGRESS))
    try:
        yield frames.take()
        while not writing.done():
            await asyncio.wait({writing}, timeout=heartbeat.HEARTBEAT_SECONDS)
            if not writing.done():
                yield HEARTBEAT
        response = compacted(resource, writing.result())
        [item] = response["output"]
        frames.add("response.output_item.added", output_index=0, item=item)
        frames.add("response.output_item.done", output_index=0, item=item)
        frames.add("response.completed", response=response)
    except MochiError as error:
        ending = ending_of(failed(error))
        frames.add(ending.event, response=resource(ending=ending))
    finally:
        writing.cancel()
    yield frames.take()
