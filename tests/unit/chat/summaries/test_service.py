"""Summaries: made once, never in the way, found again, and given up in the end."""

import asyncio

import pytest

from chat.errors import SummaryNotFound, SummaryNotPossible
from chat.summaries import service as summaries
from chat.summaries.prompt import ConversationSummary
from mochi_project.principal import SCOPES, Principal, acting_for
from models_app.errors import ContextOverflow, ModelNotFound
from models_app.names import patterns
from models_app.window_sizes import LoadedWindow
from sessions_app.errors import SessionBusy
from sessions_app.messages import AssistantMessage, UserMessage
from sessions_app.session import WindowConfig, append_messages, with_messages, with_metadata
from tests.claims import claim_session, hold_of
from tests.unit.chat.summaries.house import ANSWERED, LATER

pytestmark = pytest.mark.allow_blocking  # tests look into files between the steps


async def test_what_is_due_is_written_once(house):
    session_id = house.talk()

    assert await house.run(session_id) == "done"
    assert await house.run(session_id) == "skipped: nothing is due"

    metadata = house.metadata(session_id)
    assert metadata.summary == {"summary": "They talked.", "topics": ["talk"]}
    assert (metadata.summary_model, metadata.summary_due) == ("m", None)
    assert metadata.updated_at == ANSWERED
    assert len(house.answers.questions) == 1


async def test_the_next_summary_is_given_the_one_before(house):
    session_id = house.talk(summary={"summary": "They met.", "topics": []})

    await house.run(session_id)

    assert "Summary so far:\nThey met." in house.answers.questions[0][1]
    assert house.metadata(session_id).summary["summary"] == "They talked."


@pytest.mark.parametrize(
    ("own", "loaded", "window"),
    [
        ({"current_window": 16384}, None, 16384),
        ({"current_window": 16384}, 4096, 4096),
        ({"current_window": 2048, "manual_override": True}, 4096, 2048),
        ({}, 4096, None),  # nothing is sent for it in turns either
    ],
)
async def test_the_sessions_own_model_is_asked_in_the_window_that_is_loaded(
    house, own, loaded, window
):
    session_id = house.talk(context_window_config=WindowConfig(**own))
    house.loaded["m"] = LoadedWindow(window=loaded)
    await house.run(session_id)
    assert house.answers.windows == [window]


@pytest.mark.parametrize(("loaded", "window"), [(None, 8192), (32_768, 32_768)])
async def test_another_model_is_asked_in_its_own_loaded_window_or_a_first_one(
    house, loaded, window
):
    session_id = house.talk("gpt-oss:20b", summary_model="m")
    house.loaded["m"] = LoadedWindow(window=loaded)
    await house.run(session_id)
    assert house.answers.windows == [window]


async def test_a_session_that_is_not_quiet_yet_waits_for_its_next_task(house):
    session_id = house.talk()
    house.now = "2026-01-01T00:00:01.000000+00:00"

    assert await house.run(session_id) == "skipped: the session is not quiet yet"
    assert house.metadata(session_id).summary_due == ANSWERED


async def test_nothing_is_written_while_a_turn_runs(house):
    session_id = house.talk()
    claim_session(house.repository, session_id, "turn")

    assert await house.run(session_id) == "skipped: a turn runs"
    with pytest.raises(SessionBusy):
        await house.service.summarize(session_id)
    house.repository.release(session_id, hold_of(house.repository, "turn"))
    assert await house.run(session_id) == "done"


async def test_a_summary_that_does_not_fit_is_given_less_and_told_so(house):
    session_id = house.talk()

    def change(found):
        more = [
            UserMessage(content=f"{at} " + "x" * 3000, message_id=f"n{at}", timestamp=LATER)
            for at in range(8)
        ]
        answer = AssistantMessage(content="Well.", message_id="n", timestamp=LATER, model="m")
        return append_messages(found, *more, answer, now=LATER)

    house.repository.update(session_id, change)
    too_long = ContextOverflow("too long", n_prompt_tokens=20_000)
    house.answers.script = [too_long, ContextOverflow("too long"), "They counted."]

    assert await house.run(session_id) == "done"

    lengths = [len(text) for _, text in house.answers.questions]
    assert lengths[0] > lengths[1] > lengths[2] > 50
    assert "(Not shown: " in house.answers.questions[-1][1]
    assert house.answers.questions[-1][1].endswith("Assistant: Well.")
    assert house.metadata(session_id).summary["summary"] == "They counted."


async def test_a_summary_that_never_fits_fails_in_the_end(house):
    session_id = house.talk()
    house.answers.script = [ContextOverflow("too long")] * 20
    assert await house.run(session_id) == "failed: CONTEXT_OVERFLOW"
    assert len(house.answers.questions) < 10


