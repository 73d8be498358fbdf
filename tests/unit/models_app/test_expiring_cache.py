"""What is cached, for how long, and how much of it."""

import pytest

from models_app.expiring_cache import MAX_ENTRIES, ExpiringCache


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> ExpiringCache[int]:
    return ExpiringCache(60.0, clock=clock)


def test_a_value_is_fresh_until_its_time_is_over(cache: ExpiringCache[int], clock: Clock) -> None:
    cache.set("m", 1)
    clock.now += 60
    assert cache.get("m") == 1

    clock.now += 0.1
    assert cache.get("m") is None
    assert cache.get_expired("m") == 1


def test_setting_a_value_again_makes_it_fresh(cache: ExpiringCache[int], clock: Clock) -> None:
    cache.set("m", 1)
    clock.now += 60
    cache.set("m", 2)
    clock.now += 60
    assert cache.get("m") == 2


def test_a_discarded_value_is_gone(cache: ExpiringCache[int]) -> None:
    cache.set("m", 1)
    cache.discard("m")
    cache.discard("m")
    assert cache.get("m") is cache.get_expired("m") is None


def test_a_thousand_names_are_remembered_and_the_oldest_goes(cache: ExpiringCache[int]) -> None:
    for number in range(MAX_ENTRIES + 1):
        cache.set(f"m{number}", number)
    assert cache.get("m0") is None
    assert cache.get("m1") == 1


def test_a_value_that_was_set_again_is_new(cache: ExpiringCache[int]) -> None:
    for number in range(MAX_ENTRIES):
        cache.set(f"m{number}", number)
    cache.set("m0", -1)
    cache.set("another", 0)
    assert cache.get("m0") == -1
    assert cache.get("m1") is None
