"""The coder's tools: files and commands in the workspace folder, and nowhere else."""

import os
from typing import Annotated

from pydantic import Field

from mochi_server.workspace import Workspace

# These change something: the policy ``confirm_destructive`` asks before they run.
__destructive__ = ["write_file", "insert_replace_text", "delete_rename_file", "run_cli_command"]

# Tools run in the data directory, so that this is its folder ``workspace``.
_workspace = Workspace(os.environ.get("MOCHI_WORKSPACE") or "workspace")


def read_file(
    path: str,
    first_line: Annotated[int, Field(ge=1)] = 1,
    last_line: int | None = None,
) -> str:
    """Read a text file of the workspace, or some of its lines.

    Args:
        path: The file, relative to the workspace.
        first_line: The first line to read, counted from 1.
        last_line: The last line to read; the end of the file if left out.
    """
    return _workspace.read_file(path, first_line, last_line)


def write_file(path: str, content: str) -> str:
    """Write a whole file: a new one, or in place of the one that is there.

    Missing folders are made. To change a part of a file, use insert_replace_text.

    Args:
        path: The file, relative to the workspace.
        content: Its whole text.
    """
    return _workspace.write_file(path, content)


def insert_replace_text(
    path: str, new_text: str, old_text: str | None = None, line: int | None = None
) -> str:
    """Change a part of a file: replace a passage, or insert text before a line.

    Give either old_text or line.

    Args:
        path: The file, relative to the workspace.
        new_text: The text to put there; empty removes the passage.
        old_text: The passage to replace, exactly as it is in the file, where it must occur once.
        line: The line to insert before, counted from 1; one more than the last line appends.
    """
    return _workspace.insert_replace_text(path, new_text, old_text, line)


def list_dir(path: str = ".") -> str:
    """List a folder of the workspace: folders end in '/', files have their sizes.

    Args:
        path: The folder, relative to the workspace; the workspace itself if left out.
    """
    return _workspace.list_dir(path)


def delete_rename_file(path: str, new_path: str | None = None) -> str:
    """Delete a file or an empty folder, or rename it when new_path is given.

    Args:
        path: What to delete or rename, relative to the workspace.
        new_path: The new path, relative to the workspace, where nothing must be yet.
    """
    return _workspace.delete_rename_file(path, new_path)


def run_cli_command(
    command: str, timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 30
) -> str:
    """Run a shell command in the workspace; returns its exit code and what it printed.

    It gets no input. Everything it leaves running is ended, so servers can't be started with it.

    Args:
        command: The command, as for a shell.
        timeout_seconds: How long it may take; the server's own limit for tools holds as well.
    """
    return _workspace.run_cli_command(command, timeout_seconds)
