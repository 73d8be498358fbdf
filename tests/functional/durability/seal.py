"""Seals every dead turn of a data directory, and dies where it is told to.

Run as a process: ``python seal.py DATA_DIR POINT``. It says ``ready`` and begins with a line on
its standard input, so that several can begin at once.
"""

import os
import sys
from pathlib import Path

from chat.remote.recovery import TurnRecovery
from chat.storage.files import journals
from chat.storage.files.journal_file import FileJournalWriter, TakenOverJournal
from sessions_app.store import session_files
from sessions_app.store.claims import TurnClaims
from sessions_app.store.file_repository import FileSessionRepository


def die(*_: object, **__: object) -> None:
    os._exit(9)


def die_half_way(self: FileJournalWriter, lines: str, kept: object) -> None:
    os.write(self._fd, lines[: len(lines) // 2].encode())
    os._exit(9)


def die_before_the_last_line(self: FileJournalWriter, lines: str, kept: object) -> None:
    os.write(self._fd, lines[: lines.rfind("\n", 0, -1) + 1].encode())
    os._exit(9)


POINTS = {
    "nowhere": lambda: None,
    "before the save": lambda: setattr(session_files, "write_atomically", die),
    "before the claim is given up": lambda: setattr(TurnClaims, "remove", die),
    "before the journal is ended": lambda: setattr(TakenOverJournal, "append", die),
    "in the middle of a line": lambda: setattr(FileJournalWriter, "append", die_half_way),
    "before the last line": lambda: setattr(FileJournalWriter, "append", die_before_the_last_line),
}


def main() -> None:
    data_dir, point = Path(sys.argv[1]), sys.argv[2]
    repository = FileSessionRepository(data_dir / "chat_sessions")
    journal = journals.FileTurnJournal(data_dir / ".mochi" / "turns")
    POINTS[point]()
    print("ready", flush=True)
    sys.stdin.readline()
    TurnRecovery(repository=repository, journal=journal).seal_all()


if __name__ == "__main__":
    main()
