"""Copies all that must be kept of a data directory, and puts it back (docs/backup.md).

A backup is laid out as a data directory with the default places (docs/decisions/0053). Files are
written beside the old ones and renamed, so a copy that breaks off leaves no half file.
"""

import os
import re
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path

from django.core.management import CommandError

from agents_app.settings import AgentsSettings
from chat.conversation_storage import (
    ConversationStorage,
    SessionKind,
    StorageEngine,
    build_storages,
    locations_of,
)
from chat.storage.records import TURN_RECORDS
from mochi_project.app import build_services, mochi_apps
from mochi_project.configuration.app_settings import USERS, AppSettings, owners_in
from mochi_project.principal import DEFAULT_OWNER
from prompts_app.prompts import is_filename
from prompts_app.settings import PromptsSettings
from sessions_app.errors import SessionCorrupt, SessionNotFound
from sessions_app.format.codec import encode
from sessions_app.ids_and_clock import new_file_tag
from sessions_app.services import attachments_dir
from sessions_app.session import Session
from sessions_app.settings import SessionsSettings
from sessions_app.store.atomic import PRIVATE_FILE, make_private_directory, write_atomically
from sessions_app.store.listing import FILE_NAME
from tools_app.settings import ToolsSettings

SESSION_SUFFIX = ".json"
_MADE_BY_PYTHON = "__pycache__"
_RECORD = re.compile(TURN_RECORDS, re.ASCII)
_ATTACHMENT = re.compile(r"([0-9a-f]{2})/\1[0-9a-f]{62}", re.ASCII)
_PROFILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\.json", re.ASCII)
_KEPT_MODE = 0o755  # what others may write they could change, and it may be code


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the data: a file, a directory, or a directory of sessions.

    Attributes:
        name: Its name for people.
        path: Where it is.
        folder: Where an object store keeps it; empty if that keeps none of it.
        is_shared: Whether an object store keeps what has this name.
        storage: What reads its sessions, if it holds some.
        is_whole: Whether names that begin with a dot belong to it.
        owner: The owner of the data.
    """

    name: str
    path: Path
    folder: str = ""
    is_shared: Callable[[str], object] = bool
    storage: ConversationStorage | None = None
    is_whole: bool = False
    owner: str = DEFAULT_OWNER

    @property
    def key(self) -> tuple[str, str]:
        """Return what tells it from all other parts."""
        return self.owner, self.name


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a part, with its path relative to the part."""

    part: Part
    relative: Path

    @property
    def path(self) -> Path:
        """Return the path of the file."""
        return self.part.path / self.relative


def counted_files(name: str, count: int) -> str:
    """Return the line about the files of a part."""
    return f"{count:6} {'file' if count == 1 else 'files'} of {name}"


def require_files(settings: AppSettings) -> None:
    """Refuse a configuration with which sessions are not files.

    Raises:
        CommandError: They are objects; the message says what to do.
    """
    if settings.sessions_url is not None:
        raise CommandError(
            "Sessions, prompts and profiles are in the object store of MOCHI_SESSIONS_URL. Copy "
            "them with `mochi-server sessions copy FROM TO`, or keep versions of its bucket. "
            "Everything else is files, which you deploy."
        )


def parts_of(settings: AppSettings, owners: Iterable[str] | None = None) -> list[Part]:
    """Return the parts of a data directory, always in the same order. Opens nothing.

    Args:
        settings: The configuration of the directory.
        owners: The owners beside ``default``; if left out, those who have a folder.
    """
    if owners is None:
        owners = owners_in(settings.users_dir)
    engine = build_services(settings).get(StorageEngine)
    tools, homes = settings.of(ToolsSettings), settings.of(AgentsSettings)
    return [
        *_parts_of_owner(settings, engine),
        Part("agents", homes.resolved_agents_dir),
        Part("tools", tools.resolved_tools_dir),
        Part("MCP servers", tools.resolved_mcp_config_path),
        Part("planning prompt", homes.resolved_planning_prompt_path),
        Part("execution prompt", homes.resolved_execution_prompt_path),
        *(
            Part(name, path)
            for app in mochi_apps()
            for name, path in app.kept_files(settings).items()
        ),
        *chain.from_iterable(_parts_of_owner(settings.for_owner(each), engine) for each in owners),
    ]


