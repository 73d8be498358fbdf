"""The system prompt files of one directory."""

import logging
import os
import stat
from pathlib import Path

from prompts_app.errors import PromptExists, PromptNotFound
from prompts_app.prompts import (
    Prompt,
    PromptSummary,
    is_filename,
    validate_content,
    validate_filename,
)
from sessions_app.store.atomic import (
    UnreadableFileError,
    read_regular,
    sync_directory,
    write_atomically,
)

MAX_FILE_BYTES = 1 << 20
"""Files larger than this are not read. Prompts written by hand may be longer than ours."""

logger = logging.getLogger(__name__)


class SystemPromptService:
    """Lists, reads and writes the ``.md`` and ``.txt`` files of a directory.

    Usable as a library. Every call blocks for milliseconds: call it from a worker thread. The
    directory is made when the first prompt is written. Symbolic links are never followed.

    Args:
        directory: Where the prompt files are.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)

    def list(self) -> list[PromptSummary]:
        """Return the readable prompts by name; a missing directory is an empty one.

        A file that can't be read as a prompt (a link, too large, not UTF-8, ...) is left out, and
        logged.
        """
        summaries = []
        for filename in _filenames(self.directory):
            try:
                summaries.append(PromptSummary.of(self._read(filename)))
            except PromptNotFound as error:
                if "reason" in error.details:
                    logger.warning("%s", error.message)
        return summaries

    def get(self, filename: str) -> Prompt:
        """Return the prompt.

        Raises:
            ValidationFailed: No prompt may have this name.
            PromptNotFound: There is none, or the file can't be read as a prompt.
        """
        validate_filename(filename)
        return self._read(filename)

    def create(self, filename: str, content: str) -> Prompt:
        """Keep a new prompt. Of several writers of one name exactly one succeeds.

        Raises:
            ValidationFailed: The name or the content can't be a prompt's.
            PromptExists: Something already has this name.
            StorageFull: The disk is full.
        """
        validate_filename(filename)
        self.validate(content)
        try:
            write_atomically(self.directory / filename, content.encode(), exclusive=True)
        except FileExistsError as error:
            raise PromptExists(filename) from error
        return Prompt(filename=filename, content=content)

    def update(self, filename: str, content: str) -> Prompt:
        """Replace a prompt's whole text.

        Raises:
            ValidationFailed: The name or the content can't be a prompt's.
            PromptNotFound: There is none, or what has the name is no regular file.
            StorageFull: The disk is full; the old text is intact.
        """
        validate_filename(filename)
        self.validate(content)
        self._require_regular(filename)
        write_atomically(self.directory / filename, content.encode())
        return Prompt(filename=filename, content=content)

    def delete(self, filename: str) -> None:
        """Remove a prompt. Sessions that were given its text keep it.

        Raises:
            ValidationFailed: No prompt may have this name.
            PromptNotFound: There is none, or what has the name is no regular file.
        """
        validate_filename(filename)
        self._require_regular(filename)
        try:
            (self.directory / filename).unlink()
        except FileNotFoundError as error:
            raise PromptNotFound(filename) from error
        sync_directory(self.directory)

    def validate(self, content: str) -> None:
        """Refuse a text that can't be a system prompt: blank, or 10,000 characters or longer.

        Raises:
            ValidationFailed: With ``field`` ``"content"``.
        """
        validate_content(content)

    def _read(self, filename: str) -> Prompt:
        try:
            data = read_regular(self.directory / filename, limit=MAX_FILE_BYTES)
            # Some editors start a UTF-8 file with a byte order mark, which is no part of the text.
            return Prompt(filename=filename, content=data.decode("utf-8-sig"))
        except FileNotFoundError as error:
            raise PromptNotFound(filename) from error
        except UnreadableFileError as error:
            raise PromptNotFound(filename, error.reason) from error
        except UnicodeDecodeError as error:
            raise PromptNotFound(filename, "not UTF-8 text") from error

    def _require_regular(self, filename: str) -> None:
        try:
            mode = (self.directory / filename).lstat().st_mode
        except FileNotFoundError as error:
            raise PromptNotFound(filename) from error
        if not stat.S_ISREG(mode):
            raise PromptNotFound(filename, "not a regular file")


def _filenames(directory: Path) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if is_filename(entry.name))
    except FileNotFoundError:
        return []
