"""A tool whose runs can be counted, and which waits for its test to let it end."""

from pathlib import Path

CODE = '''
"""A tool whose runs can be counted."""

import os
import time

__all__ = ["note"]


def note(text: str) -> str:
    """Write a line down.

    Args:
        text: The line.
    """
    descriptor = os.open({runs!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, text.encode() + b"\\n")
    os.close(descriptor)
    while os.path.exists({gate!r}):
        time.sleep(0.01)
    return f"noted {{text}}"
'''


class Notes:
    """What the tool of a cluster wrote down, on whichever node it ran.

    Args:
        directory: An empty directory; below it is the folder of tools.
    """

    def __init__(self, directory: Path) -> None:
        self.folder = directory / "tools"
        self.folder.mkdir(parents=True)
        self._runs = directory / "runs"
        self._gate = directory / "gate"
        code = CODE.format(runs=str(self._runs), gate=str(self._gate))
        (self.folder / "notes.py").write_text(code)

    def variables(self) -> dict[str, str]:
        """Return the environment of nodes that have the tool."""
        return {"MOCHI_TOOLS_DIR": str(self.folder)}

    def taken(self) -> list[str]:
        """Return the lines, in the order of the runs."""
        return self._runs.read_text().splitlines() if self._runs.exists() else []

    def hold(self) -> None:
        """Have runs wait."""
        self._gate.touch()

    def release(self) -> None:
        """Let runs end."""
        self._gate.unlink(missing_ok=True)
