"""Builds the services shared by the turns of all storages of a process."""

from dataclasses import dataclass, field

from chat.storage.signals import Signals
from chat.turn.observer import TurnObserver
from chat.work_threads import FILE_THREADS, OBJECT_THREADS, WorkThreads
from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.cluster import Cluster
from mochi_project.wiring.storage import build_signals
from sessions_app.deadline import Deadline


@dataclass(frozen=True, slots=True)
class TurnSupport:
    """Holds the services that turns of all storages share.

    Attributes:
        threads: The threads for writing sessions.
        signals: The signals between processes.
        observer: The observer of turns.
        deadline: The deadline of this process, once it stops.
    """

    threads: WorkThreads
    signals: Signals
    observer: TurnObserver
    deadline: Deadline = field(default_factory=Deadline)


def build_threads(settings: MochiSettings) -> WorkThreads:
    """Build the threads that write sessions: more of them with an object store."""
    return WorkThreads(OBJECT_THREADS if settings.sessions_url is not None else FILE_THREADS)


def build_turn_support(
    settings: MochiSettings, observer: TurnObserver, cluster: Cluster | None
) -> TurnSupport:
    """Build the shared services; opens nothing."""
    return TurnSupport(build_threads(settings), build_signals(settings, cluster), observer)
