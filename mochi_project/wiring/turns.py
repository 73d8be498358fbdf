"""Builds the services that run turns, stop them, and decide on approvals."""

from collections.abc import Callable
from dataclasses import dataclass

from chat.approvals.service import ConfirmationService
from chat.approvals.store import ConfirmationStore
from chat.registry import TurnLimits, TurnRegistry
from chat.remote.remote_turns import RemoteTurns
from chat.start.preparation import TurnPreparer
from chat.storage.signals import Signals
from chat.work_threads import WorkThreads
from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.storage import ConversationStorage, build_signals


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnServices:
    """The services of turns: of this process, of others, and the signals between them."""

    registry: TurnRegistry
    remote: RemoteTurns
    signals: Signals
    confirmations: ConfirmationService


def build_turns(
    settings: MochiSettings,
    *,
    storage: ConversationStorage,
    preparer: TurnPreparer,
    questions: ConfirmationStore,
    on_answer: Callable[[str], None] | None,
    threads: WorkThreads,
) -> TurnServices:
    """Build the registry of turns and what reaches turns of other processes.

    Args:
        settings: The configuration.
        storage: Where the conversations are kept.
        preparer: Decides what must be known before a model is asked.
        questions: The questions to people, and their answers.
        on_answer: Called with the session of every final answer; None for no calls.
        threads: Where turns write to their sessions' files.
    """
    signals = build_signals(settings)
    remote = RemoteTurns(
        repository=storage.repository,
        journal=storage.journal,
        recovery=storage.recovery,
        signals=signals,
    )
    registry = TurnRegistry(
        repository=storage.repository,
        journal=storage.journal,
        recovery=storage.recovery,
        signals=signals,
        remote=remote,
        preparer=preparer,
        limits=_limits_of(settings),
        confirmations=questions,
        on_answer=on_answer,
        in_thread=threads.run,
    )
    confirmations = ConfirmationService(
        store=questions,
        repository=storage.repository,
        signals=signals,
        notice=registry.notice_decision,
    )
    return TurnServices(
        registry=registry, remote=remote, signals=signals, confirmations=confirmations
    )


def _limits_of(settings: MochiSettings) -> TurnLimits:
    return TurnLimits(
        active=settings.max_active_turns,
        seconds=settings.turn_timeout_seconds,
        per_client=settings.max_turns_per_client,
    )
