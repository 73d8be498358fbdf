"""Builds what says what goes on in sessions."""

from chat.activity.states import StateReader
from chat.approvals.store import ConfirmationStore
from chat.approvals.waiting import WaitingSessions
from mochi_project.wiring.storage import ConversationStorage


def build_states(storage: ConversationStorage, questions: ConfirmationStore) -> StateReader:
    """Build what reads the states of the sessions of a storage; opens nothing."""
    return StateReader(storage.repository, WaitingSessions(questions, storage.repository))
