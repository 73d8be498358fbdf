"""A process that writes a journal, line by line, as it is told.

Its arguments: the place of the journals, a session and a turn. Each line of its input is the number
of an event and the event's text, or "torn" and what shall be left of a line.
"""

import os
import subprocess
import sys
from pathlib import Path

from chat.storage.journal import line
from tests.contract.elsewhere import journal_at

ROOT = Path(__file__).parents[2]


class JournalProcess:
    """Such a process, as a test has it."""

    def __init__(self, place: str, session_id: str, turn_id: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.contract.journal_process", place, session_id, turn_id],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def write(self, number: int | str, text: str) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{number} {text}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "written\n"

    def end(self, *, by_kill: bool = False) -> None:
        if by_kill:
            self._process.kill()
        self._process.communicate(timeout=10)


def main() -> None:
    place, session_id, turn_id = sys.argv[1:]
    writer = journal_at(place).open(session_id, turn_id, owner=str(os.getpid()))
    for order in sys.stdin:
        number, _, text = order.strip().partition(" ")
        data = f'{{"content":"{text}"}}'
        writer.append(text if number == "torn" else line(int(number), "content_delta", data))
        print("written", flush=True)


if __name__ == "__main__":
    main()
