"""The sessions that this process read or wrote last."""

import os
import threading

from sessions_app.format.rewriting import SessionFile, WrittenFile
from sessions_app.session import Session

MOST_SESSIONS = 64
MOST_BYTES = 8 * 1024 * 1024


class RecentSessions:
    """Recognises files by their bytes, so that no session is decoded twice.

    Nothing in here can be out of date: a file is read each time, and what is kept counts only if
    the file still holds exactly these bytes, whoever wrote it. So it does not matter how a file was
    changed, by which process, or within which tick of the clock. Reading costs little of what
    decoding costs.

    What is kept is handed out to many: it is made of values, and nobody changes what is in them.
    Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._begin()

    def recognise(self, session_id: str, data: bytes) -> SessionFile | None:
        """Return the session of these bytes, if they were kept."""
        file = self._files.get(session_id)
        if file is None or file.data != data:
            return None
        return file if isinstance(file, SessionFile) else self._read(session_id, file)

    def recall(self, session_id: str) -> Session | None:
        """Return a session that was kept, whatever its file holds by now."""
        file = self._files.get(session_id)
        return file.session if isinstance(file, SessionFile) else None

    def read_ahead(self, session_id: str) -> None:
        """Read what was kept unread, so that whoever needs the session next need not."""
        file = self._files.get(session_id)
        if isinstance(file, WrittenFile):
            self._read(session_id, file)

    def keep(self, session_id: str, file: SessionFile | WrittenFile) -> None:
        """Keep a session and its bytes, in place of others that were not used for longest.

        What was only written is read when it is needed.
        """
        if self._process != os.getpid():
            self._begin()
        with self._lock:
            self._drop(session_id)
            self._files[session_id] = file
            self._size += len(file.data)
            while len(self._files) > MOST_SESSIONS or self._size > MOST_BYTES:
                self._drop(next(iter(self._files)))

    def forget(self, session_id: str) -> None:
        """Keep nothing of this session."""
        if self._process != os.getpid():
            self._begin()
        with self._lock:
            self._drop(session_id)

    def _begin(self) -> None:
        """Begin with nothing; again in a forked child, whose parent may have held the lock."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._files: dict[str, SessionFile | WrittenFile] = {}
        self._size = 0

    def _read(self, session_id: str, written: WrittenFile) -> SessionFile | None:
        """Return the session of a file, and keep it, unless another one was kept meanwhile."""
        file = written.read(session_id)
        if file is not None and self._process == os.getpid():
            with self._lock:
                if self._files.get(session_id) is written:
                    self._files[session_id] = file
        return file

    def _drop(self, session_id: str) -> None:
        file = self._files.pop(session_id, None)
        if file is not None:
            self._size -= len(file.data)
