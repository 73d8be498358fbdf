"""Records which sessions have a running turn, and which process runs it.

A claim is a dangling symbolic link whose target is the record (``turn|owner|time|version``), so it
is written and read atomically with one system call each (docs/decisions/0009). A record of a newer
server, in any format, is valid while any process named in it is alive (docs/decisions/0027).
Callers hold the session's lock while they read and then change a claim.
"""

import errno
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import msgspec

from sessions_app.ids_and_clock import SESSION_ID, new_file_tag
from sessions_app.store.atomic import (
    StrPath,
    make_private_directory,
    raise_if_unwritable,
    read_regular,
    sync_directory,
)
from sessions_app.store.begun_calls import BegunCalls
from sessions_app.store.owners import Owners
from sessions_app.store.repository import Claim, Hold

logger = logging.getLogger(__name__)

Lives = Callable[[str], bool]
"""Returns whether the owner with an id is alive."""

SUFFIX = ".claim"
VERSION = 1
"""The format version of records, raised when older servers can't read it. Version 0 had none."""
RECORD_LIMIT = 4096
_VERSIONS = frozenset({str(VERSION)})
_CLAIM = re.compile(rf"{SESSION_ID}{re.escape(SUFFIX)}", re.ASCII)
_TURN_ID = re.compile(r"[0-9a-f]{20}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9-]{1,100}", re.ASCII)


class TurnClaims:
    """Stores the claims on the sessions of one directory."""

    def __init__(
        self, directory: StrPath, owners: Owners, *, begun: BegunCalls | None = None
    ) -> None:
        self._directory = os.fspath(directory)
        self._owners = owners
        self._begun = begun
        self._seen: dict[str, tuple[str, Claim]] = {}

    def read(self, session_id: str) -> Claim | None:
        """Return the claim on the session, dead or alive, or None.

        The owner of an invalid claim counts as dead.
        """
        text = self._text(session_id)
        return None if text is None else self._claim(session_id, text, self._owners.lives)

    def all(self) -> list[Claim]:
        """Return every claim, dead or alive.

        Called for every listing, so unchanged records are not parsed again. Whether owners are
        alive is checked each time, once for each owner.
        """
        lives = cache(self._owners.lives)  # there are few owners
        before, found = self._seen, dict[str, tuple[str, Claim]]()
        for name, text in self._texts():
            known = before.get(name)
            if known is None or known[0] != text:
                known = text, self._claim(name.removesuffix(SUFFIX), text, lives)
            elif lives(known[1].owner) is not known[1].alive:
                known = text, msgspec.structs.replace(known[1], alive=not known[1].alive)
            found[name] = known
        # Not cached: begun calls, which may grow, and claims of an unknown version.
        self._seen = {} if self._begun else {k: v for k, v in found.items() if v[1].is_known}
        return [claim for _, claim in found.values()]

    def _claim(self, session_id: str, text: str, lives: Lives) -> Claim:
        record = _record(text)
        if record is not None:
            turn_id, owner, started_at = record
            alive = lives(owner)
        else:
            words = _NAME.findall(text)
            turn_id = next(filter(_TURN_ID.fullmatch, words), "")
            owner = next(filter(lives, words), "")
            started_at, alive = "", bool(owner)
        return Claim(
            session_id=session_id,
            turn_id=turn_id,
            owner=owner,
            started_at=started_at,
            begun=() if self._begun is None else self._begun.of(session_id, turn_id),
            alive=alive,
            is_known=record is not None,
        )

    def hold_of(self, session_id: str) -> Hold | None:
        """Return who has the claim on the session, dead or alive, or None.

        Turn and process of a newer server's record are empty.
        """
        text = self._text(session_id)
        return None if text is None else Hold(*(_record(text) or ("", ""))[:2])

    def write(self, session_id: str, *, turn_id: str, owner: str, started_at: str) -> None:
        """Claim the session for a turn of that process, replacing any other claim."""
        record = f"{turn_id}|{owner}|{started_at}|{VERSION}"
        path = self._path(session_id)
        try:
            try:
                os.symlink(record, path)
            except FileNotFoundError:  # the first claim, with owners that use no files here
                make_private_directory(self._directory, durable=False)
                os.symlink(record, path)
        except FileExistsError:
            self._replace(session_id, record)
        except OSError as error:
            raise_if_unwritable(error)
            raise

    def _replace(self, session_id: str, record: str) -> None:
        """Replace a claim at once: for a moment without one, the session would look idle."""
        temporary = f"{self._directory}/.{session_id}.{new_file_tag()}.tmp"
        os.symlink(record, temporary)
        try:
            os.replace(temporary, self._path(session_id))
        except OSError:
            self._remove(session_id)  # a directory in its place
            os.replace(temporary, self._path(session_id))

    def begin(self, session_id: str, turn_id: str, calls: Sequence[str]) -> None:
        """Record calls that the claiming turn begins, if begun calls are recorded."""
        if self._begun is not None and calls:
            self._begun.add(session_id, turn_id, calls)

    def remove(self, session_id: str) -> None:
        """Remove the claim, if there is one; rename a directory that is in its place."""
        self._remove(session_id)
        if self._begun is not None:
            self._begun.remove(session_id)

    def _remove(self, session_id: str) -> None:
        path = self._path(session_id)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in {errno.EISDIR, errno.EPERM} or not os.path.isdir(path):
                raise_if_unwritable(error)
                raise
            aside = f"{path}.{new_file_tag()}.broken"
            os.rename(path, aside)
            logger.warning("a directory in place of a claim was renamed to %s", aside)

    def sync(self) -> None:
        """Sync the claims to disk, so that dead turns are recognized even after a power cut."""
        sync_directory(self._directory)

    def _texts(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each claim, dead or alive, with its record."""
        try:
            # Names relative to an open directory are looked up faster than whole paths.
            directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            for name in filter(_CLAIM.fullmatch, os.listdir(directory)):
                try:
                    yield name, os.readlink(name, dir_fd=directory)
                except OSError:  # it is given up just now, or no link
                    text = self._text(name.removesuffix(SUFFIX))
                    if text is not None:
                        yield name, text
        finally:
            os.close(directory)

    def _path(self, session_id: str) -> str:
        return f"{self._directory}/{session_id}{SUFFIX}"

    def _text(self, session_id: str) -> str | None:
        """Return the claim's record, empty where it makes no sense, or None."""
        path = self._path(session_id)
        try:
            return os.readlink(path)
        except FileNotFoundError:
            return None
        except OSError:  # something else lies there, perhaps of a newer server
            pass
        try:
            return read_regular(path, limit=RECORD_LIMIT).decode("ascii", "replace")
        except OSError:
            return ""


def _record(text: str) -> tuple[str, str, str] | None:
    """Return turn, owner and time, empty where they make no sense; None for a newer record."""
    fields = text.split("|", 4)
    if len(fields) > 4 or (len(fields) == 4 and fields[3] not in _VERSIONS):
        return None
    if len(fields) < 3:
        return None
    return _name(fields[0]), _name(fields[1]), fields[2]


def _name(text: str) -> str:
    """Return a name from a record, or nothing: it becomes a path, and must not lead elsewhere."""
    return text if _NAME.fullmatch(text) else ""