async def test_an_answer_given_meanwhile_is_still_due(house):
    session_id = house.talk()

    async def another_answer():
        def change(found):
            more = UserMessage(content="More", message_id="u2", timestamp=LATER)
            found = append_messages(found, more, now=LATER)
            return with_metadata(found, now=LATER, summary_due=LATER)

        house.repository.update(session_id, change)
        return "The first part."

    house.answers.script = [another_answer]
    assert await house.run(session_id) == "done"

    metadata = house.metadata(session_id)
    assert metadata.summary["summary"] == "The first part."
    assert metadata.summary_due == LATER


async def test_a_conversation_that_was_cut_off_meanwhile_gets_no_summary(house):
    session_id = house.talk()

    async def cut_off():
        house.repository.update(
            session_id, lambda found: with_messages(found, found.messages[:1], now=LATER)
        )
        return "Of what is gone."

    house.answers.script = [cut_off]
    await house.run(session_id)

    assert house.metadata(session_id).summary is None


async def test_a_summary_that_somebody_asked_for_meanwhile_stays(house):
    session_id = house.talk()

    async def asked_for():
        await house.service.summarize(session_id)
        return "The slow one."

    house.answers.script = [asked_for, "The one that was asked for."]
    await house.run(session_id)

    assert house.metadata(session_id).summary["summary"] == "The one that was asked for."


async def test_a_model_that_cannot_write_summaries_is_skipped_for_the_stored_one(house):
    alone, helped = house.talk("gpt-oss:20b"), house.talk("gpt-oss:20b", summary_model="m")

    assert await house.run(alone) == "skipped: no suitable model"
    assert house.metadata(alone).summary_due is None
    assert await house.run(helped) == "done"
    assert house.answers.questions[0][0] == "m"


async def test_nothing_is_written_where_summaries_are_off(house):
    session_id = house.talk()

    await house.run(session_id, house.build(enabled=False))

    assert house.answers.questions == []
    house.build(enabled=False).notice_answer(session_id)
    assert house.build(enabled=False).queue_due() == 0
    assert house.queue.added == []


async def test_what_is_overdue_is_found_in_the_files(house):
    lost, fresh, failed = house.talk(), house.talk(summary_due=LATER), house.talk()
    house.talk(summary_due=None)
    house.failures.begin(failed, ANSWERED)
    house.now = LATER

    assert house.service.queue_due() == 1
    assert house.queue.added == [(lost, 0)]
    assert fresh not in dict(house.queue.added)

    assert house.service.queue_due() == 0  # it waits in the queue now
    house.clock[0] += 20
    assert house.service.queue_due() == 1
    assert house.queue.added[-1] == (failed, 0)
    house.failures.begin(failed, ANSWERED)  # which died again
    house.clock[0] += 120
    assert house.service.queue_due() == 1


async def test_all_that_is_due_is_queued_when_a_worker_comes_up(house):
    lost, fresh = house.talk(), house.talk(summary_due=LATER)
    house.talk(summary_due=None)
    house.now = "2026-01-01T00:01:01.000000+00:00"
    house.queue.is_there = False
    house.service.notice_answer(fresh)  # before there is a queue
    await house.service.aclose()
    assert house.answers.is_closed
    assert house.queue.added == []

    house.queue.is_there = True
    assert house.service.queue_due(worker_is_new=True) == 2
    assert dict(house.queue.added) == {lost: 0, fresh: 2}  # in 2 s it was quiet for 3
    assert house.service.queue_due() == 0

    # The next worker begins with an empty queue.
    assert house.service.queue_due(worker_is_new=True) == 2


async def test_a_new_worker_goes_on_at_once_with_what_the_last_one_died_over(house):
    died, failed, hopeless = house.talk(), house.talk(), house.talk()
    house.failures.begin(died, ANSWERED)
    for _ in range(3):
        house.failures.begin(hopeless, ANSWERED)
    house.failures.begin(failed, ANSWERED)
    house.failures.failed(failed, code="OLLAMA_UNREACHABLE", message="Gone.", again=True)

    assert house.service.queue_due(worker_is_new=True) == 1
    assert house.queue.added == [(died, 0)]
    assert await house.run(died) == "done"
    assert await house.run(failed) == "skipped: it failed before"
    assert await house.run(hopeless) == "skipped: it failed before"


async def test_an_answer_is_queued_for_when_the_session_is_quiet(house):
    session_id = house.talk()

    house.service.notice_answer(session_id)
    while not house.queue.added:
        await asyncio.sleep(0)

    assert house.queue.added == [(session_id, 3)]


