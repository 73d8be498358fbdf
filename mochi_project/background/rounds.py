"""Finds the owners of data, and visits those by turns whose services are not loaded."""

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from mochi_project.app import mochi_apps
from mochi_project.configuration.app_settings import owners_in

VISITED_AT_ONCE = 100
"""The owners without loaded services whose chores are done in each interval."""
ROUND_SECONDS = 3600.0
"""The shortest time between two visits of such an owner."""


class OwnerFolders:
    """Finds the owners whose data are in folders of this machine. Blocks.

    Args:
        users: The directory with a folder of each owner but ``default``.
    """

    def __init__(self, users: Path) -> None:
        self._users = users

    def all(self) -> Sequence[str]:
        """Return all owners but ``default``."""
        return owners_in(self._users)

    def to_visit(self, purpose: str) -> Iterable[str]:  # noqa: ARG002 - of several machines
        """Return the owners whom this process visits in a round, of several for the purpose."""
        return self.all()

    def unfinished(self) -> Sequence[str]:
        """Return the owners with something that a process left unfinished, as the apps name it."""
        folders = [each for app in mochi_apps() for each in app.unfinished.items()]
        return [
            owner
            for owner in self.all()
            if any(_has(f"{self._users}/{owner}/{folder}", suffix) for folder, suffix in folders)
        ]


class Rounds:
    """Goes through all owners, some at a time, and not more often than once an hour.

    Args:
        owners: Returns them; may block.

    Attributes:
        is_first: Whether no owner was visited twice.
    """

    def __init__(self, owners: Callable[[], Iterable[str]]) -> None:
        self._owners = owners
        self._left: Iterator[str] = iter(())
        self._next_round = 0.0
        self.is_first = True

    def next(self) -> Sequence[str]:
        """Return the owners to visit now; none while a round is over too early."""
        visited = list(itertools.islice(self._left, VISITED_AT_ONCE))
        if not visited and time.monotonic() >= self._next_round:
            self.is_first = not self._next_round
            self._next_round = time.monotonic() + ROUND_SECONDS
            self._left = iter(self._owners())
            visited = list(itertools.islice(self._left, VISITED_AT_ONCE))
        return visited


def _has(folder: str, suffix: str) -> bool:
    """Return whether a folder has a file or folder with a name that ends so."""
    with suppress(OSError), os.scandir(folder) as entries:
        return any(entry.name.endswith(suffix) for entry in entries)
    return False
