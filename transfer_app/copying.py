"""Copies what is kept from a data directory to an object store, or back (docs/backup.md).

Nothing that is there is overwritten. What is the same on both sides is left as it is, so that a
copy that broke off can be made again.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from chat.conversation_storage import ConversationStorage, SessionKind, build_storage, locations_of
from chat.file_storage import FileStorageEngine
from chat.storage.records import TURN_RECORDS
from cluster_app.objects.probe import ConditionsIgnored, require_conditions
from cluster_app.objects.store import (
    ObjectExists,
    ObjectMissing,
    ObjectStore,
    OutcomeUnclear,
)
from mochi_project.configuration.config import MochiSettings
from prompts_app.prompts import is_filename
from sessions_app.errors import SessionCorrupt, SessionNotFound
from sessions_app.format.codec import decode, encode
from sessions_app.services import attachments_dir
from sessions_app.session import Session
from sessions_app.store.atomic import (
    UnreadableFileError,
    make_private_directory,
    read_regular,
    write_atomically,
)
from sessions_app.store.envelope import is_tombstone, opened
from sessions_app.store.listing import FILE_NAME
from sessions_app.store.session_files import SIZE_LIMIT
from transfer_app.backup import storages_of
from transfer_app.copy_report import CopiedName, Outcome

COPIERS = 16
"""Objects that are read and written at once: each waits for the store."""

_RECORD = re.compile(TURN_RECORDS, re.ASCII)
_ATTACHMENT = re.compile(r"([0-9a-f]{2})/\1[0-9a-f]{62}", re.ASCII)
_PROFILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\.json", re.ASCII)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of what is copied.

    Attributes:
        name: Its name for people.
        folder: Where it is in an object store.
        is_ours: Whether a file or an object of this name belongs to it.
        holds_sessions: Whether it holds sessions.
    """

    name: str
    folder: str
    is_ours: Callable[[str], object]
    holds_sessions: bool = False


PARTS: Sequence[Part] = (
    Part("attachments", "attachments", _ATTACHMENT.fullmatch),  # before who refers to them
    Part("sessions", "sessions", FILE_NAME.fullmatch, holds_sessions=True),
    Part("chats of agents", "agents", FILE_NAME.fullmatch, holds_sessions=True),
    Part("responses", "responses", _RECORD.fullmatch),
    Part("system prompts", "prompts", is_filename),
    Part("profiles", "profiles", _PROFILE.fullmatch),
)


class DataLocation(Protocol):
    """A data directory, or an object store. All calls block."""

    name: str

    def names(self, part: Part) -> Sequence[str]:
        """Return the names of all that the part has."""

    def read(self, part: Part, name: str) -> bytes:
        """Return what has this name, sessions as if their turns had been interrupted.

        Raises:
            FileNotFoundError: Nothing has it.
            UnreadableFileError: It can't be read.
        """

    def create(self, part: Part, name: str, data: bytes) -> None:
        """Keep something new; raises ``FileExistsError``."""

    def busy(self) -> Sequence[str]:
        """Return the sessions that are being answered, as far as that can be known."""

    def prepare(self) -> None:
        """Have the place take what is new; ``ValueError`` if it can't."""


class DirectoryLocation:
    """A data directory.

    Args:
        settings: Its configuration.
    """

    def __init__(self, settings: MochiSettings) -> None:
        self.name = str(settings.resolved_data_dir)
        self._directories: Mapping[str, Path] = {
            "sessions": settings.resolved_sessions_dir,
            "agents": settings.resolved_agent_chats_dir,
            "attachments": attachments_dir(settings),
            "responses": locations_of(settings, SessionKind.CHAT).records_dir,
            "prompts": settings.resolved_system_prompts_dir,
            "profiles": settings.resolved_data_dir / "profiles",
        }
        files = FileStorageEngine(settings)
        self._storages: Mapping[str, ConversationStorage] = {
            "sessions": build_storage(files, settings),
            "agents": build_storage(files, settings, SessionKind.AGENT),
        }

    def names(self, part: Part) -> Sequence[str]:
        """Return the names of the part's files."""
        return sorted(filter(part.is_ours, _files_in(self._directories[part.folder])))

    def read(self, part: Part, name: str) -> bytes:
        """Return a file's content."""
        if part.holds_sessions:
            try:
                copy = self._storages[part.folder].recovery.copy_of(name.removesuffix(".json"))
            except SessionNotFound as error:
                raise FileNotFoundError(name) from error
            except SessionCorrupt:  # it is copied as it is
                copy = None
            if copy is not None:
                return encode(copy)
        return read_regular(self._directories[part.folder] / name, limit=SIZE_LIMIT)

    def create(self, part: Part, name: str, data: bytes) -> None:
        """Write a file."""
        write_atomically(self._directories[part.folder] / name, data, exclusive=True)

    def prepare(self) -> None:
        """Make the directory."""
        make_private_directory(self.name)

    def busy(self) -> Sequence[str]:
        """Return the sessions whose turns run."""
        return [
            claim.session_id
            for storage in self._storages.values()
            for claim in storage.repository.claims()
            if claim.alive
        ]


