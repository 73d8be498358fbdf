"""Summaries of one task: one after another, and what is not begun is queued again."""

import pytest

from chat.summaries.batch import ENOUGH_SECONDS, run_in_turn


class Batch:
    """Three summaries, of which each takes its time."""

    def __init__(self, *, seconds=0.0, stops_after=99, fails=None):
        self.clock, self.seconds = 0.0, seconds
        self.stops_after, self.fails = stops_after, fails
        self.made, self.put_off = [], []

    async def make(self, session_id):
        self.clock += self.seconds
        if session_id == self.fails:
            raise OSError("broken")
        self.made.append(session_id)
        return f"{session_id} done"

    async def run(self):
        return await run_in_turn(
            ("a", "b", "c"),
            self.make,
            lambda *left: self.put_off.extend(left),
            is_stopping=lambda: len(self.made) >= self.stops_after,
            now=lambda: self.clock,
        )


async def test_all_are_made_in_turn():
    batch = Batch()
    assert await batch.run() == "a done, b done, c done"
    assert (batch.made, batch.put_off) == (["a", "b", "c"], [])


@pytest.mark.parametrize("made", [0, 1])
async def test_none_is_begun_once_the_worker_is_to_stop(made):
    batch = Batch(stops_after=made)
    assert (await batch.run()).endswith("put off, put off")
    assert batch.made == ["a", "b", "c"][:made]
    assert batch.put_off == ["a", "b", "c"][made:]


async def test_none_is_begun_that_the_task_might_have_no_time_for():
    batch = Batch(seconds=ENOUGH_SECONDS - 1)
    await batch.run()
    assert (batch.made, batch.put_off) == (["a", "b"], ["c"])


async def test_one_that_fails_takes_no_others_along():
    batch = Batch(fails="b")
    with pytest.raises(OSError, match="broken"):
        await batch.run()
    assert (batch.made, batch.put_off) == (["a"], ["c"])
