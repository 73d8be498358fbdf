"""Goes on with turns of dead processes as they are found (docs/decisions/0179)."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from chat.live_turn import LiveTurn
from chat.remote.replay import is_output
from chat.start.claiming import ClaimedTurn
from chat.start.resuming import TurnTakeover
from chat.start.turn_limits import TurnPlaces
from chat.start.turn_request import TurnRequest
from chat.stream.events import Event
from chat.stream.notes import Note
from chat.work_threads import InThread

logger = logging.getLogger(__name__)

Run = Callable[[ClaimedTurn, TurnRequest], LiveTurn]


class TurnResumer:
    """Takes turns over and runs them, each once there is a place for it.

    Those without a place can be taken over by another process meanwhile. Cancelled ones need none.
    A turn that died without output goes on alone among its like until its first output: if it
    kills its process each time, it takes no other one with it that often.

    Args:
        takeover: Takes turns over.
        places: The places of running turns.
        run: Runs a turn.
        in_thread: Runs what blocks in a thread.

    Attributes:
        takeover: As above.
        tasks: The turns that are taken over, by session, until their first output.
    """

    def __init__(
        self, takeover: TurnTakeover, places: TurnPlaces, run: Run, in_thread: InThread
    ) -> None:
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.takeover = takeover
        takeover.recovery.when_to_continue(self.found)
        self._places = places
        self._run = run
        self._in_thread = in_thread
        self._waiting: dict[str, Context] = {}
        places.when_free.add(self._begin_next)
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Go on with the turns that are found from now on, in an event loop."""
        self._loop = loop

    def close(self) -> None:
        """Take no more turns over."""
        self._loop = None
        self._places.when_free.discard(self._begin_next)

    @property
    def is_busy(self) -> bool:
        """Return whether turns are taken over, or wait for a place."""
        return bool(self.tasks or self._waiting)

    def found(self, session_id: str) -> None:
        """Go on with the session's turn; called in any thread."""
        if (loop := self._loop) is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._begin, session_id)

    def _begin(self, session_id: str) -> None:
        if self._loop is None or session_id in self.tasks:
            return
        task = self._loop.create_task(self._resume(session_id), name=f"resume-{session_id}")
        self.tasks[session_id] = task
        task.add_done_callback(partial(self._ended, session_id))

    def _begin_next(self) -> None:
        """Begin the turn that has waited longest for a place, which may have been another owner's.

        It goes on as it waited: for the owner of its session.
        """
        if self._waiting:
            session_id = next(iter(self._waiting))
            self._waiting.pop(session_id).run(self._begin, session_id)

    def _ended(self, session_id: str, task: asyncio.Task[None]) -> None:
        del self.tasks[session_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error(
                "a turn could not be taken over", exc_info=error, extra={"session_id": session_id}
            )
        if session_id not in self._waiting:
            self._places.call_waiting()

    async def _resume(self, session_id: str) -> None:
        found = await self._in_thread(partial(self.takeover.look, session_id))
        if found is None or self._loop is None:
            return
        turn, is_cancelled = found
        if is_cancelled:
            await self._started(session_id, is_cancelled=True)
            return
        gate = self._places.suspects if turn.barren_resumes else self._places.resumed
        if gate.locked() or self._places.is_full:
            self._waiting[session_id] = copy_context()
            return
        async with gate:
            leave = self._places.take(None)
            live: LiveTurn | None = None
            try:
                live = await self._started(session_id)
            finally:
                if live is None:
                    leave()
            if live is not None:
                live.task.add_done_callback(lambda _: leave())
                await _first_output(live)

    async def _started(self, session_id: str, *, is_cancelled: bool = False) -> LiveTurn | None:
        taken = await self._in_thread(partial(self.takeover.take, session_id))
        resumed = None if taken is None else await self.takeover.resume(taken)
        if taken is None or resumed is None:
            return None
        claimed, _ = resumed
        try:
            live = self._run(*resumed)
        except BaseException:
            claimed.stream.close()
            raise
        if taken.is_cancelled or is_cancelled:  # its last process may have taken the signal
            live.engine.cancel()
        return live


async def _first_output(live: LiveTurn) -> None:
    """Wait until the turn brings output, or ends."""
    came: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def look(events: Sequence[Event | Note]) -> None:
        if not came.done() and any(map(is_output, events)):
            came.set_result(None)

    live.stream.observe(look)
    waited: Sequence[asyncio.Future[Any]] = (came, live.task)
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    if not live.stream.ended:
        live.stream.observe(None)
