"""What can't be done is tried less and less often."""

import itertools

from chat.remote.retries import LONGEST_SECONDS, SealingSchedule


class Clock:
    def __init__(self):
        self.time = 0.0

    def __call__(self):
        return self.time


def test_what_is_new_is_tried_at_once_and_what_stays_less_and_less_often():
    clock = Clock()
    retries = SealingSchedule(clock)
    tried = []
    for second in range(200):
        clock.time = float(second)
        tried += [second] if retries.due({"a"}) else []
    pauses = [later - before for before, later in itertools.pairwise(tried)]
    assert pauses[:5] == [1, 1, 2, 4, 8]
    assert pauses[-1] == LONGEST_SECONDS
    assert retries.due({"a", "b"}) == ["b"]


def test_what_was_done_meanwhile_is_new_again():
    retries = SealingSchedule(Clock())
    for _ in range(5):
        retries.due({"a"})
    assert retries.due({"a"}) == []
    retries.due(set())
    assert retries.due({"a"}) == ["a"]


def test_a_failure_is_news_once_until_it_is_another_or_was_mended():
    retries = SealingSchedule(Clock())
    retries.due({"a", "b"})
    assert [retries.is_news("a", "corrupt") for _ in range(3)] == [True, False, False]
    assert retries.is_news("b", "corrupt")
    assert [retries.is_news("a", why) for why in ("too large", "too large")] == [True, False]
    retries.due({"b"})
    retries.due({"a", "b"})
    assert [retries.is_news(name, "corrupt") for name in ("a", "b")] == [True, False]
