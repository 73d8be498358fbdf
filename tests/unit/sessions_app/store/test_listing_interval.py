"""Chores that list objects are done at first, and once in a while."""

from sessions_app.store.listing_interval import ListingInterval


def test_it_is_time_at_first_and_once_in_a_while() -> None:
    now = [0.0]
    interval = ListingInterval(10.0, clock=lambda: now[0])
    found = []
    for now[0] in (0.0, 1.0, 9.9, 10.0, 11.0, 25.0, 26.0):
        found.append(interval.is_time())
    assert found == [True, False, False, True, False, True, False]