class ObjectLocation:
    """An object store.

    Args:
        url: Where it is.
        storages: What knows of its turns, where that is configured.

    Raises:
        ValueError: This is no URL of an object store.
    """

    def __init__(self, url: str, storages: Sequence[ConversationStorage] = ()) -> None:
        self._store = ObjectStore(url)
        self._storages = storages
        self.name = self._store.name

    def names(self, part: Part) -> Sequence[str]:
        """Return the names of the part's objects."""
        pages = self._store.under(part.folder).list()
        return sorted(item.key for page in pages for item in page if part.is_ours(item.key))

    def read(self, part: Part, name: str) -> bytes:
        """Return an object's content."""
        try:
            data = self._store.under(part.folder).get(name).data
        except ObjectMissing as error:
            raise FileNotFoundError(name) from error
        if is_tombstone(data):
            raise FileNotFoundError(name)
        return data

    def create(self, part: Part, name: str, data: bytes) -> None:
        """Write an object."""
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

    def busy(self) -> Sequence[str]:
        """Return the sessions whose turns run, where that is configured."""
        return [
            claim.session_id
            for storage in self._storages
            for claim in storage.repository.claims()
            if claim.alive
        ]


def places_of(
    source: str, target: str, settings: MochiSettings, *, dry_run: bool
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
    if busy := sorted({each for place in places for each in place.busy()}):
        raise ValueError(f"session {busy[0]} is being answered: stop all servers first")
    if not dry_run:
        places[1].prepare()
    return places


def _place_of(text: str, settings: MochiSettings) -> DataLocation:
    if "://" in text:
        storages = storages_of(settings) if text == settings.sessions_url else {}
        kinds = (SessionKind.CHAT, SessionKind.AGENT) if storages else ()
        return ObjectLocation(text, [storages[kind] for kind in kinds])
    directory = Path(text).expanduser().resolve()
    if directory == settings.resolved_data_dir:
        return DirectoryLocation(settings)
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{text} is not a directory")
    return DirectoryLocation(MochiSettings(data_dir=directory))


def copy_all(source: DataLocation, target: DataLocation, *, dry_run: bool) -> Iterator[CopiedName]:
    """Copy everything that the target lacks, and yield what becomes of each name."""
    with ThreadPoolExecutor(COPIERS) as copiers:
        for part in PARTS:
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
            return self._told(name, "unreadable", reason=error.reason)
        ours = _plain(self.part, name, data)
        if name in self.there:
            return self._told(name, self._compared(name, ours))
        try:
            if not self.dry_run:
                self.target.create(self.part, name, ours.data)
        except FileExistsError:
            return self._told(name, self._compared(name, ours))
        return self._told(name, "copied", was_claimed=ours.was_claimed)

    def _told(
        self, name: str, outcome: Outcome, *, reason: str = "", was_claimed: bool = False
    ) -> CopiedName:
        return CopiedName(
            part=self.part.name,
            name=name,
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
    if not part.holds_sessions:
        return _Plain(data)
    try:
        found = decode(data, name.removesuffix(".json"))
    except SessionCorrupt:  # it is copied as it is
        return _Plain(data)
    session, envelope = opened(found)
    return _Plain(
        data if session is found else encode(session), session, envelope.claim is not None
    )


def _files_in(directory: Path) -> Iterator[str]:
    """Yield the names of all files, relative to the directory, less those that begin with a dot."""
    for folder, folders, files in os.walk(directory):
        folders[:] = [each for each in folders if not each.startswith(".")]
        inner = os.path.relpath(folder, directory)
        yield from (file if inner == os.curdir else f"{inner}/{file}" for file in files)
