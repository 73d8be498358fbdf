"""A scripted model in a process of its own, and a look into the server that asks it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).parents[3]
MODEL_LISTENS = re.compile(r"scripted models on (http://\S+)")


@dataclass(frozen=True)
class Sighting:
    """What was in the server's process at one moment.

    Attributes:
        rss: Resident memory in bytes.
        descriptors: Open descriptors.
        threads: Threads, the libraries' own too.
        tasks: asyncio's tasks.
        blocks: Blocks of memory that Python's allocator has given out.
        heap: Bytes that C code has from ``malloc``, where the system tells; 0 elsewhere.
        kinds: How many objects there are of each type that the garbage collector watches.
    """

    rss: int
    descriptors: int
    threads: int
    tasks: int
    blocks: int
    heap: int
    kinds: dict[str, int]

    def kinds_grown_since(self, before: "Sighting", *, at_least: int) -> dict[str, int]:
        """Return the types of which there are more than before, and how many more."""
        grown = {kind: self.kinds[kind] - before.kinds.get(kind, 0) for kind in self.kinds}
        return {kind: count for kind, count in grown.items() if count >= at_least}


def _is_at_rest(seen: Sighting, other: Sighting | None) -> bool:
    return other is not None and seen.tasks <= other.tasks


class Probe:
    """Looks into the server's process."""

    def __init__(self, process: psutil.Process, path: Path) -> None:
        self._process = process
        self._path = path

    def look_at_rest(self, before: Sighting | None = None) -> Sighting:
        """Look once nothing goes on any more, or as little as before; after 5 s at the latest."""
        last, seen = None, self.look()
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and not _is_at_rest(seen, before or last):
            time.sleep(0.1)
            last, seen = seen, self.look()
        return seen

    def look(self) -> Sighting:
        """Have the garbage collected, and return what is left."""
        seen = self._ask(signal.SIGUSR1)
        return Sighting(
            rss=self._process.memory_info().rss,
            descriptors=self._process.num_fds(),
            threads=self._process.num_threads(),
            tasks=seen["tasks"],
            blocks=seen["blocks"],
            heap=seen["heap"],
            kinds=seen["kinds"],
        )

    def full_collections(self) -> int:
        """Return how often all garbage was collected, by looks too."""
        count: int = self._ask(signal.SIGUSR2)["full_collections"]
        return count

    def _ask(self, number: signal.Signals) -> Any:
        self._path.unlink(missing_ok=True)
        self._process.send_signal(number)
        deadline = time.monotonic() + 60
        while not self._path.exists():
            assert time.monotonic() < deadline, "the server does not look into itself"
            time.sleep(0.005)
        return json.loads(self._path.read_text())


@pytest.fixture(scope="module")
def model_url() -> Iterator[str]:
    """Return the address of a scripted model that is not in the server's own process."""
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "scripted_llm", "--words-per-second", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    match = MODEL_LISTENS.match(process.stdout.readline())
    assert match
    yield match[1]
    process.terminate()
    process.wait(timeout=10)
    process.stdout.close()


@pytest.fixture
def probed(start: Callable[..., Any], model_url: str, tmp_path: Path) -> Callable[..., Any]:
    """Return how to start a server and get it with a probe."""

    def start_probed(**variables: str) -> tuple[Any, Probe]:
        path = tmp_path / "seen.json"
        probe = Path(__file__).with_name("probe")
        variables |= {
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(probe)]),
            "MOCHI_E2E_PROBE": str(path),
            "MOCHI_OLLAMA_HOST": model_url,
        }
        server = start(**variables)
        (process,) = server.web_processes
        return server, Probe(process, path)

    return start_probed
