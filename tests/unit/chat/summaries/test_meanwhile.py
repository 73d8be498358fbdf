"""Messages that are deleted, hidden or edited while a model reads them for a summary."""

import asyncio
from functools import partial

import pytest

from chat.errors import SummaryNotPossible
from sessions_app.messages import AssistantMessage, UserMessage
from sessions_app.session import append_messages, with_metadata
from tests.unit.chat.summaries.house import ANSWERED, LATER

pytestmark = pytest.mark.allow_blocking  # tests look into files between the steps


def change_message(house, session_id, how):
    match how:
        case "deleted":
            house.sessions.delete_message(session_id, 0)
        case "hidden":
            house.sessions.hide_message(session_id, 0)
        case "edited":
            house.sessions.edit_message(session_id, 0, "Nothing")


async def meanwhile(house, session_id, how):
    """Change a message while a model reads it."""
    await asyncio.to_thread(change_message, house, session_id, how)
    return "They said Hello."


HOWS = ("deleted", "hidden", "edited")


@pytest.mark.parametrize("how", HOWS)
async def test_a_message_that_is_taken_away_meanwhile_is_in_no_summary(house, how):
    session_id = house.talk()
    house.answers.title = "Hello"
    house.answers.script = [partial(meanwhile, house, session_id, how)]

    assert await house.run(session_id) == "left for later: the conversation was changed"

    metadata = house.metadata(session_id)
    assert (metadata.summary, metadata.title) == (None, None)
    assert (metadata.summary_due is None) is (how == "edited")  # the next answer makes one due
    assert house.queue.added == [(session_id, 3)]
    assert house.failures.attempts(session_id, ANSWERED) == 0


async def test_what_was_taken_away_meanwhile_is_not_read_for_the_next_summary(house):
    session_id = house.talk()

    def answer_more(found):
        more = (
            UserMessage(content="More", message_id="u2", timestamp=ANSWERED),
            AssistantMessage(content="Yes", message_id="a2", timestamp=ANSWERED, model="m"),
        )
        return append_messages(found, *more, now=ANSWERED)

    house.repository.update(session_id, answer_more)
    house.answers.script = [partial(meanwhile, house, session_id, "deleted")]
    await house.run(session_id)
    house.repository.update(
        session_id, lambda found: with_metadata(found, now=LATER, summary_due=ANSWERED)
    )

    assert await house.run(session_id) == "done"
    assert "Hello" not in house.answers.questions[-1][1]
    assert house.metadata(session_id).summary["summary"] == "They talked."


@pytest.mark.parametrize("how", HOWS)
async def test_a_summary_that_is_asked_for_tells_of_what_is_there_at_its_end(house, how):
    session_id = house.talk(summary_due=None)
    house.answers.script = [partial(meanwhile, house, session_id, how)]

    if how == "edited":
        with pytest.raises(SummaryNotPossible):
            await house.service.summarize(session_id)
        assert house.metadata(session_id).summary is None
        return
    made = await house.service.summarize(session_id)
    assert made.summary == "They talked."
    assert house.metadata(session_id).summary["summary"] == "They talked."
    assert "Hello" not in house.answers.questions[-1][1]


async def test_a_new_system_prompt_is_no_reason_to_write_a_summary_again(house):
    session_id = house.talk()

    async def prompted():
        await asyncio.to_thread(house.sessions.set_system_prompt, session_id, "Be brief.")
        return "They talked of it."

    house.answers.script = [prompted]
    assert await house.run(session_id) == "done"
