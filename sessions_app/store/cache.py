"""Caches the sessions that this process read or wrote last (docs/decisions/0020)."""

import os
import threading

from sessions_app.format.rewriting import SessionFile, WrittenFile
from sessions_app.session import Session

MOST_SESSIONS = 64
MOST_BYTES = 8 * 1024 * 1024


class RecentSessions:
    """A cache of decoded files, keyed by their bytes, so that no session is decoded twice.

    An entry can't be out of date: the file is read each time, and the entry counts only if the file
    still holds exactly these bytes. So it does not matter how a file was changed, by which process,
    or within which tick of the clock. Reading costs little of what decoding costs.

    Entries are shared: they are values, which never change. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._begin()

    def recognise(self, session_id: str, data: bytes) -> SessionFile | None:
        """Return the session of these bytes, if they are in the cache."""
        file = self._files.get(session_id)
        if file is None or file.data != data:
            return None
        return file if isinstance(file, SessionFile) else self._read(session_id, file)

    def bytes_of(self, session_id: str) -> bytes | None:
        """Return the bytes that were kept of a session's file, whatever it holds by now."""
        file = self._files.get(session_id)
        return None if file is None else file.data

    def recall(self, session_id: str) -> Session | None:
        """Return a session that was kept, whatever its file holds by now."""
        file = self._files.get(session_id)
        return file.session if isinstance(file, SessionFile) else None

    def read_ahead(self, session_id: str) -> None:
        """Decode what was kept undecoded, so that the next reader need not."""
        file = self._files.get(session_id)
        if isinstance(file, WrittenFile):
            self._read(session_id, file)

    def keep(self, session_id: str, file: SessionFile | WrittenFile) -> None:
        """Keep a session and its bytes, and drop those that were kept first beyond the limits.

        A file that was only written is decoded when it is needed.
        """
        if self._process != os.getpid():
            self._begin()
        with self._lock:
            self._drop(session_id)
            if len(file.data) > MOST_BYTES:
                return  # or all others would have to go
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
