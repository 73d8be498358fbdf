"""Stores the records of responses beside the sessions. Blocks (docs/decisions/0061)."""

from collections.abc import Callable
from functools import cache
from typing import TypeVar

import msgspec

from chat.storage.records import TURN_KINDS
from dialects_app.responses.record import NO_END, NO_RECORD, ResponseEnd, ResponseRecord
from dialects_app.responses.tool_forms import ToolForms
from sessions_app.decoding import decode_as
from sessions_app.store.records import Records, read_or_empty, record_name

REQUEST, END, DELETED, _ = TURN_KINDS

Kept = TypeVar("Kept")


class ResponseStore:
    """Stores facts about responses that a session's file lacks.

    If a record is lost or unreadable, the response is returned without these facts.

    Args:
        records: The records by turn id: ``SessionSpace.records``.
    """

    def __init__(self, records: Records) -> None:
        self._records = records

    def keep(self, session_id: str, turn_id: str, record: ResponseRecord) -> None:
        """Store the parameters of a response's request.

        Raises:
            StorageError: It can't be stored.
        """
        self._records.put(record_name(session_id, turn_id, REQUEST), _encode(record))

    def record(self, session_id: str, turn_id: str) -> ResponseRecord:
        """Return the parameters of a response's request; ``NO_RECORD`` if unknown."""
        return self.known_record(session_id, turn_id) or NO_RECORD

    def known_record(self, session_id: str, turn_id: str) -> ResponseRecord | None:
        """Return the parameters of a response's request; None if unknown."""
        return self._read(record_name(session_id, turn_id, REQUEST), ResponseRecord)

    def forms_in(self, session_id: str) -> Callable[[str], ToolForms]:
        """Return a function that finds the forms of the client's tools in a turn."""
        return cache(lambda turn_id: self.record(session_id, turn_id).forms)

    def keep_end(self, session_id: str, turn_id: str, end: ResponseEnd) -> None:
        """Store the end of a response.

        Raises:
            StorageError: It can't be stored.
        """
        self._records.put(record_name(session_id, turn_id, END), _encode(end))

    def end(self, session_id: str, turn_id: str) -> ResponseEnd:
        """Return the end of a response; ``NO_END`` if its session has all facts."""
        return self._read(record_name(session_id, turn_id, END), ResponseEnd) or NO_END

    def _read(self, name: str, kind: type[Kept]) -> Kept | None:
        data = read_or_empty(self._records, name)
        try:
            return decode_as(data, kind) if data else None
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None

    def delete(self, session_id: str, turn_id: str) -> None:
        """Mark a response as deleted; its messages stay in the session.

        Raises:
            StorageError: It can't be marked.
        """
        self._records.put(record_name(session_id, turn_id, DELETED), b"{}")

    def is_deleted(self, session_id: str, turn_id: str) -> bool:
        """Return whether a response was deleted."""
        return read_or_empty(self._records, record_name(session_id, turn_id, DELETED)) is not None


_encode = msgspec.json.Encoder(enc_hook=dict).encode
