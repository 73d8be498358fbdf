"""Confines an agent's tools to one directory: its files, and commands that start in it.

For ``agents/<name>/<name>.py``, as ``mochi_server.workspace``: its methods can be tools as they
are. Docstrings, results and the messages of the exceptions are written for a model. Everything
blocks: these run in tool hosts.
"""

import os
import re
import selectors
import stat
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import Field

from sessions_app.store.atomic import UnreadableFileError, read_regular
from sessions_app.surrogates import join_surrogates
from tools_app.command_reaper import reaper_command

MAX_FILE_BYTES = 1 << 20
MAX_ENTRIES = 1_000
MAX_OUTPUT_BYTES = 32 * 1024
"""The limit of a command's output: half of its beginning and half of its end are kept."""

_PIECE = 64 * 1024
_LOOK_AGAIN_SECONDS = 0.2
# A reaper gives up earlier; it does not end at all when the command has stopped it.
_REAPER_SECONDS = 8.0
# The command must not read what its reaper listens to.
_SHELL = ("/bin/sh", "-c", 'exec /bin/sh -c "$0" < /dev/null')
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class WorkspaceError(Exception):
    """Raised when a file or command is refused; its message tells the model what to do instead."""


class Workspace:
    """A directory, and nothing outside of it.

    Paths are relative to it, or absolute and inside. ``..`` is refused, and so is every path that
    leads out through a symbolic link. This guards against mistakes, and it is no sandbox: a command
    can do what its user can.

    Args:
        directory: The directory; made when something is first done in it.
        hidden: Names at its top that nothing here touches.
    """

    def __init__(
        self, directory: str | os.PathLike[str], *, hidden: frozenset[str] = frozenset()
    ) -> None:
        self.directory = Path(directory).absolute()
        self._hidden = frozenset(name.casefold() for name in hidden)

    def read_file(
        self, path: str, first_line: Annotated[int, Field(ge=1)] = 1, last_line: int | None = None
    ) -> str:
        """Return the text of a file, or some of its lines.

        Args:
            path: The file.
            first_line: The first line to read, counted from 1.
            last_line: The last line to read; the end of the file if left out.

        Raises:
            WorkspaceError: The path is not allowed, or leads to no text of at most 1 MiB.
        """
        text = self._text_of(path)
        if first_line == 1 and last_line is None:
            return text
        lines = _LINE.findall(text)
        if not 1 <= first_line <= len(lines):
            raise WorkspaceError(f"{path} has {len(lines)} lines: first_line must be one of them.")
        if last_line is not None and last_line < first_line:
            raise WorkspaceError("last_line must not be before first_line.")
        return "".join(lines[first_line - 1 : last_line])

    def write_file(self, path: str, content: str) -> str:
        """Write a file, new or in place of the one that is there; makes missing directories.

        Args:
            path: The file.
            content: Its whole text.

        Raises:
            WorkspaceError: The path is not allowed or can't be written.
        """
        target = self._resolved(path)
        verb = "Replaced" if target.exists() else "Created"
        self._write(path, target, content)
        return f"{verb} {self._relative(target)} ({len(content.encode())} bytes)."

    def insert_replace_text(
        self, path: str, new_text: str, old_text: str | None = None, line: int | None = None
    ) -> str:
        """Replace a passage of a file, or insert text before a line.

        Args:
            path: The file.
            new_text: The text to put there.
            old_text: The passage to replace; must be in the file exactly once.
            line: Insert before this line instead, counted from 1; one more than the last appends.

        Raises:
            WorkspaceError: Not exactly one of ``old_text`` and ``line`` is given, or the passage or
                the line is not there.
        """
        text = self._text_of(path)
        if old_text and line is None:
            found = text.count(old_text)
            if found != 1:
                hint = "read the file again" if not found else "take more of the text around it"
                raise WorkspaceError(f"old_text occurs {found} times in {path}: {hint}.")
            changed, what = text.replace(old_text, new_text), "Replaced the passage in"
        elif line is not None and not old_text:
            lines = _LINE.findall(text)
            if not 1 <= line <= len(lines) + 1:
                raise WorkspaceError(f"{path} has {len(lines)} lines: {line} is none of them.")
            before, after = "".join(lines[: line - 1]), "".join(lines[line - 1 :])
            if before and not before.endswith("\n"):
                before += "\n"
            if after and not new_text.endswith("\n"):
                new_text += "\n"
            changed, what = before + new_text + after, f"Inserted before line {line} of"
        else:
            raise WorkspaceError("Give either old_text, to replace it, or line, to insert there.")
        target = self._resolved(path)
        self._write(path, target, changed)
        return f"{what} {self._relative(target)}."

    def list_dir(self, path: str = ".") -> str:
        """Return the entries of a directory, one a line: directories with '/', files with sizes.

        Args:
            path: The directory; the whole one if left out.

        Raises:
            WorkspaceError: The path is not allowed, or leads to no directory.
        """
        target = self._resolved(path)
        try:
            with os.scandir(target) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
            if target == self._root():
                found = [entry for entry in found if entry.name.casefold() not in self._hidden]
            lines = [_line_of(entry) for entry in found[:MAX_ENTRIES]]
        except OSError as error:
            raise WorkspaceError(f"{path}: {_why(error)}.") from error
        if len(found) > MAX_ENTRIES:
            lines.append(f"... and {len(found) - MAX_ENTRIES} more")
        return "\n".join(lines) or f"{self._relative(target)} is empty."

    def delete_rename_file(self, path: str, new_path: str | None = None) -> str:
        """Delete a file or an empty directory, or rename it when ``new_path`` is given.

        Args:
            path: What to delete or rename.
            new_path: Its new path, where nothing must be yet.

        Raises:
            WorkspaceError: A path is not allowed, there is nothing at ``path``, something at
                ``new_path``, or the directory is not empty.
        """
        source = self._entry(path)
        shown = self._relative(source)
        try:
            if new_path is not None:
                target = self._entry(new_path)
                if os.path.lexists(target):
                    raise WorkspaceError(f"{new_path} exists already: delete it first.")
                source.lstat()
                target.parent.mkdir(parents=True, exist_ok=True)
                source.rename(target)
                return f"Renamed {shown} to {self._relative(target)}."
            if source.is_dir() and not source.is_symlink():
                source.rmdir()
            else:
                source.unlink()
        except OSError as error:
            raise WorkspaceError(f"{path}: {_why(error)}.") from error
        return f"Deleted {shown}."

    def run_cli_command(
        self, command: str, timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 30
    ) -> str:
        """Run a shell command in the directory and return its exit code and output.

        What it leaves running is ended with it, by SIGTERM, and a second later by SIGKILL; also
        what has put itself into a session of its own, on Linux. Standard input is empty.

        Args:
            command: As for ``sh -c``.
            timeout_seconds: How long it may take.

        Raises:
            WorkspaceError: It took too long, and was ended.
        """
        process = subprocess.Popen(  # noqa: S603 - it is a tool that runs commands
            reaper_command([*_SHELL, command]),
            cwd=self._root(),
            stdin=subprocess.PIPE,  # the reaper's, whom its closing tells that we have ended
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            process_group=0,
        )
        try:
            output, ended = _followed(process, time.monotonic() + timeout_seconds)
        finally:
            _end(process)
        if not ended:
            raise WorkspaceError(
                f"The command took longer than {timeout_seconds:g} seconds and was ended. Its "
                f"output was:\n{output}"
            )
        return f"exit code {process.returncode}\n{output}".rstrip()

    def _root(self) -> Path:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WorkspaceError(f"There is no workspace: {_why(error)}.") from error
        return self.directory.resolve()

    def _resolved(self, path: str) -> Path:
        """Return where the path leads, all links followed, which is inside."""
        return self._checked(path, follow=True)

    def _entry(self, path: str) -> Path:
        """Return the directory's entry that the path names, which may be a link to anywhere."""
        entry = self._checked(path, follow=False)
        if entry == self._root():
            raise WorkspaceError("The workspace itself must stay as it is.")
        return entry

    def _checked(self, path: str, *, follow: bool) -> Path:
        root = self._root()
        try:
            is_name = b"\0" not in os.fsencode(path)
        except UnicodeEncodeError:
            is_name = False
        if not is_name:
            raise WorkspaceError("The path has characters that no path has.")
        given = Path(path)
        if ".." in given.parts:
            raise WorkspaceError(f"{path}: '..' is not allowed; paths begin in the workspace.")
        if given.is_absolute():
            within = [base for base in (root, self.directory) if given.is_relative_to(base)]
            if not within:
                raise WorkspaceError(f"{path} is outside of the workspace: use a relative path.")
            given = given.relative_to(within[0])
        named = root / given
        try:
            found = named.resolve() if follow else named.parent.resolve() / named.name
        except (OSError, RuntimeError) as error:  # a loop of links
            raise WorkspaceError(f"{path} can't be followed.") from error
        if follow and found.is_symlink():  # a loop, of which Python 3.13 says nothing
            raise WorkspaceError(f"{path} can't be followed.")
        if named == root:
            found = root
        if not found.is_relative_to(root):
            raise WorkspaceError(f"{path} leads out of the workspace through a link.")
        if self._hidden.intersection(map(str.casefold, found.relative_to(root).parts[:1])):
            raise WorkspaceError(f"{path} is not part of the workspace.")
        return found

    def _relative(self, path: Path) -> str:
        return str(path.relative_to(self._root()))

    def _text_of(self, path: str) -> str:
        try:
            data = read_regular(self._resolved(path), limit=MAX_FILE_BYTES)
        except UnreadableFileError as error:
            raise WorkspaceError(f"{path} can't be read: {error.reason}.") from error
        except OSError as error:
            raise WorkspaceError(f"{path}: {_why(error)}.") from error
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise WorkspaceError(f"{path} is not UTF-8 text.") from error

    def _write(self, path: str, target: Path, content: str) -> None:
        """Put the text there whole, or leave what was there; who may do what with it stays."""
        temporary = target.with_name(f".{target.name[:64]}.{os.getpid()}.tmp")
        try:
            mode = stat.S_IMODE(target.stat().st_mode) if target.is_file() else None
            if mode is None and target.exists():
                raise WorkspaceError(f"{path} is not a file.")
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(content, "utf-8", newline="")
            if mode is not None:
                temporary.chmod(mode)
            temporary.replace(target)
        except OSError as error:
            raise WorkspaceError(f"{path}: {_why(error)}.") from error
        except UnicodeEncodeError as error:
            raise WorkspaceError("The text holds half of a character.") from error
        finally:
            temporary.unlink(missing_ok=True)


