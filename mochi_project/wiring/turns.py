"""Builds the services that run turns, stop them, and decide on approvals."""

from collections.abc import Callable

from chat.approvals.service import ConfirmationService
from chat.registry import TurnLimits, TurnRegistry
from chat.remote.journal_follower import LIVENESS_SECONDS
from chat.remote.remote_turns import RemoteTurns
from chat.service import SessionSpace
from chat.start.preparation import TurnPreparer
from chat.start.turn_limits import TurnPlaces
from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.storage import ConversationStorage
from mochi_project.wiring.turn_support import TurnSupport

SETTLE_SECONDS = 5.0
"""The silence after which listeners check whether a turn is running, in a cluster."""


class TurnBuilder:
    """Builds the services that run the turns of a storage and access those of other processes.

    The turns of all storages share limits and threads.

    Args:
        settings: The configuration.
        preparer: Prepares turns before the first model call.
        support: The services that turns of all storages share.
    """

    def __init__(
        self,
        settings: MochiSettings,
        *,
        preparer: TurnPreparer,
        support: TurnSupport,
    ) -> None:
        self._limits = _limits_of(settings)
        self._places = TurnPlaces(self._limits.active, self._limits.per_client)
        self._preparer = preparer
        self._support = support
        self._settle_seconds = LIVENESS_SECONDS if settings.journal_url is None else SETTLE_SECONDS

    def build(
        self,
        storage: ConversationStorage,
        *,
        on_answer: Callable[[str], None] | None = None,
        forget: Callable[[str], None] | None = None,
    ) -> SessionSpace:
        """Build the space of a storage.

        Args:
            storage: The storage.
            on_answer: Called with the session of every final answer, if not None.
            forget: Removes a session, in a thread, after its turn; None keeps sessions.
        """
        remote = self._build_remote(storage)
        registry = TurnRegistry(
            repository=storage.repository,
            journal=storage.journal,
            recovery=storage.recovery,
            signals=self._support.signals,
            remote=remote,
            preparer=self._preparer,
            limits=self._limits,
            confirmation_store=storage.confirmation_store,
            on_answer=on_answer,
            places=self._places,
            forget=forget,
            in_thread=self._support.threads.run,
            observer=self._support.observer,
            deadline=self._support.deadline,
        )
        confirmations = ConfirmationService(
            confirmation_store=storage.confirmation_store,
            repository=storage.repository,
            signals=self._support.signals,
            notice=registry.notice_decision,
        )
        return SessionSpace(
            repository=storage.repository,
            turns=registry,
            remote=remote,
            confirmations=confirmations,
            records=storage.records,
        )

    def _build_remote(self, storage: ConversationStorage) -> RemoteTurns:
        return RemoteTurns(
            repository=storage.repository,
            journal=storage.journal,
            recovery=storage.recovery,
            signals=self._support.signals,
            settle_seconds=self._settle_seconds,
        )


def _limits_of(settings: MochiSettings) -> TurnLimits:
    return TurnLimits(
        active=settings.max_active_turns,
        seconds=settings.turn_timeout_seconds,
        per_client=settings.max_turns_per_client,
    )
