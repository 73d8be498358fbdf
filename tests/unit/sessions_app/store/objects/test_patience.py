"""A turn waits for a store that says nothing, but once."""

import pytest

from sessions_app.errors import StorageUnavailable
from sessions_app.store.objects.patience import Patience


def give_up(patience: Patience, turn_id: str) -> None:
    with pytest.raises(StorageUnavailable), patience.spent_by(turn_id):
        raise StorageUnavailable("away")


def left_to(patience: Patience, turn_id: str | None) -> float:
    """Return the patience that there is, without spending it."""
    with pytest.raises(LookupError), patience.spent_by(turn_id) as seconds:
        raise LookupError
    return seconds


def test_a_turn_that_gave_up_waits_no_second_time() -> None:
    patience = Patience(30.0)
    assert left_to(patience, "t1") == 30.0
    give_up(patience, "t1")
    assert (left_to(patience, "t1"), left_to(patience, "t2")) == (0.0, 30.0)


def test_an_answer_brings_patience_back() -> None:
    patience = Patience(30.0)
    give_up(patience, "t1")
    with patience.spent_by("t1") as seconds:
        assert seconds == 0.0
    assert left_to(patience, "t1") == 30.0


def test_nothing_is_remembered_of_a_turn_that_left() -> None:
    patience = Patience(30.0)
    give_up(patience, "t1")
    give_up(patience, "t1")
    assert left_to(patience, "t1") == 30.0


def test_who_is_no_turn_does_not_wait() -> None:
    assert left_to(Patience(30.0), None) == 0.0
