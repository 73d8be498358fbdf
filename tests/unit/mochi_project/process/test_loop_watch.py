"""What holds an event loop up is told, and measured all the time."""

import asyncio
import logging
import time

import pytest

from mochi_project.process.loop_watch import TOLD_SECONDS, watch_loop

pytestmark = pytest.mark.allow_blocking


async def watched(hold_up: float) -> list[float]:
    """Return what is measured until the loop was held up for so many seconds."""
    samples: list[float] = []
    measured = asyncio.Event()

    def sample(late: float) -> None:
        samples.append(late)
        measured.set()

    watch = asyncio.create_task(watch_loop(sample))
    await measured.wait()
    measured.clear()
    await asyncio.sleep(0)
    time.sleep(hold_up)
    await measured.wait()
    watch.cancel()
    return samples


async def test_a_loop_that_is_held_up_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        samples = await watched(TOLD_SECONDS + 0.5)

    assert samples[-1] >= TOLD_SECONDS
    record = caplog.records[-1]
    assert "held up" in record.message
    assert record.__dict__["seconds"] == round(samples[-1], 3)


async def test_a_loop_that_comes_in_time_is_measured_and_not_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    samples = await watched(0)

    assert all(late >= 0 for late in samples)
    assert not [record for record in caplog.records if record.__dict__["seconds"] < TOLD_SECONDS]