def _parts_of_owner(settings: AppSettings, engine: StorageEngine) -> list[Part]:
    data, sessions = settings.resolved_data_dir, settings.of(SessionsSettings)
    prompts = settings.of(PromptsSettings).own_system_prompts_dir
    storages = build_storages(engine, sessions)
    kinds = SessionKind.CHAT, SessionKind.AGENT
    chats, agents = (locations_of(sessions, kind) for kind in kinds)
    of_chats, of_agents = (storages[kind] for kind in kinds)
    parts = [
        Part("sessions", chats.sessions_dir, chats.folder, FILE_NAME.fullmatch, of_chats),
        Part("chats of agents", agents.sessions_dir, agents.folder, FILE_NAME.fullmatch, of_agents),
        # After the sessions, so that whatever they refer to is there.
        Part("attachments", attachments_dir(settings), "attachments", _ATTACHMENT.fullmatch),
        Part("responses", chats.records_dir, chats.responses, _RECORD.fullmatch),
        Part("system prompts", prompts, "prompts", is_filename),
        Part("profiles", data / "profiles", "profiles", _PROFILE.fullmatch),
        Part("workspace", settings.of(ToolsSettings).resolved_workspace, is_whole=True),
    ]
    if (owner := settings.owner) == DEFAULT_OWNER:
        return parts
    return [
        replace(each, owner=owner, folder=each.folder and f"{USERS}/{owner}/{each.folder}")
        for each in parts
    ]


def entries_of(settings: AppSettings, *, without: Collection[Path] = ()) -> Iterator[Entry]:
    """Yield the files of all parts; each file belongs to one of them."""
    parts = parts_of(settings)
    data = settings.resolved_data_dir  # which may be the workspace
    left_out = {settings.resolved_state_dir, settings.users_dir, data / ".env", *without}
    left_out.update(part.path for part in parts)  # no part has its own path below itself
    for part in parts:
        yield from (Entry(part, relative) for relative in files_of(part, left_out))


def copy_entry(entry: Entry, target: Path) -> None:
    """Copy a file; a session whose turn runs is copied as if it were interrupted now.

    Raises:
        FileNotFoundError: It was removed meanwhile.
        OSError: It can't be read, or the copy can't be written.
    """
    make_private_directory(target.parent)
    session = running_session(entry)
    if session is None:
        _copy_file(entry.path, target, PRIVATE_FILE if entry.part.storage else _KEPT_MODE)
    else:
        write_atomically(target, encode(session))


def parts_elsewhere(settings: AppSettings) -> list[str]:
    """Return the parts of a backup that links lead out of it, to files of who restores it."""
    data = settings.resolved_data_dir.resolve()
    return [
        part.name for part in parts_of(settings) if not part.path.resolve().is_relative_to(data)
    ]


def places(settings: AppSettings) -> Callable[[Entry], Entry]:
    """Return what says where a file of another data directory belongs in this one."""
    parts = cache(lambda owner: {each.key: each for each in parts_of(settings, [owner])})
    return lambda entry: Entry(parts(entry.part.owner)[entry.part.key], entry.relative)


def busy_sessions(storages: Iterable[ConversationStorage]) -> list[str]:
    """Return the sessions that are being answered."""
    return [
        claim.session_id
        for storage in storages
        for claim in storage.repository.claims()
        if claim.alive
    ]


def running_session(entry: Entry) -> Session | None:
    """Return a session whose turn runs as if it were interrupted now; None for other files."""
    storage = entry.part.storage
    if storage is None:
        return None
    try:
        return storage.recovery.copy_of(entry.path.stem)
    except (SessionNotFound, SessionCorrupt):  # no session, or none that can be read: as it is
        return None


def files_of(part: Part, left_out: Collection[Path] = ()) -> Iterator[Path]:
    """Yield the paths of a part's files, relative to it; of a part that is a file, ``.``."""
    if part.path.is_file():
        yield Path()
        return
    for folder, folders, files in os.walk(part.path):
        here = Path(folder)
        if part.storage is not None:
            folders.clear()
        folders[:] = sorted(name for name in folders if _belongs(part, here / name, left_out))
        linked = [name for name in folders if (here / name).is_symlink()]  # not walked into
        for name in sorted([*files, *linked]):
            path = here / name
            if _belongs(part, path, left_out) and _can_be_copied(path):
                yield path.relative_to(part.path)


def _belongs(part: Part, path: Path, left_out: Collection[Path]) -> bool:
    if path in left_out or path.name == _MADE_BY_PYTHON:
        return False
    if part.storage is not None and path.suffix != SESSION_SUFFIX:
        return False
    return part.is_whole or not path.name.startswith(".")


def _can_be_copied(path: Path) -> bool:
    """Return whether it is a file or a link: sockets and the like hold no data."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _copy_file(source: Path, target: Path, mode: int) -> None:
    """Copy a file with what of its permissions is in ``mode``, or a link as a link."""
    temporary = target.parent / f".{target.name[:64]}.{new_file_tag()}.tmp"
    try:
        shutil.copy2(source, temporary, follow_symlinks=False)
        if not temporary.is_symlink():
            temporary.chmod(temporary.stat().st_mode & mode)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
