"""Queues what people are told of, in the process in which it happens."""

import logging
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from chat.approvals.confirmation import Confirmation, read_moment
from chat.approvals.store import ConfirmationStore
from chat.notices.notice import TRIES, Notice
from chat.settings import NoticeEvent
from chat.storage.task_queue import TaskQueue
from chat.turn.observer import TurnEnd, TurnObserver
from chat.turn.state_machine import State

logger = logging.getLogger(__name__)

TASK = "chat.tasks.notify"
_EVENT_OF_STATE: dict[State, NoticeEvent] = {
    State.COMPLETED: "turn.done",
    State.FAILED: "turn.failed",
}


class NoticeQueue:
    """Queues notices in a thread of its own: who has one never waits for the queue.

    Args:
        queue: The queue of the background workers.
    """

    def __init__(self, queue: TaskQueue) -> None:
        self._queue = queue
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="notices")

    def add(self, notice: Notice) -> None:
        """Queue a notice soon. What can't be queued is lost, unless it is of an open question."""
        try:
            self._thread.submit(self._add, str(notice))
        except RuntimeError:  # closed: a turn that ends this late must not fail for that
            logger.warning("a notification could not be queued: the server has stopped")

    def close(self) -> None:
        """Queue what is left. Blocks."""
        self._thread.shutdown()

    def _add(self, argument: str) -> None:
        try:
            if not self._queue.add(TASK, argument, delay_seconds=0.0):
                logger.warning("a notification could not be queued")
        except Exception:
            logger.exception("a notification could not be queued")


class Notifier(TurnObserver):
    """Queues notices of the questions and turns of an owner's sessions.

    Args:
        queue: The queue; None if nobody is told of anything.
        events: What people are told of.
        owner: The owner.
    """

    def __init__(
        self, queue: NoticeQueue | None, events: Collection[NoticeEvent], owner: str
    ) -> None:
        self._queue = queue
        self._events = frozenset(events)
        self._owner = owner

    def question_changed(self, question: Confirmation, is_answered: bool, /) -> None:
        """Have people told of a question that was asked; an answer is told to nobody."""
        if not is_answered:
            since = int(read_moment(question.created_at).timestamp())
            age = time.time() - since
            # Asked again, or found again, long after: all tries are to come.
            since = since if 0 <= age < TRIES[-1] else int(time.time())
            subject = question.confirmation_id
            self._add("approval.asked", question.session_id, subject, since)

    def find_open(self, store: ConfirmationStore) -> None:
        """Have people told of all open questions, whatever became of their notices. Blocks."""
        if self._queue is not None and "approval.asked" in self._events:
            for session_id in store.stamps():
                for question in store.pending(session_id):
                    self.question_changed(question, False)

    def turn_ended(self, turn: TurnEnd, /) -> None:
        """Have people told that a turn completed, or failed."""
        event, start = _EVENT_OF_STATE.get(turn.state), turn.start
        if event is not None:
            code = turn.error_code or ""
            self._add(event, start.session_id, start.turn_id, int(time.time()), code)

    def _add(
        self, event: NoticeEvent, session_id: str, subject: str, since: int, code: str = ""
    ) -> None:
        if self._queue is not None and event in self._events:
            self._queue.add(Notice(event, self._owner, session_id, subject, since, code))
