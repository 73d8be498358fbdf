"""Until when a question can be answered and an approval used, whatever the clock does."""

import pytest

from chat.errors import ConfirmationExpired
from tests.unit.chat.approvals.questions import CALL, MESSAGE, SESSION, TIMEOUT, approve, deny


def test_confirming_late_is_a_denial_for_everybody(ask, store, clock):
    question = ask()
    clock.move(TIMEOUT)
    assert store.pending(SESSION) == []
    for _ in range(2):
        with pytest.raises(ConfirmationExpired):
            approve(store, question)
    assert store.decision_of(question).reason == "timeout"
    assert store.find_decided(SESSION, MESSAGE, CALL) is None


def test_a_late_denial_is_recorded_though_it_is_told_that_it_is_late(ask, store, clock):
    question = ask()
    clock.move(TIMEOUT)
    with pytest.raises(ConfirmationExpired):
        deny(store, question)
    assert store.find_decided(SESSION, MESSAGE, CALL).reason == "denied"


def test_the_turn_that_waited_long_enough_denies_whatever_the_clock_says(ask, store, clock):
    question = ask()
    clock.move(-3600)
    assert store.expire(question).reason == "timeout"
    for seconds in (0, 3600, 1):
        clock.move(seconds)
        with pytest.raises(ConfirmationExpired):
            approve(store, question)


def test_an_approval_that_was_faster_than_the_end_of_the_time_stands(ask, store):
    question = ask()
    _, decision = approve(store, question)
    assert store.expire(question) == decision


@pytest.mark.parametrize("seconds", [-1, -86_400, TIMEOUT, 86_400])
def test_a_clock_that_was_set_never_turns_into_an_approval(ask, store, clock, seconds):
    question = ask()
    clock.move(seconds)
    with pytest.raises(ConfirmationExpired):
        approve(store, question)
    clock.move(-seconds)
    with pytest.raises(ConfirmationExpired):
        approve(store, question)


@pytest.mark.parametrize("seconds", [-1, TIMEOUT + 1])
def test_an_approval_counts_on_resume_only_for_a_while_after_it_was_given(
    ask, store, clock, seconds
):
    approve(store, ask())
    assert store.find_decided(SESSION, MESSAGE, CALL) is not None
    clock.move(seconds)
    assert store.find_decided(SESSION, MESSAGE, CALL) is None
