"""What a large session took is given back."""

import os
import sys
import threading

import psutil
import pytest

from mochi_project.memory.release import give_back_memory


def test_a_server_of_the_usual_size_is_left_alone() -> None:
    assert not give_back_memory(above=1 << 40)


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can give memory back")
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
