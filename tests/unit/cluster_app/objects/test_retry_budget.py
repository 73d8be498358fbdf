"""A turn waits for a store that says nothing, but once."""

import pytest

from cluster_app.objects.retry_budget import RetryBudget
from sessions_app.errors import StorageUnavailable


def give_up(budget: RetryBudget, turn_id: str) -> None:
    with pytest.raises(StorageUnavailable), budget.spent_by(turn_id):
        raise StorageUnavailable("away")


def left_to(budget: RetryBudget, turn_id: str | None) -> float:
    """Return the seconds that are left, without spending them."""
    with pytest.raises(LookupError), budget.spent_by(turn_id) as seconds:
        raise LookupError
    return seconds


def test_a_turn_that_gave_up_waits_no_second_time() -> None:
    budget = RetryBudget(30.0)
    assert left_to(budget, "t1") == 30.0
    give_up(budget, "t1")
    assert (left_to(budget, "t1"), left_to(budget, "t2")) == (0.0, 30.0)


def test_an_answer_brings_patience_back() -> None:
    budget = RetryBudget(30.0)
    give_up(budget, "t1")
    with budget.spent_by("t1") as seconds:
        assert seconds == 0.0
    assert left_to(budget, "t1") == 30.0


def test_nothing_is_remembered_of_a_turn_that_left() -> None:
    budget = RetryBudget(30.0)
    give_up(budget, "t1")
    give_up(budget, "t1")
    assert left_to(budget, "t1") == 30.0


def test_who_is_no_turn_does_not_wait() -> None:
    assert left_to(RetryBudget(30.0), None) == 0.0
