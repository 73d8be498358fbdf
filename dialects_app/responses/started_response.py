"""Represents a response whose turn has started: what it shows first, its end, and what is kept."""

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from chat.service import OpenTurn
from chat.turn.outcome import Outcome
from chat.turn.state_machine import State
from dialects_app.responses.projector import ResponseProjector
from dialects_app.responses.record import ResponseEnd, ResponseRecord
from dialects_app.responses.resource import Resource
from dialects_app.responses.store import ResponseStore
from dialects_app.shared.refused_turns import events_at_end
from dialects_app.shared.shown_calls import questions_of
from sessions_app.errors import StorageError

logger = logging.getLogger(__name__)


class StartedResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response whose turn has started.

    Attributes:
        turn: The turn, as seen by the client.
        model: The model; empty if it is not known.
        record: What was asked for.
        warnings: The unsupported options.
        store: Where more is kept of it; None where nothing is.
    """

    turn: OpenTurn
    model: str
    record: ResponseRecord
    warnings: Sequence[str]
    store: ResponseStore | None

    def projector(self) -> ResponseProjector:
        """Return the projector for a new client."""
        return ResponseProjector(self.turn.session_id, self.turn.turn_id, self.record)

    def resource(self) -> Resource:
        """Return the response before its first event."""
        return self.projector().resource()

    async def finished(self) -> Resource:
        """Wait for the end of the response and return it, as its stream would show it.

        Raises:
            MochiError: The response failed.
        """
        projector = self.projector()
        projector.feed(await events_at_end(self.turn, self.model))
        error = (await self.turn.finished()).error
        # An answer that the provider cut off is one, though the turn ended with an error.
        if error is not None and projector.state.status != "incomplete":
            raise error
        return projector.resource()

    async def note_end(self) -> None:
        """Wait for the end of the response, and store the facts that its session lacks."""
        turn, store = self.turn, self.store
        if store is None:
            return
        end = _end_of(await turn.finished())
        if end is None:
            return
        try:
            await asyncio.to_thread(store.keep_end, turn.session_id, turn.turn_id, end)
        except (StorageError, OSError) as error:  # it is shown without its reason
            logger.warning("the end of a response could not be kept", exc_info=error)


def _end_of(outcome: Outcome) -> ResponseEnd | None:
    """Return the facts about the end of a turn that its session lacks; None if there are none."""
    error = outcome.error
    if error is not None:
        return ResponseEnd(
            error_code=error.code, error_message=error.message, is_retryable=error.retryable
        )
    if outcome.state is State.SUSPENDED:
        return ResponseEnd(questions=questions_of(outcome.confirmations))
    return None
