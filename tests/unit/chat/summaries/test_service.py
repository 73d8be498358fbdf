"""Summaries: made once, never in the way, found again, and given up in the end."""

import asyncio
import json

import msgspec
import pytest

from chat.approvals.store import CONFIRMATION_IDS, KINDS, ConfirmationStore
from chat.errors import SummaryNotFound, SummaryNotPossible
from chat.storage.files.records import FileRecords
from chat.summaries.failures import SummaryFailures
from chat.summaries.prompt import ANSWER_TOKENS, ConversationSummary, with_summary_due
from chat.summaries.service import GAVE_WAY_SECONDS, SummaryService
from chat.summaries.writer import SummaryWriter, WantedModels
from models_app.errors import ContextOverflow, ModelNotFound, OllamaUnreachable
from models_app.language_model import ModelInfo
from models_app.ollama.language_model import OllamaLanguageModel
from models_app.structured import StructuredModels
from sessions_app.errors import SessionBusy
from sessions_app.messages import AssistantMessage, ToolCall, UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import append_messages, with_messages, with_metadata
from sessions_app.store.documents import FileDocuments

ANSWERED = "2026-01-01T00:00:00.000000+00:00"
QUIET = "2026-01-01T00:00:05.000000+00:00"
LATER = "2026-01-01T00:01:00.000000+00:00"
UNSUPPORTED = ("gpt-oss:20b",)


class Answers:
    """A model that writes what it was told; an exception is raised, ``...`` never ends."""

    def __init__(self):
        self.script = []
        self.questions = []
        self.asked = asyncio.Event()
        self.cancelled = 0

    async def ask(self, model, question, form):
        self.questions.append((model, question.text))
        self.asked.set()
        step = self.script.pop(0) if self.script else "They talked."
        if step is ...:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled += 1
        if isinstance(step, Exception):
            raise step
        if callable(step):
            step = await step()
        return form(summary=step, topics=["talk"])


class Models:
    async def look_up(self, name):
        if name == "missing":
            raise ModelNotFound("model 'missing' not found")

    async def list(self):
        return [ModelInfo(name=name, size_mb=1) for name in ("m", "gpt-oss:20b")]


class Claims:
    """The sessions, with claims of a test's own."""

    def __init__(self, repository, claims):
        self.load = repository.load
        self.claims = lambda: claims


class Queue:
    def __init__(self):
        self.added, self.calls, self.is_there = [], 0, True

    def add(self, function, *session_ids, delay_seconds):
        assert function == "chat.tasks.summarize"
        self.calls += 1
        if not self.is_there:
            return False
        self.added += [(session_id, delay_seconds) for session_id in session_ids]
        return True


class House:
    def __init__(self, data_dir):
        self.sessions = SessionManager(data_dir / "chat_sessions")
        self.repository = self.sessions.repository
        self.answers, self.queue = Answers(), Queue()
        self.clock = [1000.0]
        self.now = QUIET
        failures = FileDocuments(data_dir / ".mochi" / "summaries", durable=False)
        self.failures = SummaryFailures(failures, clock=lambda: self.clock[0])
        records = FileRecords(data_dir / ".mochi" / "asked", names=CONFIRMATION_IDS, kinds=KINDS)
        self.questions = ConfirmationStore(records, timeout_seconds=60)
        self.wanted = WantedModels(
            self.repository, lambda model: not model.startswith("openai:"), self.questions.pending
        )
        self.service = self.build()

    def build(self, **changes):
        return SummaryService(
            **{
                "repository": self.repository,
                "writer": SummaryWriter(self.repository, self.answers, self.wanted),
                "models": Models(),
                "queue": self.queue,
                "failures": self.failures,
                "unsupported": UNSUPPORTED,
                "enabled": True,
                "interval_seconds": 3,
                "now": lambda: self.now,
                **changes,
            }
        )

    def talk(self, model="m", **metadata):
        """Make a session that ends with an answer, whose summary is due."""
        session = self.sessions.create(model)

        def change(found):
            found = append_messages(
                found,
                UserMessage(content="Hello", message_id="u1", timestamp=ANSWERED),
                AssistantMessage(content="Hi", message_id="a1", timestamp=ANSWERED, model=model),
                now=ANSWERED,
            )
            found = with_summary_due(found, now=ANSWERED)
            return with_metadata(found, now=ANSWERED, **metadata)

        return self.repository.update(session.session_id, change).session_id

    def metadata(self, session_id):
        return self.repository.load(session_id).metadata

    async def run(self, session_id, service=None):
        return await (service or self.service).run_due(session_id)


