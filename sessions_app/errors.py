"""Declares the base of all domain errors, and the errors of sessions.

The tree (every app's ``errors.py`` adds its own branch under ``MochiError``)::

    MochiError
      * ValidationFailed          VALIDATION_ERROR
      * ImportRunning             IMPORT_RUNNING (retryable)
      + StorageError
        * StorageFull             STORAGE_FULL (retryable)
        * StorageReadOnly         STORAGE_READ_ONLY (retryable)
        * StorageUnavailable      STORAGE_UNAVAILABLE (retryable)
      + SessionError
        * SessionNotFound         SESSION_NOT_FOUND
        * SessionExists           SESSION_EXISTS
        * SessionCorrupt          SESSION_CORRUPT
        * SessionReadOnly         SESSION_READ_ONLY
        * SessionNotDeletable     SESSION_NOT_DELETABLE
        * SessionBusy             SESSION_BUSY (retryable)
        * InvalidMessageIndex     INVALID_MESSAGE_INDEX
        * MessageChanged          MESSAGE_CHANGED
        * VariantNotFound         VARIANT_NOT_FOUND
        * SystemPromptNotSet      PROMPT_NOT_FOUND
        + InboxFull               INBOX_FULL (retryable)
          * QueuedMessageTooLong    INBOX_FULL
        * QueuedMessageNotFound   QUEUED_MESSAGE_NOT_FOUND
        * QueuedMessageTaken      QUEUED_MESSAGE_TAKEN

These errors are independent of HTTP: ``apps.py`` maps ``code`` to status.
"""

from typing import Any, ClassVar

MOST_CHARACTERS = 2_000
"""The longest text in an error, which may repeat what was sent."""


class MochiError(Exception):
    """An error with a code, meant for API clients.

    Attributes:
        code: The stable, machine-readable name of the error.
        retryable: Whether the same request may succeed later.
        message: A sentence for people that says what to change.
        details: JSON-compatible facts for programs (``field``, ``provider``, ...).
    """

    code: ClassVar[str] = "INTERNAL_ERROR"
    retryable: bool = False

    def __init__(self, message: str, **details: Any) -> None:
        self.message = _cut(message)
        self.details: dict[str, Any] = {
            name: _cut(value) if isinstance(value, str) else value
            for name, value in details.items()
        }
        super().__init__(self.message)


class ValidationFailed(MochiError):
    """A value of the request is wrong; ``details.field`` names it."""

    code = "VALIDATION_ERROR"


class AttachmentNotFound(MochiError):
    """No image or file has this id, or the id is malformed."""

    code = "ATTACHMENT_NOT_FOUND"

    def __init__(self, attachment_id: str) -> None:
        super().__init__(
            f"Attachment {attachment_id!r} not found: upload it first.",
            attachment_id=attachment_id,
        )


class AttachmentTooLarge(MochiError):
    """An image or a file is larger than the server takes."""

    code = "ATTACHMENT_TOO_LARGE"

    def __init__(self, max_bytes: int) -> None:
        super().__init__(
            f"The attachment is larger than {max_bytes:,} bytes (MOCHI_MAX_ATTACHMENT_BYTES).",
            max_bytes=max_bytes,
        )


class ImportRunning(MochiError):
    """Another file is being imported by this process; its client waits for the answer."""

    code = "IMPORT_RUNNING"
    retryable = True

    def __init__(self) -> None:
        super().__init__("Another import is running. Try again when it is done.")


class StorageError(MochiError):
    """The disk can't be written to at the moment; the data on it is intact."""

    retryable = True


class StorageFull(StorageError):
    """The disk is full, or the quota used up; the data on it is intact."""

    code = "STORAGE_FULL"


class StorageReadOnly(StorageError):
    """The data directory is read-only; the data in it is intact."""

    code = "STORAGE_READ_ONLY"


class StorageUnavailable(StorageError):
    """The store or a directory can't be reached or used; the data in it is intact."""

    code = "STORAGE_UNAVAILABLE"


class SessionError(MochiError):
    """An error about one session."""


class SessionNotFound(SessionError):
    """No session has this id, or the id is malformed."""

    code = "SESSION_NOT_FOUND"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"Session with ID {session_id!r} not found.", session_id=session_id)


