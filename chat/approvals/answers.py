"""Waits for the answers to questions of one turn."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress

from chat.approvals.confirmation import ApprovalDecision, Confirmation
from chat.approvals.store import ConfirmationStore
from sessions_app.errors import StorageError

logger = logging.getLogger(__name__)

# An answer wakes the turn; looking again now and then is for signals that got lost.
LOOK_AGAIN_SECONDS = 2.0


class Answers:
    """Looks for answers, whenever there may be some.

    Args:
        confirmation_store: The store of questions and answers.
        turn_id: The turn that waits, for the log.
    """

    def __init__(self, confirmation_store: ConfirmationStore, turn_id: str) -> None:
        self._confirmation_store = confirmation_store
        self._turn_id = turn_id
        self._news = asyncio.Event()

    def notice(self) -> None:
        """Look now, since something was decided."""
        self._news.set()

    async def wait(
        self, questions: Sequence[Confirmation], seconds: float, *, expire: bool = True
    ) -> Mapping[str, ApprovalDecision]:
        """Wait for the answers, so long at most; return them by the questions' ids.

        Args:
            questions: The questions.
            seconds: The timeout.
            expire: Whether the answer is no after the timeout; else it is missing.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        answers: dict[str, ApprovalDecision] = {}
        while waiting := [each for each in questions if each.confirmation_id not in answers]:
            self._news.clear()
            over = loop.time() >= deadline
            try:
                answers |= await asyncio.to_thread(self._look, waiting, expire=over and expire)
            except StorageError as error:
                if over:
                    raise
                logger.warning(
                    "answers can't be looked for now",
                    extra={"turn_id": self._turn_id, "reason": error.message},
                )
            if over:
                break
            if len(answers) < len(questions):
                pause = min(LOOK_AGAIN_SECONDS, max(deadline - loop.time(), 0))
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._news.wait()
        return answers

    def _look(
        self, questions: Sequence[Confirmation], *, expire: bool
    ) -> dict[str, ApprovalDecision]:
        store, answers = self._confirmation_store, {}
        for question in questions:
            answer = (store.expire if expire else store.decision_of)(question)
            if answer is not None:
                answers[question.confirmation_id] = answer
            else:
                store.restore(question)
        return answers