@pytest.fixture
def house(data_dir):
    return House(data_dir)


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


async def test_a_session_that_is_not_quiet_yet_waits_for_its_next_task(house):
    session_id = house.talk()
    house.now = "2026-01-01T00:00:01.000000+00:00"

    assert await house.run(session_id) == "skipped: the session is not quiet yet"
    assert house.metadata(session_id).summary_due == ANSWERED


async def test_nothing_is_written_while_a_turn_runs(house):
    session_id = house.talk()
    house.repository.claim(session_id, "turn", owner=house.repository.owners.mine())

    assert await house.run(session_id) == "skipped: a turn runs"
    with pytest.raises(SessionBusy):
        await house.service.summarize(session_id)
    house.repository.release(session_id, "turn")
    assert await house.run(session_id) == "done"


async def test_a_turn_that_begins_takes_the_model_back(house):
    session_id = house.talk()
    house.answers.script = [...]

    running = asyncio.create_task(house.run(session_id))
    await house.answers.asked.wait()
    house.repository.claim(session_id, "turn", owner=house.repository.owners.mine())

    assert await running == "gave way to a turn"
    assert house.answers.cancelled == 1
    assert house.metadata(session_id).summary_due == ANSWERED
    assert house.service.failing() == []
    house.repository.release(session_id, "turn")
    assert await house.run(session_id) == "done"


async def test_a_turn_of_another_session_on_the_same_model_takes_it_back(house):
    session_id, other, third = house.talk(), house.talk(), house.talk("n")
    house.answers.script = [...]
    house.repository.claim(third, "turn3", owner=house.repository.owners.mine())  # another model

    running = asyncio.create_task(house.run(session_id))
    await house.answers.asked.wait()
    assert not running.done()
    house.repository.claim(other, "turn2", owner=house.repository.owners.mine())

    assert await running == "gave way to a turn of another session"
    assert house.answers.cancelled == 1
    assert house.queue.added == [(session_id, GAVE_WAY_SECONDS)]
    assert house.service.failing() == []
    assert await house.run(session_id) == "gave way to a turn of another session"
    assert len(house.answers.questions) == 1  # the model was not asked again
    house.repository.release(other, "turn2")
    assert await house.run(session_id) == "done"


async def test_a_turn_that_waits_for_an_approval_wants_no_model(house):
    session_id, other = house.talk(), house.talk()
    house.repository.claim(other, "turn2", owner=house.repository.owners.mine())
    call = ToolCall(id="c1", name="delete", arguments={})
    asked = {"session_id": other, "message_id": "m1", "call": call, "call_index": 0}

    house.questions.ask(**asked, turn_id="turn1")  # left by a turn that is over
    assert await house.run(session_id) == "gave way to a turn of another session"
    house.questions.withdraw_all(other)
    house.questions.ask(**asked, turn_id="turn2", agent_name="coder")  # beside other agents
    assert await house.run(session_id) == "gave way to a turn of another session"
    house.questions.withdraw_all(other)
    house.questions.ask(**asked, turn_id="turn2")
    assert await house.run(session_id) == "done"


