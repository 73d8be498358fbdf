"""Keeps the records of responses, beside the sessions. All calls block (docs/decisions/0061)."""

import time
from collections.abc import Callable

import msgspec

from chat.storage.records import Records
from dialects_app.openai.ids import TURN_ID
from dialects_app.responses.record import NO_END, NO_RECORD, ResponseEnd, ResponseRecord

NAMES = TURN_ID
REQUEST, END, DELETED = KINDS = ("request", "end", "deleted")
"""The kinds of records: what the client asked for, how it ended, that it was deleted."""

Exists = Callable[[str], bool]

_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class ResponseStore:
    """Keeps what a session's file does not say of its responses.

    A record that is lost or can't be read costs no response: it is shown without what was in it.

    Args:
        records: Where they are kept: by the turns' ids, of these ``KINDS``.
        ephemeral: Where those of sessions that are not saved are kept.
    """

    def __init__(self, records: Records, ephemeral: Records) -> None:
        self._records = records
        self._ephemeral = ephemeral

    def keep(
        self, session_id: str, turn_id: str, record: ResponseRecord, *, ephemeral: bool = False
    ) -> None:
        """Keep what a response's client asked for.

        Args:
            session_id: The session.
            turn_id: The turn.
            record: What was asked for.
            ephemeral: Whether the session is one that is not saved.

        Raises:
            StorageError: It can't be kept.
        """
        records = self._ephemeral if ephemeral else self._records
        records.put(session_id, turn_id, REQUEST, _encode(record))

    def record(self, session_id: str, turn_id: str) -> ResponseRecord:
        """Return what a response's client asked for; ``NO_RECORD`` where that is not known."""
        return self.known_record(session_id, turn_id) or NO_RECORD

    def known_record(self, session_id: str, turn_id: str) -> ResponseRecord | None:
        """Return what a response's client asked for; None where that is not known."""
        data = self._read(session_id, turn_id, REQUEST)
        try:
            return None if not data else msgspec.json.decode(data, type=ResponseRecord)
        except _UNREADABLE:
            return None

    def keep_end(self, session_id: str, turn_id: str, end: ResponseEnd) -> None:
        """Keep how a response ended.

        Raises:
            StorageError: It can't be kept.
        """
        self._put(session_id, turn_id, END, _encode(end))

    def end(self, session_id: str, turn_id: str) -> ResponseEnd:
        """Return how a response ended; ``NO_END`` where its session says all there is to say."""
        data = self._read(session_id, turn_id, END)
        try:
            return NO_END if not data else msgspec.json.decode(data, type=ResponseEnd)
        except _UNREADABLE:
            return NO_END

    def delete(self, session_id: str, turn_id: str) -> None:
        """Note that a response was deleted; what was said stays in its session.

        Raises:
            StorageError: It can't be noted.
        """
        self._put(session_id, turn_id, DELETED, b"{}")

    def is_deleted(self, session_id: str, turn_id: str) -> bool:
        """Return whether a response was deleted."""
        return self._read(session_id, turn_id, DELETED) is not None

    def discard_session(self, session_id: str) -> None:
        """Forget the responses of a session that is gone."""
        self._records.discard(session_id)
        self._ephemeral.discard(session_id)

    def sweep(self, is_saved: Exists, is_ephemeral: Exists, *, older_than_seconds: float) -> None:
        """Forget the responses of sessions that are gone: of another process, or never saved.

        Args:
            is_saved: Says whether a session is there.
            is_ephemeral: Says whether one is that is not saved.
            older_than_seconds: For how long a session that is not there may be about to be made.
        """
        newest = time.time() - older_than_seconds
        for records, exists in ((self._records, is_saved), (self._ephemeral, is_ephemeral)):
            for session_id in records.sessions(newest):
                if not exists(session_id):
                    records.discard(session_id)

    def _read(self, session_id: str, turn_id: str, kind: str) -> bytes | None:
        return self._home(session_id, turn_id).read(session_id, turn_id, kind)

    def _put(self, session_id: str, turn_id: str, kind: str, data: bytes) -> None:
        self._home(session_id, turn_id).put(session_id, turn_id, kind, data)

    def _home(self, session_id: str, turn_id: str) -> Records:
        """Return where a response's records are: those of the usual one if it has none."""
        if self._records.read(session_id, turn_id, REQUEST) is not None:
            return self._records
        if self._ephemeral.read(session_id, turn_id, REQUEST) is not None:
            return self._ephemeral
        return self._records


_encode = msgspec.json.Encoder(enc_hook=dict).encode