class SessionExists(SessionError):
    """A session with this id exists already."""

    code = "SESSION_EXISTS"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"Session {session_id} exists already.", session_id=session_id)


class SessionCorrupt(SessionError):
    """The session's file can't be read as a session; it is left untouched."""

    code = "SESSION_CORRUPT"

    def __init__(self, session_id: str, reason: str) -> None:
        super().__init__(
            f"The file of session {session_id} can't be read ({reason}). It was left untouched: "
            f"fix or restore {session_id}.json, or delete the session.",
            session_id=session_id,
            reason=reason,
        )
        self.reason = reason


class SessionReadOnly(SessionError):
    """The session's file has a format that this server does not know: it can only be read."""

    code = "SESSION_READ_ONLY"

    def __init__(self, session_id: str, format_version: str) -> None:
        super().__init__(
            f"Session {session_id} has format {format_version[:40]}, which is newer than this "
            "server's. It can be read and deleted here, not changed: use a newer server for that.",
            session_id=session_id,
            format_version=format_version[:40],
        )


class SessionNotDeletable(SessionError):
    """A folder stands where the session's file would be; folders are never deleted."""

    code = "SESSION_NOT_DELETABLE"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"{session_id}.json in the folder of sessions is a folder itself, and what is in it is "
            "not deleted here: move or remove it by hand.",
            session_id=session_id,
        )


class SessionBusy(SessionError):
    """The session has a running turn; wait for it or cancel it."""

    code = "SESSION_BUSY"
    retryable = True

    def __init__(self, session_id: str, turn_id: str | None = None) -> None:
        super().__init__(
            f"Session {session_id} has a running turn. Wait for it or cancel it.",
            session_id=session_id,
            turn_id=turn_id,
        )


class InvalidMessageIndex(SessionError):
    """The index is out of range, or names a message that can't be changed in this way."""

    code = "INVALID_MESSAGE_INDEX"


class MessageChanged(SessionError):
    """The message at the index is not the one that the caller expects."""

    code = "MESSAGE_CHANGED"


class VariantNotFound(SessionError):
    """The answer has no variant with this message."""

    code = "VARIANT_NOT_FOUND"

    def __init__(self, session_id: str, message_index: int, message_id: str) -> None:
        super().__init__(
            f"The answer at message {message_index} has no variant with message {message_id!r}. "
            "Read the messages again, with their variants.",
            session_id=session_id,
            message_index=message_index,
            message_id=message_id,
        )


class SystemPromptNotSet(SessionError):
    """The session has no system prompt to remove."""

    code = "PROMPT_NOT_FOUND"


class InboxFull(SessionError):
    """Too many messages wait for the next turn, or they are too long together."""

    code = "INBOX_FULL"
    retryable = True

    def __init__(self, most_messages: int, most_bytes: int) -> None:
        super().__init__(
            f"The inbox holds at most {most_messages} messages and {most_bytes:,} bytes. Wait "
            "until one is taken, or delete one.",
            max_messages=most_messages,
            max_bytes=most_bytes,
        )


class QueuedMessageTooLong(InboxFull):
    """The message is too long to wait, also in an empty inbox."""

    retryable = False

    def __init__(self, most_bytes: int) -> None:
        SessionError.__init__(
            self,
            f"The message is too long to wait ({most_bytes:,} bytes at most, with what its request "
            "asks for): send it after the answer.",
            max_bytes=most_bytes,
        )


class QueuedMessageNotFound(SessionError):
    """The inbox has no such message, and no turn took one."""

    code = "QUEUED_MESSAGE_NOT_FOUND"

    def __init__(self, message_id: str) -> None:
        super().__init__(f"No message {message_id!r} is queued.", message_id=message_id)


class QueuedMessageTaken(SessionError):
    """A turn has taken the message from the inbox; it can be edited in the session."""

    code = "QUEUED_MESSAGE_TAKEN"

    def __init__(self, message_id: str, turn_id: str | None) -> None:
        super().__init__(
            f"A turn has taken message {message_id!r}: it is part of the session now.",
            message_id=message_id,
            turn_id=turn_id,
        )


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
