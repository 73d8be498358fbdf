"""The queue of summaries, on the worker's task queue."""

import logging

from mochi_project.task_queue import QueueUnavailable, TaskQueue

logger = logging.getLogger(__name__)

TASK = "chat.tasks.summarize"


class SummaryTasks:
    """Queues ``chat.tasks.summarize``; implements ``SummaryQueue``."""

    def __init__(self, queue: TaskQueue) -> None:
        self._queue = queue

    def add(self, session_id: str, *, delay_seconds: float) -> bool:
        """Queue the session's summary; False when that can't be done just now."""
        try:
            self._queue.add(TASK, session_id, delay_seconds=delay_seconds)
        except QueueUnavailable as error:  # found again in the session's file
            logger.debug("a summary was not queued: %s", error)
            return False
        return True
