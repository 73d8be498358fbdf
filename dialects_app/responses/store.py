"""Keeps the records of responses, beside the sessions. All calls block (docs/decisions/0061)."""

import msgspec

from chat.storage.records import TURN_KINDS, Records
from dialects_app.responses.record import NO_END, NO_RECORD, ResponseEnd, ResponseRecord
from sessions_app.decoding import decode_as

REQUEST, END, DELETED = TURN_KINDS

_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class ResponseStore:
    """Keeps what a session's file does not say of its responses.

    A record that is lost or can't be read costs no response: it is shown without what was in it.

    Args:
        records: Where they are kept, by the turns' ids: ``Conversations.records``.
    """

    def __init__(self, records: Records) -> None:
        self._records = records

    def keep(self, session_id: str, turn_id: str, record: ResponseRecord) -> None:
        """Keep what a response's client asked for.

        Raises:
            StorageError: It can't be kept.
        """
        self._records.put(session_id, turn_id, REQUEST, _encode(record))

    def record(self, session_id: str, turn_id: str) -> ResponseRecord:
        """Return what a response's client asked for; ``NO_RECORD`` where that is not known."""
        return self.known_record(session_id, turn_id) or NO_RECORD

    def known_record(self, session_id: str, turn_id: str) -> ResponseRecord | None:
        """Return what a response's client asked for; None where that is not known."""
        data = self._records.read(session_id, turn_id, REQUEST)
        try:
            return None if not data else decode_as(data, ResponseRecord)
        except _UNREADABLE:
            return None

    def keep_end(self, session_id: str, turn_id: str, end: ResponseEnd) -> None:
        """Keep how a response ended.

        Raises:
            StorageError: It can't be kept.
        """
        self._records.put(session_id, turn_id, END, _encode(end))

    def end(self, session_id: str, turn_id: str) -> ResponseEnd:
        """Return how a response ended; ``NO_END`` where its session says all there is to say."""
        data = self._records.read(session_id, turn_id, END)
        try:
            return NO_END if not data else decode_as(data, ResponseEnd)
        except _UNREADABLE:
            return NO_END

    def delete(self, session_id: str, turn_id: str) -> None:
        """Note that a response was deleted; what was said stays in its session.

        Raises:
            StorageError: It can't be noted.
        """
        self._records.put(session_id, turn_id, DELETED, b"{}")

    def is_deleted(self, session_id: str, turn_id: str) -> bool:
        """Return whether a response was deleted."""
        return self._records.read(session_id, turn_id, DELETED) is not None


_encode = msgspec.json.Encoder(enc_hook=dict).encode
