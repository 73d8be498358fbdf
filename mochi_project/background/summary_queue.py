"""The queue of summaries, on the worker's task queue."""

import logging

from mochi_project.background.task_queue import QueueUnavailable, TaskQueue

logger = logging.getLogger(__name__)

TASK = "chat.tasks.summarize"


class SummaryTasks:
    """Queues ``chat.tasks.summarize``; implements ``SummaryQueue``."""

    def __init__(self, queue: TaskQueue) -> None:
        self._queue = queue

    def add(self, *session_ids: str, delay_seconds: float) -> bool:
        """Queue the sessions' summaries; False when that can't be done just now."""
        try:
            self._queue.add_each(TASK, session_ids, delay_seconds=delay_seconds)
        except QueueUnavailable as error:  # found again in the sessions' files
            logger.debug("summaries were not queued: %s", error)
            return False
        return True
