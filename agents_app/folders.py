"""Reads the folders of agents without running anything in them. Blocks."""

import os
import stat
from pathlib import Path

import msgspec

from agents_app.agent import CHATS_DIRECTORY, INIT_FILE, SKILL_FILE, fault_of_name, module_files
from agents_app.skill import MAX_FILE_BYTES, TOO_LARGE, Skill, parse_skill
from sessions_app.store.atomic import UnreadableFileError, read_regular
from sessions_app.surrogates import join_surrogates

_NO_SKILL = f"{SKILL_FILE} is missing: write what the agent is for, and how it should behave."
_LINK = "It is a symbolic link, and links are not followed: put the folder itself there."


class AgentFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that is an agent, or looks as if it was meant to be one.

    Attributes:
        name: Its name.
        path: Its path.
        skill: The content of its ``SKILL.md``.
        faults: Its errors, except those of its tools: sentences that say what to change.
        has_code: Whether it may have tools, which need discovery.
    """

    name: str
    path: Path
    skill: Skill = Skill()
    faults: tuple[str, ...] = ()
    has_code: bool = False


def read_folders(
    agents_dir: Path,
    *,
    chats_dir: Path | None = None,
    only: frozenset[str] | None = None,
) -> dict[str, AgentFolder]:
    """Return the folders by name, in order.

    Files, names that begin with ``_`` or ``.``, and the directory of agents' sessions are skipped.

    Args:
        agents_dir: Their directory; need not exist.
        chats_dir: The directory of agents' sessions, by default ``agent_chats``.
        only: The names to look for; all by default. No path is made of a name that is not there.
    """
    skipped = {CHATS_DIRECTORY}
    if chats_dir is not None and chats_dir.is_relative_to(agents_dir):
        skipped |= set(chats_dir.relative_to(agents_dir).parts[:1])
    try:
        with os.scandir(agents_dir) as entries:
            found = [
                entry
                for entry in entries
                if not entry.name.startswith(("_", "."))
                and entry.name not in skipped
                and (only is None or entry.name in only)
                and entry.is_dir()
            ]
    except FileNotFoundError:
        return {}
    except OSError as error:
        reason = f"The folder {agents_dir} can't be read: {error.strerror}."
        name = agents_dir.name
        return {name: AgentFolder(name=name, path=agents_dir, faults=(reason,))}
    folders = [_read(entry) for entry in found]
    return {folder.name: folder for folder in sorted(folders, key=lambda folder: folder.name)}


def left_out(agents_dir: Path) -> dict[str, str]:
    """Return skipped entries that may have been meant as agents, with the reasons."""
    found = {}
    try:
        with os.scandir(agents_dir) as entries:
            for entry in entries:
                name = join_surrogates(entry.name)
                if entry.is_dir():
                    if name.startswith(("_", ".")) and name != "__pycache__":
                        found[name] = "Names that begin with '_' or '.' are left out."
                elif name.endswith((".md", ".py")):
                    found[name] = "An agent is a folder with three files, not one file."
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}  # the agents' listing says so
    return dict(sorted(found.items()))


def _read(entry: "os.DirEntry[str]") -> AgentFolder:
    # Any bytes can be a name, and not all of them are text.
    name, path = join_surrogates(entry.name), Path(entry.path)
    faults = [fault] if (fault := fault_of_name(name)) else []
    if entry.is_symlink():
        return AgentFolder(name=name, path=path, faults=(*faults, _LINK))
    skill = _skill_of(path / SKILL_FILE)
    faults += skill.faults
    modules = module_files(name)
    has_init = (path / INIT_FILE).is_file()
    has_module = any((path / module).is_file() for module in modules)
    if not has_module:
        faults.append(f"{modules[-1]} is missing: it holds the functions that are the tools.")
    if not has_init:
        faults.append(f"{INIT_FILE} is missing: it imports the tools and lists them in __all__.")
    return AgentFolder(
        name=name,
        path=path,
        skill=skill,
        faults=tuple(faults),
        has_code=has_init and fault is None,
    )


def _skill_of(path: Path) -> Skill:
    try:
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and status.st_size > MAX_FILE_BYTES:
            return TOO_LARGE
        return parse_skill(read_regular(path, limit=MAX_FILE_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        return Skill(faults=(_NO_SKILL,))
    except UnreadableFileError as error:
        return Skill(faults=(f"{SKILL_FILE} can't be read: {error.reason}.",))
    except OSError as error:
        return Skill(faults=(f"{SKILL_FILE} can't be read: {error.strerror}.",))
