"""Finds the parts of a folder that need trust, and computes their digests.

The work is bounded: for each part at most 20,000 directory entries are examined, and the content of
2,000 files and 32 MiB is hashed; for files beyond that, names, sizes and times of change.
``__pycache__`` is left out: tool processes do not read it.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Any

import msgspec

from sessions_app.decoding import decode_as
from sessions_app.store.atomic import read_regular

MAX_ENTRIES = 20_000
MAX_FILES = 2_000
MAX_BYTES = 32 << 20
MAX_ENV_BYTES = 128 << 10
MAX_PROFILE_BYTES = 1 << 20

ENV, TOOLS, AGENTS, MCP = "env", "tools", "agents", "mcp"
PROFILES, STATE = "profiles", "state"
PART_NAMES = {
    ENV: ".env",
    TOOLS: "tools",
    AGENTS: "agents",
    MCP: "mcp.json",
    PROFILES: "profiles (their addresses and keys)",
    STATE: ".mochi (its secrets and tasks)",
}
"""The parts of a folder that need trust, with their names for people."""

STATE_FILES = ("secret_key", "api_token", "queue.sqlite3")
_LEFT_OUT = {"__pycache__", "agent_chats"}
_CODE_SUFFIXES = tuple(all_suffixes())
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_PIECE = 1 << 18


@dataclass(frozen=True, slots=True)
class Part:
    """The contents of one part of a folder.

    Attributes:
        digest: A digest of the contents.
        files: Its files, relative to the part.
        whole: Whether everything was examined; False beyond ``MAX_ENTRIES``.
    """

    digest: str
    files: tuple[str, ...]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class FolderLayout:
    """The paths of a folder's parts; ``env`` is the content of its ``.env``, if there is one."""

    folder: Path
    env: bytes | None
    tools: Path
    agents: Path
    mcp: Path


def read_env_file(folder: Path) -> bytes | None:
    """Return the content of a folder's ``.env``; None if there is none.

    Raises:
        OSError: It can't be read, or is larger than 128 KiB.
    """
    path = folder / ".env"
    if not path.is_file():
        return None
    with path.open("rb") as file:
        data = file.read(MAX_ENV_BYTES + 1)
    if len(data) > MAX_ENV_BYTES:
        raise OSError(f"larger than {MAX_ENV_BYTES} bytes")
    return data


def parts_of(layout: FolderLayout) -> Mapping[str, Part]:
    """Return the parts that exist. Blocks; executes nothing, and never raises.

    A part that can't be read counts as missing: it can't be executed either.
    """
    parts = {
        ENV: None if layout.env is None else Part(_sha256(layout.env), (".env",)),
        TOOLS: _code(layout.tools),
        AGENTS: _code(layout.agents),
        MCP: _single(layout.mcp),
        PROFILES: _profiles(layout.folder / "profiles"),
        STATE: _state(layout.folder / ".mochi"),
    }
    return {name: part for name, part in parts.items() if part is not None}


class _Digest:
    """Hashes the content of files up to a bound, beyond it their sizes and times."""

    def __init__(self, place: Path) -> None:
        self._hash = hashlib.sha256(os.fsencode(place) + b"\0")
        self._files_left = MAX_FILES
        self._bytes_left = MAX_BYTES

    def add(self, name: str, path: str) -> None:
        self._hash.update(os.fsencode(name) + b"\0" + self._content(path) + b"\0")

    def note(self, name: str, content: bytes) -> None:
        self._hash.update(os.fsencode(name) + b"\0" + content + b"\0")

    def _content(self, path: str) -> bytes:
        try:
            descriptor = os.open(path, _READ)  # follows links: so does an import
        except OSError as error:
            return f"unreadable {error.errno}".encode()
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return f"no file {status.st_mode}".encode()
            if self._files_left <= 0 or status.st_size > self._bytes_left:
                return f"{status.st_size} {status.st_mtime_ns}".encode()
            return self._hashed(descriptor)
        except OSError as error:
            return f"unreadable {error.errno}".encode()
        finally:
            os.close(descriptor)

    def _hashed(self, descriptor: int) -> bytes:
        self._files_left -= 1
        content = hashlib.sha256()
        while self._bytes_left > 0 and (piece := os.read(descriptor, _PIECE)):
            self._bytes_left -= len(piece)
            content.update(piece)
        return content.digest()

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


