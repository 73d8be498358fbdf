"""Lists, reads and writes system prompts."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from prompts_app.errors import PromptExists, PromptNotFound
from prompts_app.prompts import (
    Prompt,
    PromptSummary,
    is_filename,
    validate_content,
    validate_filename,
)
from sessions_app.store.atomic import StrPath, UnreadableFileError
from sessions_app.store.file_records import records_in
from sessions_app.store.records import DOCUMENT_LIMIT, Records

logger = logging.getLogger(__name__)


class SystemPromptService:
    """Lists, reads and writes the ``.md`` and ``.txt`` files of a directory.

    Usable as a library. Every call blocks for milliseconds: call it from a worker thread. The
    directory is made when the first prompt is written. Symbolic links are never followed.

    Args:
        directory: The directory of the prompt files, or other records.
    """

    def __init__(self, directory: StrPath | Records) -> None:
        self._records = records_in(directory, limit=DOCUMENT_LIMIT)

    def list(self) -> list[PromptSummary]:
        """Return the readable prompts by name; a missing directory is an empty one.

        A file that can't be read as a prompt (a link, too large, not UTF-8, ...) is left out, and
        logged.
        """
        summaries = []
        for filename, data in self._records.read_all(is_filename).items():
            try:
                summaries.append(PromptSummary.of(_prompt(filename, data)))
            except PromptNotFound as error:
                logger.warning("%s", error.message)
        return summaries

    def get(self, filename: str) -> Prompt:
        """Return the prompt.

        Raises:
            ValidationFailed: No prompt may have this name.
            PromptNotFound: It does not exist, or its file is not a valid prompt.
        """
        validate_filename(filename)
        with _readable(filename):
            data = self._records.read(filename)
        if data is None:
            raise PromptNotFound(filename)
        return _prompt(filename, data)

    def create(self, filename: str, content: str) -> Prompt:
        """Keep a new prompt. Of several writers of one name exactly one succeeds.

        Raises:
            ValidationFailed: The name or the content can't be a prompt's.
            PromptExists: Something already has this name.
            StorageFull: The disk is full.
        """
        validate_filename(filename)
        self.validate(content)
        if not self._records.put(filename, content.encode(), exists=False):
            raise PromptExists(filename)
        return Prompt(filename=filename, content=content)

    def update(self, filename: str, content: str) -> Prompt:
        """Replace a prompt's whole text.

        Raises:
            ValidationFailed: The name or the content can't be a prompt's.
            PromptNotFound: It does not exist, or is not a regular file.
            StorageFull: The disk is full; the old text is intact.
        """
        validate_filename(filename)
        self.validate(content)
        with _readable(filename):
            if not self._records.put(filename, content.encode(), exists=True):
                raise PromptNotFound(filename)
        return Prompt(filename=filename, content=content)

    def delete(self, filename: str) -> None:
        """Remove a prompt. Sessions that were given its text keep it.

        Raises:
            ValidationFailed: No prompt may have this name.
            PromptNotFound: It does not exist, or is not a regular file.
        """
        validate_filename(filename)
        with _readable(filename):
            if not self._records.delete(filename):
                raise PromptNotFound(filename)

    def validate(self, content: str) -> None:
        """Refuse a text that can't be a system prompt: blank, or 10,000 characters or longer.

        Raises:
            ValidationFailed: With ``field`` ``"content"``.
        """
        validate_content(content)


def _prompt(filename: str, data: bytes | UnreadableFileError) -> Prompt:
    if isinstance(data, UnreadableFileError):
        raise PromptNotFound(filename, data.reason) from data
    try:
        # Some editors start a UTF-8 file with a byte order mark, which is no part of the text.
        return Prompt(filename=filename, content=data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise PromptNotFound(filename, "not UTF-8 text") from error


@contextmanager
def _readable(filename: str) -> Iterator[None]:
    """Raise ``PromptNotFound`` if the record can't be read."""
    try:
        yield
    except UnreadableFileError as error:
        raise PromptNotFound(filename, error.reason) from error
