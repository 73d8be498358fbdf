"""Represents a turn that runs in this process, for its listeners: listen, wait, leave."""

import asyncio
from typing import Any

import msgspec

from chat.errors import EventNotReached, NoActiveTurn, ShuttingDown, TurnLimitReached
from chat.remote.remote_turns import ActiveTurn, CancelReport
from chat.stream.notes import JobNoted
from chat.stream.subscription import Subscription
from chat.stream.turn_stream import TurnStream
from chat.turn.engine import TurnEngine
from chat.turn.outcome import Outcome
from chat.turn.state_machine import Input, State
from mochi_project.keys.ring import WhenEnded
from sessions_app.ids_and_clock import utc_now
from sessions_app.messages import unmark_cancelled

ANSWERED_SECONDS = 0.02
"""The pause until a turn has probably noticed an answer."""


class LiveTurn:
    """A turn that runs in this process, as its listeners see it. It starts when this is made.

    Attributes:
        first_subscription: That of its starter, who listens before it has said a word.
        detached: Whether it goes on without listeners.
        keep: Whether a session that is not saved stays after the turn.
        noted: What its journal says of its request, if another process may go on with it.
    """

    def __init__(
        self,
        engine: TurnEngine,
        stream: TurnStream,
        *,
        owner: str,
        detached: bool,
        keep: bool,
        noted: JobNoted | None,
    ) -> None:
        self.turn_id, self.session_id = stream.turn_id, stream.session_id
        self.owner, self.started_at = owner, utc_now()
        self.engine, self.stream = engine, stream
        self.detached, self.keep, self.noted = detached, keep, noted
        self.first_subscription = stream.subscribe()
        self.task = engine.start()

    def end_within(self, seconds: float, most: float) -> None:
        """End the turn with an error after these seconds, of the most that it may take."""
        error = TurnLimitReached(f"The turn took longer than {most:g} seconds.", seconds=most)
        timer = asyncio.get_running_loop().call_later(seconds, self.engine.stop, Input.ERROR, error)
        self.task.add_done_callback(lambda _: timer.cancel())

    def end_with_key(self, key_id: str | None, when_ended: WhenEnded) -> None:
        """Cancel the turn, or let it go on without listeners, when the key ends that began it."""
        unwatch = when_ended(key_id, lambda keeps: self.detach() if keeps else self.engine.cancel())
        self.task.add_done_callback(lambda _: unwatch())

    @property
    def hands_over(self) -> bool:
        """Return whether another process goes on with it when this one stops."""
        return self.noted is not None and self.noted.is_wanted

    def detach(self) -> None:
        """Go on without listeners."""
        self.detached = True
        if self.noted is not None and not self.noted.detached:
            self.noted = msgspec.structs.replace(self.noted, detached=True)
            self.stream.note(self.noted)

    @property
    def state(self) -> State:
        """The state of the turn."""
        return self.engine.state

    @property
    def was_refused(self) -> bool:
        """Return whether the turn ended as a plain error, without a single event."""
        return self.stream.ended and self.stream.last_number == 0

    async def committed(self) -> None:
        """Wait for the first event; raises the turn's error when it ended before that."""
        await asyncio.shield(self.engine.committed)
        if self.was_refused and self.engine.outcome.error is not None:  # it was never kept
            raise self.engine.outcome.error

    async def finished(self) -> Outcome:
        """Wait for the end of the turn, or until a server asks what its client must hear now.

        The turn goes on, and its client sends another request with or after the answer.
        """
        servers = self.engine.actions.approver.servers
        while not self.task.done():
            asking = asyncio.ensure_future(servers.unheard.wait())
            try:
                await asyncio.wait([self.task, asking], return_when=asyncio.FIRST_COMPLETED)
            finally:
                asking.cancel()
            if self.task.done():
                break
            if asked := await asyncio.to_thread(servers.pending):
                self.detach()
                executed = [*self.engine.outcome.tool_calls]
                return Outcome(state=State.SUSPENDED, tool_calls=executed, confirmations=asked)
            await asyncio.sleep(ANSWERED_SECONDS)  # it was answered just now
        return self.task.result()

    def listen(self, position: tuple[str, int] | None) -> Subscription | None:
        """Listen from an event on, if it is one of this turn; None if nothing is left.

        Raises:
            EventNotReached: The turn has no such event yet.
        """
        after = position[1] if position is not None and position[0] == self.turn_id else 0
        if self.stream.ended and after >= self.stream.last_number:
            return None
        if after > self.stream.last_number:
            raise EventNotReached(after, self.stream.last_number)
        return self.stream.subscribe(after)

    def obey(self, kind: str) -> None:
        """Do what another process asks of the turn, by a signal."""
        if kind == "confirm":
            self.engine.actions.approver.notice()
        elif kind == "inbox":
            self.engine.actions.session_writer.has_news = True
        elif kind in {"cancel", "detach"}:
            self.keep = True  # the other process reads how it ends
            if kind == "cancel":
                self.engine.cancel()
            else:
                self.detach()

    def describe(self) -> ActiveTurn:
        """Return what other requests are told of the turn."""
        return ActiveTurn(
            turn_id=self.turn_id,
            state=self.state.status,
            started_at=self.started_at,
            resumes=self.engine.resumes,
            first_message_id=self.engine.first_message_id,
        )

    async def cancel(self) -> CancelReport:
        """Stop the turn, and wait until it has ended.

        Raises:
            NoActiveTurn: It ended by itself just now.
        """
        self.engine.cancel()
        outcome = await asyncio.shield(self.task)
        if outcome.state is not State.CANCELLED or outcome.message is None:
            raise NoActiveTurn(self.session_id)
        return CancelReport(
            turn_id=self.turn_id,
            partial_content=unmark_cancelled(outcome.message.content),
            stopped=outcome.stopped,
        )

    def let_go(self) -> None:
        """Hand the turn over as soon as that loses nothing, if another process goes on with it."""
        if self.hands_over:
            self.engine.let_go()

    def shut_down(self) -> None:
        """Hand the turn over now, or end it with what it has."""
        self.engine.stop(Input.HAND_OVER if self.hands_over else Input.SHUTDOWN, ShuttingDown())

    def leave(self, subscription: Subscription) -> None:
        """Stop listening. A turn that is not detached ends with its last listener."""
        subscription.close()
        if not self.detached and self.stream.subscriber_count == 0:
            self.engine.stop_unheard()


def abandon(starting: asyncio.Task[Any]) -> None:
    """Leave what was started for a client that had gone before: a task's done callback.

    An error that nobody waits for is taken note of.
    """
    if not starting.cancelled() and starting.exception() is None:
        turn = starting.result()
        if isinstance(turn, LiveTurn):  # else it is another request's, and goes on, or a session
            turn.leave(turn.first_subscription)
