"""Reports the progress of tools to listeners."""

import time

from msgspec import UNSET

from chat.approvals.approver import Emit
from chat.stream.events import SUMMARY_LENGTH, StatusChanged
from tools_app.toolset import ToolProgress

PROGRESS_SECONDS = 0.1


class ProgressReport:
    """Reports a tool's progress to listeners, at most ten times a second."""

    def __init__(self, tool_call_id: str, emit: Emit) -> None:
        self._tool_call_id = tool_call_id
        self._emit = emit
        self._next = 0.0

    def __call__(self, progress: ToolProgress) -> None:
        """Report the progress, unless that was done just now."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + PROGRESS_SECONDS
        self._emit(
            [
                StatusChanged(
                    state="waiting_for_tool",
                    tool_call_id=self._tool_call_id,
                    progress=UNSET if progress.progress is None else progress.progress,
                    total=UNSET if progress.total is None else progress.total,
                    message=UNSET
                    if progress.message is None
                    else progress.message[:SUMMARY_LENGTH],
                )
            ]
        )
