"""Signals to a turn in another process: one small file each, in a directory that owners watch.

``{directory}/{turn_id}.{kind}``. Its owner removes it when it has acted, so the directory is empty
as a rule and the cost of watching it does not depend on how many turns run.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from chat.journals.watcher import PathWatcher
from sessions_app.atomic import PRIVATE_FILE, make_private_directory

SignalKind = Literal["cancel", "detach"]


class TurnSignals:
    """Sends signals to turns of other processes and receives those to one's own."""

    def __init__(self, directory: Path, watcher: PathWatcher) -> None:
        self._directory = directory
        self._watcher = watcher

    def send(self, turn_id: str, kind: SignalKind) -> None:
        """Leave a signal for the turn's owner; sending it twice is sending it once. Blocks."""
        make_private_directory(self._directory)
        path = self._directory / f"{turn_id}.{kind}"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE))

    def withdraw(self, turn_id: str, kind: SignalKind) -> None:
        """Take back a signal that nobody took. Blocks."""
        (self._directory / f"{turn_id}.{kind}").unlink(missing_ok=True)

    def take(self, turn_ids: set[str]) -> list[tuple[str, str]]:
        """Return and remove the signals to these turns: [(turn id, kind), ...]. Blocks."""
        taken = []
        with suppress(FileNotFoundError), os.scandir(self._directory) as entries:
            for entry in entries:
                turn_id, _, kind = entry.name.partition(".")
                if turn_id in turn_ids:
                    Path(entry.path).unlink(missing_ok=True)
                    taken.append((turn_id, kind))
        return taken

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call ``changed``, in another thread, when there may be signals; return how to stop."""
        return self._watcher.watch(self._directory, changed)
