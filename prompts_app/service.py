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
from sessions_app.store.documents import DocumentReader, Documents, documents_in

logger = logging.getLogger(__name__)


class SystemPromptService:
    """Lists, reads and writes the ``.md`` and ``.txt`` files of a directory.

    Usable as a library. Every call blocks for milliseconds: call it from a worker thread. The
    directory is made when the first prompt is written. Symbolic links are never followed.

    Args:
        directory: The directory of the prompt files, or another store of documents.
    """

    def __init__(self, directory: StrPath | Documents) -> None:
        self._documents = documents_in(directory)

    def list(self) -> list[PromptSummary]:
        """Return the readable prompts by name; a missing directory is an empty one.

        A file that can't be read as a prompt (a link, too large, not UTF-8, ...) is left out, and
        logged.
        """
        documents = self._documents.snapshot()
        summaries = []
        for filename in filter(is_filename, documents.list()):
            try:
                summaries.append(PromptSummary.of(_read(documents, filename)))
            except PromptNotFound as error:
                if "reason" in error.details:
                    logger.warning("%s", error.message)
        return summaries

    def get(self, filename: str) -> Prompt:
        """Return the prompt.

        Raises:
            ValidationFailed: No prompt may have this name.
            PromptNotFound: It does not exist, or its file is not a valid prompt.
        """
        validate_filename(filename)
        return _read(self._documents, filename)

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
            self._documents.create(filename, content.encode())
        except FileExistsError as error:
            raise PromptExists(filename) from error
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
        with _prompt_required(filename):
            self._documents.replace(filename, content.encode())
        return Prompt(filename=filename, content=content)

    def delete(self, filename: str) -> None:
        """Remove a prompt. Sessions that were given its text keep it.

        Raises:
            ValidationFailed: No prompt may have this name.
            PromptNotFound: It does not exist, or is not a regular file.
        """
        validate_filename(filename)
        with _prompt_required(filename):
            self._documents.delete(filename)

    def validate(self, content: str) -> None:
        """Refuse a text that can't be a system prompt: blank, or 10,000 characters or longer.

        Raises:
            ValidationFailed: With ``field`` ``"content"``.
        """
        validate_content(content)


def _read(documents: DocumentReader, filename: str) -> Prompt:
    with _prompt_required(filename):
        data = documents.read(filename)
    try:
        # Some editors start a UTF-8 file with a byte order mark, which is no part of the text.
        return Prompt(filename=filename, content=data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise PromptNotFound(filename, "not UTF-8 text") from error


@contextmanager
def _prompt_required(filename: str) -> Iterator[None]:
    """Raise ``PromptNotFound`` if the document does not exist or can't be read."""
    try:
        yield
    except FileNotFoundError as error:
        raise PromptNotFound(filename) from error
    except UnreadableFileError as error:
        raise PromptNotFound(filename, error.reason) from error
