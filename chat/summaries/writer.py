"""Asks models for summaries, and yields to running turns (docs/decisions/0031)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from chat.approvals.confirmation import Confirmation
from chat.errors import SummaryTimedOut
from chat.summaries.prompt import (
    LONGEST_SECONDS,
    ConversationSummary,
    TitledSummary,
    bare_name,
    question_for,
    smaller_share,
)
from models_app.errors import ContextOverflow, ModelNotFound
from models_app.model_calls import call_models_for
from models_app.structured import StructuredModels
from sessions_app.errors import MochiError, SessionBusy
from sessions_app.labels import wants_title
from sessions_app.session import Session
from sessions_app.store.repository import SessionRepository

logger = logging.getLogger(__name__)

WATCH_SECONDS = 0.25


class SummaryPreempted(Exception):
    """Raised when a turn of another session wants the model."""


class SummaryWriter:
    """Asks models for summaries, and finds out whether turns of any process want the models.

    A turn's claim and its questions are seen from every process, so turns need not say anything.
    That it runs tools just now, and leaves the model alone, can't be seen.

    Args:
        repository: The sessions, with their claims.
        answers: Gets structured answers out of models.
        answers_one_by_one: Whether requests for a model wait for each other (Ollama's do).
        pending: Returns the questions of a session that wait for an answer.
        window_of: Returns the context window for a model's summary of a session.
    """

    def __init__(
        self,
        repository: SessionRepository,
        answers: StructuredModels,
        *,
        answers_one_by_one: Callable[[str], bool],
        pending: Callable[[str], Sequence[Confirmation]],
        window_of: Callable[[Session, str], Awaitable[int | None]],
    ) -> None:
        self._window_of = window_of
        self._repository = repository
        self._answers = answers
        self._answers_one_by_one = answers_one_by_one
        self._pending = pending
        self._models: dict[str, str | None] = {}
        self._has_warned = False

    async def write(
        self, session: Session, model: str, *, fallback: str | None, gives_way: bool = False
    ) -> tuple[ConversationSummary, str]:
        """Return a summary, and the model that wrote it.

        Args:
            session: The session.
            model: The model that writes it.
            fallback: The model that does if that one does not exist, of which the log warns once.
            gives_way: Whether turns of other sessions that begin meanwhile come first; those of its
                own always do.

        Raises:
            SessionBusy: A turn of the session began meanwhile.
            SummaryPreempted: A turn of another session wants the model.
            ModelError: The model can't be asked, or gave no usable answer.
        """
        try:
            return await self._write(session, model, gives_way=gives_way), model
        except ModelNotFound:
            if fallback is None:
                raise
            if not self._has_warned:
                self._has_warned = True
                logger.warning("MOCHI_SUMMARY_MODEL %r does not exist; others are asked", model)
        return await self._write(session, fallback, gives_way=gives_way), fallback

    async def _write(self, session: Session, model: str, *, gives_way: bool) -> ConversationSummary:
        task = asyncio.create_task(self._ask(session, model))
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                while True:
                    await asyncio.wait({task}, timeout=WATCH_SECONDS)
                    if task.done():
                        return task.result()
                    if await asyncio.to_thread(self.is_busy, session.session_id):
                        raise SessionBusy(session.session_id)
                    if gives_way and await asyncio.to_thread(
                        self.is_wanted, model, but_not_by=session.session_id
                    ):
                        raise SummaryPreempted
        except TimeoutError as error:
            raise SummaryTimedOut(model) from error
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    def is_busy(self, session_id: str) -> bool:
        """Return whether a turn of the session runs. Blocks."""
        claim = self._repository.claim_of(session_id)
        return claim is not None and claim.alive

    def is_wanted(self, model: str, *, but_not_by: str) -> bool:
        """Return whether a turn of any session but this one runs on the model. Blocks."""
        if not self._answers_one_by_one(model):
            return False
        turns = {
            claim.turn_id: claim.session_id
            for claim in self._repository.claims()
            if claim.alive and claim.session_id != but_not_by
        }
        self._models = {turn_id: name for turn_id, name in self._models.items() if turn_id in turns}
        for turn_id, session_id in turns.items():
            if turn_id not in self._models:
                self._models[turn_id] = self._model_of(session_id)
        wanted = bare_name(model)
        return any(
            self._models[turn_id] == wanted and not self._waits_for_person(session_id, turn_id)
            for turn_id, session_id in turns.items()
        )

    def _waits_for_person(self, session_id: str, turn_id: str) -> bool:
        """Return whether the turn only waits; while an agent asks, other agents may run."""
        return any(
            question.turn_id == turn_id and question.agent_name is None
            for question in self._pending(session_id)
        )

    def _model_of(self, session_id: str) -> str | None:
        try:
            return bare_name(self._repository.load(session_id).metadata.model)
        except MochiError:
            return None

    async def aclose(self) -> None:
        """Close connections to models."""
        await self._answers.aclose()

    async def _ask(self, session: Session, model: str) -> ConversationSummary:
        """Ask the model, with less of the conversation where it can't hold what was estimated."""
        call_models_for(session.session_id)
        share = 1.0
        form = TitledSummary if wants_title(session.metadata) else ConversationSummary
        window = await self._window_of(session, model)
        while True:
            question = question_for(session, window, share=share)
            try:
                return await self._answers.ask(model, question, form)
            except ContextOverflow as overflow:
                share = smaller_share(share, overflow, question.context_window)
                logger.info(
                    "a summary is given less of its conversation, which did not fit",
                    extra={"session_id": session.session_id, "share": round(share, 2)},
                )
