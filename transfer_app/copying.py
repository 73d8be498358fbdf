"""Copies what is kept from a data directory to an object store, or back (docs/backup.md).

Nothing that is there is overwritten. What is the same on both sides is left as it is, so that a
copy that broke off can be made again.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from chat.conversation_storage import ConversationStorage
from cluster_app.objects.probe import ConditionsIgnored, require_conditions
from cluster_app.objects.store import (
    ObjectExists,
    ObjectMissing,
    ObjectStore,
    OutcomeUnclear,
)
from mochi_project.configuration.app_settings import USERS, owners_in
from mochi_project.configuration.config import ServerSettings
from mochi_project.principal import DEFAULT_OWNER, is_owner
from sessions_app.errors import SessionCorrupt
from sessions_app.format.codec import decode, encode
from sessions_app.session import Session
from sessions_app.store.atomic import (
    UnreadableFileError,
    make_private_directory,
    read_regular,
    write_atomically,
)
from sessions_app.store.envelope import is_tombstone, opened
from sessions_app.store.session_files import SIZE_LIMIT
from transfer_app.backup import (
    Entry,
    Part,
    busy_sessions,
    files_of,
    parts_of,
    running_session,
)
from transfer_app.copy_report import CopiedName, Outcome

COPIERS = 16
"""Objects that are read and written at once: each waits for the store."""


class DirectoryLocation:
    """A data directory. All calls block.

    Args:
        settings: Its configuration.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.name = str(settings.resolved_data_dir)
        self._settings = settings.model_copy(update={"journal_url": None, "sessions_url": None})
        self._parts = {part.key: part for part in parts_of(self._settings)}
        self.storages = [part.storage for part in self._parts.values() if part.storage]

    def owners(self) -> Sequence[str]:
        """Return the owners of data, without ``default``."""
        return owners_in(self._settings.users_dir)

    def _mine(self, part: Part) -> Part:
        if part.key not in self._parts:  # of an owner who has no folder here yet
            self._parts |= {each.key: each for each in parts_of(self._settings, [part.owner])}
        return self._parts[part.key]

    def names(self, part: Part) -> Sequence[str]:
        """Return the names of the part's files."""
        files = files_of(self._mine(part))
        return sorted(filter(part.is_shared, (file.as_posix() for file in files)))

    def read(self, part: Part, name: str) -> bytes:
        """Return a file's content, sessions as if their turns had been interrupted.

        Raises:
            FileNotFoundError: Nothing has this name.
            UnreadableFileError: It can't be read.
        """
        entry = Entry(self._mine(part), Path(name))
        session = running_session(entry)
        return read_regular(entry.path, limit=SIZE_LIMIT) if session is None else encode(session)

    def create(self, part: Part, name: str, data: bytes) -> None:
        """Write a new file; raises ``FileExistsError``."""
        write_atomically(self._mine(part).path / name, data, exclusive=True)

    def prepare(self) -> None:
        """Make the directory."""
        make_private_directory(self.name)


class ObjectLocation:
    """An object store. All calls block.

    Args:
        url: Where it is.
        storages: What knows of its turns, where that is configured.

    Raises:
        ValueError: This is no URL of an object store.
    """

    def __init__(self, url: str, storages: Sequence[ConversationStorage] = ()) -> None:
        self._store = ObjectStore(url)
        self.storages = storages
        self.name = self._store.name

    def owners(self) -> Sequence[str]:
        """Return the owners of data, without ``default``."""
        return list(filter(is_owner, self._store.folders(f"{USERS}/")))

    def names(self, part: Part) -> Sequence[str]:
        """Return the names of the part's objects."""
        pages = self._store.under(part.folder).list()
        return sorted(item.key for page in pages for item in page if part.is_shared(item.key))

    def read(self, part: Part, name: str) -> bytes:
        """Return an object's content; raises ``FileNotFoundError``."""
        try:
            data = self._store.under(part.folder).get(name).data
        except ObjectMissing as error:
            raise FileNotFoundError(name) from error
        if is_tombstone(data):
            raise FileNotFoundError(name)
        return data

    def create(self, part: Part, name: str, data: bytes) -> None:
        """Write a new object; raises ``FileExistsError``."""
        store = self._store.under(part.folder)
        try:
            store.put_new(name, data)
        except ObjectExists as error:
            raise FileExistsError(name) from error
        except OutcomeUnclear:
            if self.read(part, name) != data:
                raise

    def prepare(self) -> None:
        """Refuse a store that would overwrite what is there; ``ValueError``."""
        try:
            require_conditions(self._store)
        except ConditionsIgnored as error:
            raise ValueError(str(error).removesuffix(".")) from error