async def test_answers_of_a_moment_are_queued_together_each_session_once(house):
    first, second = house.talk(), house.talk()

    for session_id in (first, second, first, first):
        house.service.notice_answer(session_id)
    await house.service.aclose()

    assert house.queue.added == [(first, 3), (second, 3)]
    assert house.queue.calls == 1


async def test_closing_waits_for_no_moment_and_loses_none(house, monkeypatch):
    monkeypatch.setattr(summaries, "GATHER_SECONDS", 3600)
    session_id = house.talk()
    house.service.notice_answer(session_id)
    await asyncio.sleep(0)  # it gathers

    async with asyncio.timeout(30):
        await house.service.aclose()

    assert house.queue.added == [(session_id, 3)]


async def test_who_asks_for_a_summary_gets_it_now_and_the_model_is_remembered(house):
    session_id = house.talk(summary_due=None)

    made = await house.service.summarize(session_id, "writer")

    assert (made.summary, made.topics, made.model_used) == ("They talked.", ["talk"], "writer")
    assert house.metadata(session_id).summary_model == "writer"
    found = await house.service.get(session_id)
    assert found == made


async def test_a_key_for_other_models_gets_a_summary_by_the_one_that_the_server_chooses(house):
    session_id, limits = house.talk(summary_due=None), []

    async def written():
        limits.append(patterns())
        return "They talked."

    house.answers.script = [written]
    with acting_for(Principal("default", SCOPES, key_id="k00000000", models=("other",))):
        made = await house.service.summarize(session_id)

    assert (made.summary, made.model_used, limits) == ("They talked.", "m", [("*",)])


async def test_a_session_without_a_summary_says_whether_one_is_on_its_way(house):
    for due in (ANSWERED, None):
        with pytest.raises(SummaryNotFound) as missing:
            await house.service.get(house.talk(summary_due=due))
        assert missing.value.details["due"] is (due is not None)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("missing", ModelNotFound),
        ("gpt-oss:20b", SummaryNotPossible),
        ("ollama:gpt-oss:20b", SummaryNotPossible),
    ],
)
async def test_a_model_that_cannot_is_refused_with_those_that_can(house, name, error):
    with pytest.raises(error) as refused:
        await house.service.summarize(house.talk(), name)
    assert refused.value.details.items() >= {"field": "model", "allowed": ["m"]}.items()


async def test_there_must_be_something_to_summarize_and_a_model_to_do_it(house):
    empty = house.sessions.create("m").session_id
    with pytest.raises(SummaryNotPossible):
        await house.service.summarize(empty)
    with pytest.raises(SummaryNotPossible) as refused:
        await house.service.summarize(house.talk("gpt-oss:20b"))
    assert refused.value.details["unsupported"] == ["gpt-oss:20b"]


def test_the_oldest_due_summary_says_how_long_the_queue_is(house):
    assert house.service.oldest_due_seconds() == 0
    house.talk()
    assert house.service.oldest_due_seconds() == 2  # of 5, of which 3 are to pass anyway
    assert house.build(enabled=False).oldest_due_seconds() == 0


@pytest.mark.parametrize("due", ["nonsense", "2030-01-01T00:00:00+00:00", "2026-01-01"])
async def test_a_time_that_makes_no_sense_does_not_keep_a_summary_for_ever(house, due):
    assert await house.run(house.talk(summary_due=due)) == "done"


def test_a_summary_is_a_pydantic_model_with_two_fields():
    assert set(ConversationSummary.model_fields) == {"summary", "topics"}


async def test_a_session_without_a_title_gets_one_with_its_summary(house):
    house.answers.title = '"A talk about\nthe sea"'
    session_id = house.talk(title="Hello, could you", titled_by="message")

    await house.run(session_id)

    metadata = house.metadata(session_id)
    assert (metadata.title, metadata.titled_by) == ("A talk about the sea", "model")


@pytest.mark.parametrize("titled_by", ["person", "model"])
async def test_a_title_that_somebody_gave_stays(house, titled_by):
    house.answers.title = "Another"
    session_id = house.talk(title="The sea", titled_by=titled_by)

    await house.run(session_id)

    assert house.metadata(session_id).title == "The sea"


async def test_a_person_who_gives_a_title_meanwhile_wins(house):
    house.answers.title = "Another"
    session_id = house.talk()

    async def rename():
        house.sessions.update(session_id, title="The sea")
        return "They talked."

    house.answers.script = [rename]
    assert await house.run(session_id) == "done"
    metadata = house.metadata(session_id)
    assert (metadata.title, metadata.titled_by) == ("The sea", "person")
    assert metadata.summary["summary"] == "They talked."


async def test_a_model_that_gives_no_title_has_its_summary_kept(house):
    session_id = house.talk()

    assert await house.run(session_id) == "done"

    assert house.metadata(session_id).title is None
