"""What fails, or whose worker dies, is tried again a few times."""

import pytest

from models_app.errors import CallRefused, ModelNotFound, OllamaUnreachable
from sessions_app.session import with_metadata
from tests.unit.chat.summaries.house import ANSWERED, LATER

pytestmark = pytest.mark.allow_blocking  # tests look into files between the steps


async def test_failures_are_retried_a_few_times_later_and_later(house):
    session_id = house.talk()
    house.answers.script = [OllamaUnreachable("Ollama is not there.")] * 5

    assert await house.run(session_id) == "failed: OLLAMA_UNREACHABLE"
    assert await house.run(session_id) == "skipped: it failed before"
    house.clock[0] += 20
    assert await house.run(session_id) == "failed: OLLAMA_UNREACHABLE"
    house.clock[0] += 20
    assert await house.run(session_id) == "skipped: it failed before"
    house.clock[0] += 100
    assert await house.run(session_id) == "failed: OLLAMA_UNREACHABLE"
    house.clock[0] += 10**9
    assert await house.run(session_id) == "skipped: it failed before"

    (failure,) = house.service.failing()
    assert (failure.session_id, failure.attempts, failure.given_up) == (session_id, 3, True)
    assert (failure.code, failure.message) == ("OLLAMA_UNREACHABLE", "Ollama is not there.")


async def test_a_summary_that_is_not_allowed_just_now_has_not_failed(house):
    session_id = house.talk()
    house.answers.script = [CallRefused("The budget is used up.")] * 5

    for _ in range(5):
        assert await house.run(session_id) == "left for later: INTERNAL_ERROR"

    assert house.service.failing() == []
    assert house.metadata(session_id).summary_due == ANSWERED
    assert await house.run(session_id) == "done"


async def test_the_next_answer_gives_a_failed_summary_another_chance(house):
    session_id = house.talk()
    house.answers.script = [ModelNotFound("no such model")]
    assert await house.run(session_id) == "failed: MODEL_NOT_FOUND"
    assert house.service.failing()[0].given_up  # asking again would change nothing

    house.repository.update(
        session_id, lambda found: with_metadata(found, now=LATER, summary_due=LATER)
    )
    house.now = "2026-01-01T00:02:00.000000+00:00"

    assert await house.run(session_id) == "done"
    assert house.service.failing() == []


async def test_a_worker_that_dies_over_a_summary_uses_up_an_attempt(house):
    session_id = house.talk()
    for _ in range(3):
        house.failures.begin(session_id, ANSWERED)  # and then it is gone

    assert await house.run(session_id) == "skipped: it failed before"
    assert house.service.failing()[0].code == "WORKER_DIED"


async def test_who_holds_a_summary_goes_on_at_once_with_what_another_died_over(house):
    died, failed = house.talk(), house.talk()
    for session_id in (died, failed):
        house.failures.begin(session_id, ANSWERED)
    house.failures.failed(failed, code="OLLAMA_UNREACHABLE", message="Gone.", again=True)

    assert await house.run(died) == "done"
    assert await house.run(failed) == "skipped: it failed before"


async def test_what_another_worker_makes_is_left_to_it(house):
    session_id = house.talk()
    house.queue.held.add(session_id)

    assert await house.run(session_id) == "skipped: another worker makes it"
    house.queue.release("chat.tasks.summarize", session_id)
    assert await house.run(session_id) == "done"

    assert house.queue.held == set()
    assert len(house.answers.questions) == 1


def test_a_summary_that_was_given_up_makes_no_queue(house):
    session_id = house.talk()
    due = house.metadata(session_id).summary_due
    while house.failures.may_try(session_id, due):
        house.failures.begin(session_id, due)
        house.failures.failed(session_id, code="OLLAMA_ERROR", message="no", again=False)
    assert house.service.oldest_due_seconds() == 0


async def test_a_session_that_is_gone_is_no_failure(house):
    assert await house.run("0123456789") == "skipped: SESSION_NOT_FOUND"
    session_id = house.talk()

    async def delete():
        house.sessions.delete(session_id)
        return "Too late."

    house.answers.script = [delete]
    assert await house.run(session_id) == "skipped: the session was deleted"
    assert house.service.failing() == []
