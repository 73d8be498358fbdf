"""Long work rests: often, for its share, and so that no machine makes too many steps."""

import pytest

from search_app.pacing import MOST_A_SECOND, RESTING_SHARE, WORK_SECONDS, Pace


class Time:
    """A clock that goes on by what work takes, and by rests."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rests: list[float] = []

    def rest(self, seconds: float) -> None:
        self.now += seconds
        self.rests.append(seconds)

    def work(self, pace: Pace, steps: int, seconds: float) -> None:
        for _ in range(steps):
            self.now += seconds
            pace()


@pytest.fixture
def time() -> Time:
    return Time()


def test_it_rests_after_each_piece_of_work(time: Time) -> None:
    pace = Pace(lambda: time.now, time.rest)
    time.work(pace, 1, WORK_SECONDS / 2)
    assert time.rests == []
    time.work(pace, 1, WORK_SECONDS)
    assert time.rests == [pytest.approx(1.5 * WORK_SECONDS * RESTING_SHARE)]
    time.work(pace, 1, WORK_SECONDS / 2)
    assert len(time.rests) == 1


def test_a_long_step_is_followed_by_a_long_rest(time: Time) -> None:
    time.work(Pace(lambda: time.now, time.rest), 1, 1.0)
    assert time.rests == [pytest.approx(RESTING_SHARE)]


def test_quick_steps_are_bounded(time: Time) -> None:
    time.work(Pace(lambda: time.now, time.rest), MOST_A_SECOND, WORK_SECONDS / 100)
    assert time.now == pytest.approx(1.0, rel=0.02)