def _followed(process: subprocess.Popen[bytes], deadline: float) -> tuple[str, bool]:
    """Return what the command prints, and whether it ended before the deadline.

    What goes on in the background keeps the output open: the command's own end counts.
    """
    output = _Output()
    stream = process.stdout
    assert stream is not None  # noqa: S101 - it was opened with a pipe
    os.set_blocking(stream.fileno(), False)
    with selectors.DefaultSelector() as selector, stream:
        selector.register(stream, selectors.EVENT_READ)
        open_ended = True
        while (left := deadline - time.monotonic()) > 0:
            if not open_ended:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(left)
                break
            has_ended = process.poll() is not None
            ready = selector.select(0 if has_ended else min(left, _LOOK_AGAIN_SECONDS))
            if ready:
                piece = stream.read(_PIECE)
                output.add(piece or b"")
                open_ended = piece != b""
            elif has_ended:
                break
    return output.text(), process.poll() is not None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have the reaper end the command and all that came of it; returns when that is done."""
    with process:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_REAPER_SECONDS)
        process.kill()


class _Output:
    """The beginning and the end of a text that may be endless."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._count = 0

    def add(self, piece: bytes) -> None:
        half = MAX_OUTPUT_BYTES // 2
        self._count += len(piece)
        room = half - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        del self._tail[:-half]

    def text(self) -> str:
        left_out = self._count - len(self._head) - len(self._tail)
        cut = f"\n[... {left_out} bytes left out ...]\n".encode() if left_out else b""
        return bytes(self._head + cut + self._tail).decode(errors="replace")


def _line_of(entry: os.DirEntry[str]) -> str:
    name = join_surrogates(entry.name)
    if entry.is_symlink():
        return f"{name} (link)"
    if entry.is_dir(follow_symlinks=False):
        return f"{name}/"
    return f"{name} ({entry.stat(follow_symlinks=False).st_size} bytes)"


def _why(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
