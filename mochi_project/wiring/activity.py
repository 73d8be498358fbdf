"""Builds the services for the states of sessions and the stream of changes."""

from chat.activity.feed import ActivityFeed
from chat.activity.states import StateReader
from chat.approvals.waiting import WaitingSessions
from chat.storage.change_log import ChangeLog
from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.storage import ConversationStorage


def build_activity(
    settings: MochiSettings, changes: ChangeLog, storage: ConversationStorage
) -> ActivityFeed:
    """Build the services that report changes in a storage; opens nothing."""
    waiting = WaitingSessions(storage.confirmation_store, storage.repository)
    return ActivityFeed(
        changes,
        StateReader(storage.repository, waiting),
        most_listeners=settings.max_listeners,
    )
