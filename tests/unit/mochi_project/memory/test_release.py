"""What a large session took is given back."""

import os
import subprocess
import sys
import threading

import psutil
import pytest

from mochi_project.memory.release import give_back_memory, map_large_buffers


def test_a_server_of_the_usual_size_is_left_alone() -> None:
    assert not give_back_memory(above=1 << 40)


ONLY_GLIBC = pytest.mark.skipif(sys.platform != "linux", reason="only glibc can give memory back")
FREED_AT_THE_END = """
import ctypes, sys, threading
import psutil
from mochi_project.memory.release import map_large_buffers

if sys.argv[1] == "mapped":
    assert map_large_buffers()
process = psutil.Process()
before = process.memory_info().rss

def take_and_free():
    for size in (24, 12):  # MiB; the first one tells glibc what is usual
        bytearray(size * 1024 * 1024)

thread = threading.Thread(target=take_and_free)
thread.start()
thread.join()
ctypes.CDLL(None).malloc_trim(0)
print(process.memory_info().rss - before)
"""


@ONLY_GLIBC
def test_what_was_freed_in_another_thread_goes_back_to_the_system() -> None:
    process = psutil.Process()
    before = process.memory_info().rss

    def take_and_free() -> None:
        # Smaller than what the allocator maps by itself, and something behind that stays.
        taken = [os.urandom(100_000) for _ in range(1500)]
        del taken[:-1]
        kept.append(taken)

    kept: list[list[bytes]] = []
    thread = threading.Thread(target=take_and_free)
    thread.start()
    thread.join()
    assert process.memory_info().rss - before > 100_000_000
    assert give_back_memory(above=0)
    assert process.memory_info().rss - before < 30_000_000


@ONLY_GLIBC
def test_large_buffers_are_returned_when_they_are_freed() -> None:
    def kept(how: str) -> int:
        command = [sys.executable, "-c", FREED_AT_THE_END, how]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    assert kept("as by default") > 10 * 1024 * 1024
    assert kept("mapped") < 4 * 1024 * 1024


def test_a_system_without_glibc_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not map_large_buffers()
