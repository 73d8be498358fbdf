"""Answers requests that end with a ``compaction_trigger``: the output is one record.

They make no turn, and nothing is saved of them (docs/decisions/0169).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from chat.http.sse import HEARTBEAT
from chat.stream import heartbeat
from chat.turn.outcome import failed
from chat.turn.turn_ids import new_turn_id
from dialects_app.responses.body import ResponseIn
from dialects_app.responses.compacting import CompactionOut
from dialects_app.responses.ending import COMPLETED, IN_PROGRESS, Ending, ending_of
from dialects_app.responses.frames import Frames
from dialects_app.responses.record import ResponseRecord
from dialects_app.responses.resource import Resource, resource_of
from sessions_app.errors import MochiError
from sessions_app.ids_and_clock import new_session_id

Item = Mapping[str, Any]

_TRIGGER = "compaction_trigger"


def input_to_record(body: ResponseIn) -> Sequence[Item] | None:
    """Return the input before a ``compaction_trigger``; None if a request ends with no such."""
    items = body.input
    if isinstance(items, str) or not items or items[-1].get("type") != _TRIGGER:
        return None
    return items[:-1]


class CompactionStream:
    """The response of a request for a record, of which nothing is saved.

    Args:
        record: The parameters of the request.
        model: The model.
        write: Makes the record.
    """

    def __init__(
        self, record: ResponseRecord, model: str, write: Callable[[], Awaitable[CompactionOut]]
    ) -> None:
        self._record = record
        self._model = model
        self._write = write
        self._session_id = new_session_id()
        self._turn_id = new_turn_id()

    async def whole(self) -> Resource:
        """Return the response.

        Raises:
            MochiError: There is no record.
        """
        return self._completed(await self._write())

    async def events(self) -> AsyncIterator[bytes]:
        """Yield the events of the response, and heartbeats while the model writes."""
        frames = Frames()
        for kind in ("created", "in_progress"):
            frames.add(f"response.{kind}", response=self._resource(IN_PROGRESS))
        yield frames.take()
        writing = asyncio.ensure_future(self._write())
        try:
            while not writing.done():
                await asyncio.wait({writing}, timeout=heartbeat.HEARTBEAT_SECONDS)
                if not writing.done():
                    yield HEARTBEAT
            self._end(frames, writing)
        finally:
            writing.cancel()
        yield frames.take()

    def _end(self, frames: Frames, writing: asyncio.Future[CompactionOut]) -> None:
        """Add the last events."""
        try:
            response = self._completed(writing.result())
        except MochiError as error:
            ending = ending_of(failed(error))
            frames.add(ending.event, response=self._resource(ending))
            return
        [item] = response["output"]
        frames.add("response.output_item.added", output_index=0, item=item)
        frames.add("response.output_item.done", output_index=0, item=item)
        frames.add("response.completed", response=response)

    def _completed(self, made: CompactionOut) -> Resource:
        return self._resource(
            COMPLETED, output=made.output[-1:], usage=made.usage, completed_at=made.created_at
        )

    def _resource(self, ending: Ending, **fields: Any) -> Resource:
        return resource_of(
            self._record,
            session_id=self._session_id,
            turn_id=self._turn_id,
            model=self._model,
            ending=ending,
            **fields,
        )
