"""Records which tool calls of a claimed turn have begun, in case the journal loses that.

The file of a session has a line for each start of calls: the turn and their names. Lines of earlier
turns are ignored.
"""

import os
from collections.abc import Sequence

import msgspec

from sessions_app.decoding import decode_as
from sessions_app.store.append_log import AppendLog
from sessions_app.store.atomic import StrPath, typed_errors

SUFFIX = ".begun"
LINE_BYTES = 1 << 20

_Line = tuple[str, tuple[str, ...]]


class BegunCalls:
    """Records begun calls for the claims of one directory.

    Callers hold the session's lock while they write.
    """

    def __init__(self, directory: StrPath) -> None:
        self._directory = os.fspath(directory)

    def add(self, session_id: str, turn_id: str, calls: Sequence[str]) -> None:
        """Append calls of a turn.

        Raises:
            StorageFull, StorageReadOnly: They can't be written.
        """
        with typed_errors():
            self._log(session_id).append(msgspec.json.encode((turn_id, calls)) + b"\n")

    def of(self, session_id: str, turn_id: str) -> tuple[str, ...]:
        """Return the calls of a turn.

        An incomplete line is ignored: its calls have not begun.
        """
        begun: list[str] = []
        for line, _ in self._log(session_id).lines():
            try:
                turn, calls = decode_as(line, _Line)
            except msgspec.MsgspecError:
                continue
            if turn == turn_id:
                begun += calls
        return tuple(begun)

    def remove(self, session_id: str) -> None:
        """Remove the records of a session's turns."""
        with typed_errors():
            self._log(session_id).remove()

    def _log(self, session_id: str) -> AppendLog:
        return AppendLog(f"{self._directory}/{session_id}{SUFFIX}", line_bytes=LINE_BYTES)
