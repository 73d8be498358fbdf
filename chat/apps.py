"""Plugs conversations into the server: turns, streams, approvals, summaries."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mochi_project.app import MochiApp, Services


class ChatApp(MochiApp):
    """Describes the app."""

    name = "chat"
    routers = (
        "chat.api:router",
        "chat.approvals.api:router",
        "chat.inbox.api:router",
        "chat.summaries.api:router",
        "chat.activity.api:router",
    )
    statuses = {
        "MESSAGE_DELETED": 409,
        "TOOL_CONFIRMATION_TIMEOUT": 408,
        "CONFIRMATION_NOT_FOUND": 404,
        "CONFIRMATION_ALREADY_DECIDED": 409,
        "SUMMARY_NOT_FOUND": 404,
        "NO_ACTIVE_TURN": 409,
        "TURN_LIMIT_REACHED": 502,
        "TOOL_LOOP": 502,
        "EMPTY_ANSWER": 502,
        "ANSWER_INVALID": 502,
        "TURN_INTERRUPTED": 503,
        "MISSING_TOOL_RESULT": 400,
        "TOO_MANY_TURNS": 503,
        "TOO_MANY_LISTENERS": 503,
    }
    unfinished = {"chat_sessions/.claims": ".claim", ".mochi/turns": ""}
    retry_after = {"TOO_MANY_TURNS": 5, "TOO_MANY_LISTENERS": 5}

    def in_use(self, services: Services) -> bool:
        """Return whether turns run, or somebody listens to changes."""
        from chat.activity.feed import ActivityFeed  # noqa: PLC0415 - after the start of Django
        from chat.service import ChatService  # noqa: PLC0415 - after the start of Django

        chat, feed = services.made(ChatService), services.made(ActivityFeed)
        listeners = 0 if feed is None else feed.listener_count
        return listeners > 0 or (chat is not None and chat.is_busy)

    async def findings(self, services: Services) -> Sequence[Any]:
        """Return what is found of notifications."""
        from chat.notices.findings import notice_findings  # noqa: PLC0415 - for few

        return [*notice_findings(services)]

    def chores(self, services: Services) -> Mapping[str, Callable[[], object]]:
        """Return the sealing of dead turns, and the sweeps."""
        from chat.chores import conversation_chores  # noqa: PLC0415 - after the start of Django

        return conversation_chores(services)

    def shared_chores(self, services: Services) -> Mapping[str, Callable[[], object]]:
        """Return the sweep of signals."""
        from chat.chores import sweep_signals  # noqa: PLC0415 - after the start of Django

        return sweep_signals(services)