async def test_a_summary_does_not_give_way_for_ever(house):
    session_id, other = house.talk(), house.talk()
    house.repository.claim(other, "turn2", owner=house.repository.owners.mine())
    house.now = "2026-01-01T00:09:59.000000+00:00"
    assert await house.run(session_id) == "gave way to a turn of another session"
    house.now = "2026-01-01T00:10:01.000000+00:00"
    assert await house.run(session_id) == "done"


async def test_where_requests_do_not_wait_for_each_other_nobody_gives_way(house):
    session_id, other = house.talk("openai:gpt"), house.talk("openai:gpt")
    house.repository.claim(other, "turn2", owner=house.repository.owners.mine())
    assert await house.run(session_id) == "done"


async def test_who_asks_for_a_summary_waits_for_no_other_session(house):
    session_id, other = house.talk(), house.talk()
    house.repository.claim(other, "turn2", owner=house.repository.owners.mine())
    assert (await house.service.summarize(session_id)).summary == "They talked."


async def test_a_dead_turn_wants_no_model(house):
    session_id, other = house.talk(), house.talk()
    house.repository.claim(other, "turn2", owner=house.repository.owners.mine())
    claim = house.repository.claim_of(other)
    dead = msgspec.structs.replace(claim, alive=False)
    house.wanted = WantedModels(
        Claims(house.repository, [dead]), lambda model: True, house.questions.pending
    )
    assert await house.run(session_id, house.build()) == "done"


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


async def test_closing_waits_for_no_moment_and_loses_none(house):
    session_id = house.talk()
    house.service.notice_answer(session_id)
    await asyncio.sleep(0)  # it gathers

    async with asyncio.timeout(0.3):
        await house.service.aclose()

    assert house.queue.added == [(session_id, 3)]


async def test_who_asks_for_a_summary_gets_it_now_and_the_model_is_remembered(house):
    session_id = house.talk(summary_due=None)

    made = await house.service.summarize(session_id, "writer")

    assert (made.summary, made.topics, made.model_used) == ("They talked.", ["talk"], "writer")
    assert house.metadata(session_id).summary_model == "writer"
    found = await house.service.get(session_id)
    assert msgspec.to_builtins(found) == msgspec.to_builtins(made)


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


async def test_a_session_that_is_gone_is_no_failure(house):
    assert await house.run("0123456789") == "skipped: SESSION_NOT_FOUND"
    session_id = house.talk()

    async def delete():
        house.sessions.delete(session_id)
        return "Too late."

    house.answers.script = [delete]
    assert await house.run(session_id) == "skipped: the session is gone"
    assert house.service.failing() == []


@pytest.mark.parametrize("due", ["nonsense", "2030-01-01T00:00:00+00:00", "2026-01-01"])
async def test_a_time_that_makes_no_sense_does_not_keep_a_summary_for_ever(house, due):
    assert await house.run(house.talk(summary_due=due)) == "done"


def test_a_summary_is_a_pydantic_model_with_two_fields():
    assert set(ConversationSummary.model_fields) == {"summary", "topics"}


async def test_giving_way_frees_the_models_slot(house):
    """With the real client, against an Ollama that goes on and on."""
    asked, left = asyncio.get_running_loop().create_future(), asyncio.Event()

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        asked.set_result(json.loads(await reader.readexactly(length)))
        await reader.read()
        left.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    house.answers = StructuredModels(
        lambda name: (OllamaLanguageModel(url), name),
        is_of_ollama=lambda _: True,
        ollama_host=url,
        silence_timeout=60,
    )
    session_id, other = house.talk(), house.talk()
    async with server, asyncio.timeout(20):
        running = asyncio.create_task(house.run(session_id, house.build()))
        request = await asked
        house.repository.claim(other, "turn2", owner=house.repository.owners.mine())
        assert await running == "gave way to a turn of another session"
        await left.wait()
    assert (request["truncate"], request["shift"]) == (False, False)
    assert request["options"]["num_predict"] == ANSWER_TOKENS
