"""Records which tool calls of a claimed turn have begun, in case the journal loses that.

The file of a session has a line for each start of calls: the turn and their names. Lines of earlier
turns are ignored.
"""

import os
from collections.abc import Sequence

import msgspec

from sessions_app.decoding import decode_as
from sessions_app.store.atomic import (
    PRIVATE_FILE,
    StrPath,
    UnreadableFileError,
    raise_if_unwritable,
    read_regular,
)

SUFFIX = ".begun"
LIMIT = 16 << 20
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC

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
        # The leading line break ends an incomplete line of a crashed writer.
        line = b"\n" + msgspec.json.encode((turn_id, calls)) + b"\n"
        try:
            descriptor = os.open(self._path(session_id), _APPEND, PRIVATE_FILE)
            try:
                while line:
                    line = line[os.write(descriptor, line) :]
            finally:
                os.close(descriptor)
        except OSError as error:
            raise_if_unwritable(error)
            raise

    def of(self, session_id: str, turn_id: str) -> tuple[str, ...]:
        """Return the calls of a turn.

        An incomplete line is ignored: its calls have not begun.
        """
        try:
            data = read_regular(self._path(session_id), limit=LIMIT)
        except (FileNotFoundError, UnreadableFileError):
            return ()
        begun: list[str] = []
        for line in data.split(b"\n"):
            try:
                turn, calls = decode_as(line, _Line)
            except msgspec.MsgspecError:
                continue
            if turn == turn_id:
                begun += calls
        return tuple(begun)

    def remove(self, session_id: str) -> None:
        """Remove the records of a session's turns."""
        try:
            os.unlink(self._path(session_id))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise_if_unwritable(error)
            raise

    def _path(self, session_id: str) -> str:
        return f"{self._directory}/{session_id}{SUFFIX}"