DataLocation = DirectoryLocation | ObjectLocation


def places_of(
    source: str, target: str, settings: ServerSettings, *, dry_run: bool
) -> tuple[DataLocation, DataLocation]:
    """Return the places that a person named, ready to be copied between.

    Args:
        source: A directory, or the URL of an object store.
        target: Another one.
        settings: The configuration, which may be of one of them.
        dry_run: Whether nothing is to be copied.

    Raises:
        ValueError: That can't be; the message says why, as a sentence's beginning.
    """
    if "://" not in source and not Path(source).expanduser().is_dir():
        raise ValueError(f"{source} is not a directory")
    places = _place_of(source, settings), _place_of(target, settings)
    if places[0].name == places[1].name:
        raise ValueError("FROM and TO are the same")
    if busy := sorted({each for place in places for each in busy_sessions(place.storages)}):
        raise ValueError(f"session {busy[0]} is being answered: stop all servers first")
    if not dry_run:
        places[1].prepare()
    return places


def _place_of(text: str, settings: ServerSettings) -> DataLocation:
    if "://" in text:
        objects = ObjectLocation(text)
        if text == settings.sessions_url:
            parts = parts_of(settings, objects.owners())
            objects.storages = [part.storage for part in parts if part.storage]
        return objects
    directory = Path(text).expanduser().resolve()
    if directory == settings.resolved_data_dir:
        return DirectoryLocation(settings)
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{text} is not a directory")
    return DirectoryLocation(type(settings)(data_dir=directory))


def copy_all(
    source: DataLocation, target: DataLocation, settings: ServerSettings, *, dry_run: bool
) -> Iterator[CopiedName]:
    """Copy everything that the target lacks, and yield what becomes of each name."""
    parts = [part for part in parts_of(settings, source.owners()) if part.folder]
    parts.sort(key=lambda part: part.name != "attachments")  # before who refers to them
    with ThreadPoolExecutor(COPIERS) as copiers:
        for part in parts:
            there = frozenset(target.names(part))
            copy = _Copier(source, target, part, there, dry_run=dry_run).copy
            yield from filter(None, copiers.map(copy, source.names(part)))


@dataclass(frozen=True, slots=True)
class _Copier:
    source: DataLocation
    target: DataLocation
    part: Part
    there: frozenset[str]
    dry_run: bool

    def copy(self, name: str) -> CopiedName | None:
        """Copy what has a name; None where it went meanwhile."""
        try:
            data = self.source.read(self.part, name)
        except FileNotFoundError:
            return None
        except UnreadableFileError as error:
            return self._outcome(name, "unreadable", reason=error.reason)
        ours = _plain(self.part, name, data)
        if name in self.there:
            return self._outcome(name, self._compared(name, ours))
        try:
            if not self.dry_run:
                self.target.create(self.part, name, ours.data)
        except FileExistsError:
            return self._outcome(name, self._compared(name, ours))
        return self._outcome(name, "copied", was_claimed=ours.was_claimed)

    def _outcome(
        self, name: str, outcome: Outcome, *, reason: str = "", was_claimed: bool = False
    ) -> CopiedName:
        return CopiedName(
            part=self.part.name,
            name=name if self.part.owner == DEFAULT_OWNER else f"{self.part.owner}: {name}",
            outcome=outcome,
            reason=reason,
            was_claimed=was_claimed,
        )

    def _compared(self, name: str, ours: "_Plain") -> Outcome:
        try:
            theirs = _plain(self.part, name, self.target.read(self.part, name))
        except (FileNotFoundError, UnreadableFileError):
            return "different"
        if ours.session is not None and theirs.session is not None:
            return "same" if ours.session == theirs.session else "different"
        return "same" if ours.data == theirs.data else "different"


@dataclass(frozen=True, slots=True)
class _Plain:
    """Holds what has a name, less what belongs to an object and not to its session."""

    data: bytes
    session: Session | None = None
    was_claimed: bool = False


def _plain(part: Part, name: str, data: bytes) -> _Plain:
    if part.storage is None:
        return _Plain(data)
    try:
        found = decode(data, name.removesuffix(".json"))
    except SessionCorrupt:  # it is copied as it is
        return _Plain(data)
    session, envelope = opened(found)
    return _Plain(
        data if session is found else encode(session), session, envelope.claim is not None
    )