class _Walk:
    """Lists the files under a directory, in a stable order, up to ``MAX_ENTRIES`` entries.

    Args:
        top: The directory.
        suffixes: The suffixes of their names; by default those of code.
        deep: Whether to search subdirectories.
    """

    def __init__(
        self, top: Path, *, suffixes: tuple[str, ...] = _CODE_SUFFIXES, deep: bool = True
    ) -> None:
        self._top = os.fspath(top)
        self._suffixes = suffixes
        self._deep = deep
        self._seen: set[tuple[int, int]] = set()
        self._left = MAX_ENTRIES

    @property
    def whole(self) -> bool:
        return self._left > 0

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield ``(relative name, path)``."""
        waiting = [("", self._top)]
        while waiting and self._left > 0:
            prefix, directory = waiting.pop()
            for name, path, is_directory in sorted(self._entries(directory)):
                if is_directory:
                    waiting.append((f"{prefix}{name}/", path))
                else:
                    yield f"{prefix}{name}", path

    def _entries(self, directory: str) -> Iterator[tuple[str, str, bool]]:
        try:
            status = Path(directory).stat()
            if (status.st_dev, status.st_ino) in self._seen:  # a link in a circle
                return
            self._seen.add((status.st_dev, status.st_ino))
            with os.scandir(directory) as entries:
                for entry in entries:
                    self._left -= 1
                    if self._left <= 0:
                        return
                    if entry.name.startswith(".") or entry.name in _LEFT_OUT:
                        continue
                    if self._deep and entry.is_dir():
                        yield entry.name, entry.path, True
                    elif entry.name.endswith(self._suffixes):
                        yield entry.name, entry.path, False
        except OSError:  # missing or unreadable: it can't be imported either
            return


def _code(directory: Path) -> Part | None:
    walk, digest, names = _Walk(directory), _Digest(directory), []
    for name, path in walk:
        digest.add(name, path)
        names.append(name)
    if not names and walk.whole:
        return None
    return Part(digest.hexdigest(), tuple(names), walk.whole)


def _single(path: Path) -> Part | None:
    if not os.path.lexists(path):
        return None
    digest = _Digest(path)
    digest.add(path.name, os.fspath(path))
    return Part(digest.hexdigest(), (path.name,))


class _Destination(msgspec.Struct, frozen=True):
    """The fields of a profile that name an address or a key."""

    provider: Any = None
    base_url: Any = None
    api_key_env: Any = None


def _profiles(directory: Path) -> Part | None:
    """Find the profiles that name an address or a key; other profiles need no trust."""
    walk = _Walk(directory, suffixes=(".json",), deep=False)
    digest, names, left = _Digest(directory), [], MAX_BYTES
    for name, path in walk:
        try:
            data = read_regular(path, limit=min(left, MAX_PROFILE_BYTES))
            left -= len(data)
            there = decode_as(data, _Destination)
        except (OSError, msgspec.MsgspecError, RecursionError):
            continue  # it can't be used either
        if there.base_url is not None or there.api_key_env is not None:
            digest.note(name, msgspec.json.encode(there))
            names.append(name)
    is_whole = walk.whole and left > MAX_PROFILE_BYTES
    return None if is_whole and not names else Part(digest.hexdigest(), tuple(names), is_whole)


def _state(directory: Path) -> Part | None:
    found = tuple(name for name in STATE_FILES if os.path.lexists(directory / name))
    return Part("present", found) if found else None


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
