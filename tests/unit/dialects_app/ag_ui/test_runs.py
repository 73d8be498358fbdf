"""Which turn a run asks for, and which answers to questions are taken."""

import asyncio
import threading
from types import SimpleNamespace

import msgspec
import pytest

from chat.approvals.confirmation import Decision
from chat.approvals.service import ConfirmationService
from chat.approvals.store import ConfirmationStore
from dialects_app.ag_ui.body import RunIn
from dialects_app.ag_ui.runs import Runs
from dialects_app.errors import ChatDiffers
from dialects_app.shared.client_sessions import session_id_of
from models_app.default_model import DefaultModel
from sessions_app.errors import SessionExists, ValidationFailed
from sessions_app.ids_and_clock import utc_now
from sessions_app.messages import AssistantMessage, ToolCall, UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import append_messages, make_session
from tests.unit.chat.approvals.questions import TIMEOUT, Clock, records_in

SESSION = "a1b2c3d4e5"
CALL = ToolCall(id="c1", name="remove", arguments={"path": "x"})
OTHER = ToolCall(id="c2", name="remove", arguments={"path": "y"})
HELLO = {"id": "u1", "role": "user", "content": "Hello"}


class Turns:
    """Keeps the requests for turns, and starts none."""

    when_busy = "refuse"

    def __init__(self, sessions, confirmations):
        self.asked = []
        self.taken = 0
        self.running = []
        self.ends = None
        self._space = SimpleNamespace(turns=self, confirmations=confirmations)

    def space_for(self, request):
        return self._space

    async def active(self, session_id):
        if self.ends is not None:
            await asyncio.to_thread(self.ends)
        return self.running.pop() if self.running else None

    async def open(self, request, key, *, when_busy, client):
        if self.taken:
            self.taken -= 1
            raise SessionExists(request.session_id)
        self.asked.append(request)
        return SimpleNamespace(
            session_id=request.session_id,
            turn_id="0" * 20,
            listener=None,
            committed=None,
            finished=None,
            leave=None,
        )


class NoFiles:
    async def keep(self, messages, files):
        return {}


@pytest.fixture
def sessions(tmp_path):
    return SessionManager(tmp_path / "sessions")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(tmp_path, clock):
    return ConfirmationStore(records_in(tmp_path / "asked"), timeout_seconds=TIMEOUT, now=clock)


@pytest.fixture
def turns(sessions, store):
    confirmations = ConfirmationService(
        confirmation_store=store,
        repository=sessions.repository,
        signals=None,
        notice=lambda turn_id: True,
        go_on=lambda session_id: None,
    )
    return Turns(sessions, confirmations)


@pytest.fixture
def runs(turns, sessions):
    return Runs(
        chat=turns,
        inbox=turns,
        sessions=sessions,
        files=NoFiles(),
        default_model=DefaultModel(None, "small:1b"),
    )


@pytest.fixture
def asked(sessions, store):
    """Return the question of a session that waits for an answer."""
    return waiting(sessions, store, CALL)[0]


def waiting(sessions, store, *calls):
    now = utc_now()
    said = UserMessage(content="Hello", message_id="u1", timestamp=now)
    asking = AssistantMessage(content="", message_id="a1", timestamp=now, tool_calls=calls)
    session = make_session(SESSION, "small:1b", now=now)
    sessions.keep_new(append_messages(session, said, asking, now=now))
    return [
        store.ask(
            session_id=SESSION, message_id="a1", call=call, call_index=index, turn_id="turn_1"
        )
        for index, call in enumerate(calls)
    ]


def run_input(thread_id, *messages, **fields):
    given = {"threadId": thread_id, "runId": "r", "messages": list(messages), **fields}
    return msgspec.convert(given, RunIn)


def resolved(question, **payload):
    name = question if isinstance(question, str) else question.confirmation_id
    return {"interruptId": name, "status": "resolved", "payload": payload}


def resuming(*answers, messages=()):
    return run_input(SESSION, *messages, resume=list(answers))


async def test_a_thread_that_nobody_knows_is_made_by_its_name(runs, turns):
    await runs.start(run_input("my-thread", HELLO, forwardedProps={"selectedTools": ["add"]}))
    [request] = turns.asked
    assert request.session_id == request.new.session_id == session_id_of("my-thread")
    metadata = request.new.metadata
    assert (metadata.client_id, metadata.model) == ("my-thread", "small:1b")
    assert metadata.tool_settings.tools == ("add",)
    assert (request.turn.detached, request.turn.approvals) == (True, "suspend")


async def test_a_new_thread_gets_the_default_model(runs, turns, sessions):
    await runs.start(run_input("my-thread", HELLO))
    assert turns.asked[0].new.metadata.model == "small:1b"


async def test_another_model_is_the_threads_from_then_on(runs, turns, sessions):
    new = make_session(SESSION, "small:1b", now=utc_now())
    await asyncio.to_thread(sessions.keep_new, new)
    await runs.start(run_input(SESSION, HELLO, forwardedProps={"model": "large:70b"}))
    await runs.start(run_input(SESSION, HELLO, forwardedProps={"model": "small:1b"}))
    assert [request.turn.settings for request in turns.asked] == [{"model": "large:70b"}, {}]


async def test_a_thread_that_another_request_made_meanwhile_is_looked_at_again(runs, turns):
    turns.taken = 1
    await runs.start(run_input("my-thread", HELLO))
    assert len(turns.asked) == 1


CUT_SHORT = {"id": "a0", "role": "assistant", "content": "Hel"}
MORE = {"id": "u2", "role": "user", "content": "And now?"}


async def test_what_a_client_has_of_a_running_turn_makes_no_difference(runs, turns, sessions):
    new = make_session(SESSION, "small:1b", now=utc_now())
    turn_id = "0" * 20
    said = UserMessage(content="Hello", message_id="u1", timestamp=utc_now(), turn_id=turn_id)
    asking = AssistantMessage(
        content="", message_id="a1", timestamp=utc_now(), tool_calls=(CALL,), turn_id=turn_id
    )
    await asyncio.to_thread(sessions.keep_new, append_messages(new, said, asking, now=utc_now()))
    turns.running = [SimpleNamespace(turn_id=turn_id)]
    await runs.start(run_input(SESSION, HELLO, CUT_SHORT, MORE))
    assert [each.message_id for each in turns.asked[0].turn.messages] == ["u2"]
    with pytest.raises(ChatDiffers):  # it runs no more
        await runs.start(run_input(SESSION, HELLO, CUT_SHORT, MORE))
    assert len(turns.asked) == 1


async def test_a_run_that_comes_when_a_turn_ends_finds_its_answer(runs, turns, sessions):
    new = make_session(SESSION, "small:1b", now=utc_now())
    said = UserMessage(content="Hello", message_id="u1", timestamp=utc_now())
    await asyncio.to_thread(sessions.keep_new, append_messages(new, said, now=utc_now()))

    def save_answer():
        answer = AssistantMessage(content="Hello!", message_id="a0", timestamp=utc_now())
        sessions.repository.update(
            SESSION, lambda session: append_messages(session, answer, now=utc_now())
        )

    turns.ends = save_answer
    await runs.start(run_input(SESSION, HELLO, CUT_SHORT, MORE))
    assert [each.message_id for each in turns.asked[0].turn.messages] == ["u2"]


async def test_a_question_that_is_too_old_can_be_cancelled(runs, turns, asked, clock):
    clock.move(TIMEOUT + 1)
    cancelled = {"interruptId": asked.confirmation_id, "status": "cancelled"}
    await runs.start(resuming(cancelled))
    assert len(turns.asked) == 1


async def test_all_questions_are_answered_at_once(runs, sessions, store):
    first, second = await asyncio.to_thread(waiting, sessions, store, CALL, OTHER)
    with pytest.raises(ValidationFailed, match=second.confirmation_id):
        await runs.start(resuming(resolved(first, approved=True)))
    with pytest.raises(ValidationFailed, match=first.confirmation_id):
        await runs.start(run_input(SESSION, {**HELLO, "id": "u2"}))
    assert store.decision(SESSION, first.confirmation_id) is None


async def test_who_lets_a_call_run_says_nothing_else(runs, asked, store):
    more = {**HELLO, "id": "u2"}
    with pytest.raises(ValidationFailed) as refused:
        await runs.start(resuming(resolved(asked, approved=True), messages=[more]))
    assert refused.value.details["field"] == "resume"
    assert store.decision(SESSION, asked.confirmation_id) is None


@pytest.mark.parametrize("arguments", ["x", 5, ["x"]])
async def test_edited_arguments_are_an_object(runs, asked, arguments):
    with pytest.raises(ValidationFailed):
        await runs.start(resuming(resolved(asked, approved=True, editedArgs=arguments)))


class Watched(tuple):
    """Messages that count how many of them are looked at in the thread that made them."""

    __slots__ = ()
    looks = 0
    own = 0

    def _look(self, count):
        if threading.get_ident() == Watched.own:
            Watched.looks += count

    def __iter__(self):
        self._look(len(self))
        return super().__iter__()

    def __reversed__(self):
        return (self[place] for place in range(len(self) - 1, -1, -1))

    def __getitem__(self, place):
        self._look(len(range(*place.indices(len(self)))) if isinstance(place, slice) else 1)
        return super().__getitem__(place)


@pytest.mark.parametrize(
    ("answered", "messages", "said"),
    [(False, (), 0), (True, ({**HELLO, "id": "u2"},), 3001)],
)
async def test_a_long_history_is_not_gone_through_on_the_event_loop(
    runs, turns, sessions, store, answered, messages, said
):
    mine = msgspec.structs.replace(CALL, client_side=True)
    calls = [msgspec.structs.replace(mine, id=f"c{number}") for number in range(3000)]
    [question, *_] = await asyncio.to_thread(waiting, sessions, store, CALL)
    if answered:
        denial = Decision(confirmation_id=question.confirmation_id, approved=False)
        await asyncio.to_thread(store.decide, SESSION, denial)
    session = await asyncio.to_thread(sessions.get, SESSION)
    asking = msgspec.structs.replace(session.messages[1], tool_calls=tuple(calls))
    history = Watched((*[session.messages[0]] * 3000, asking))
    sessions.get = lambda _: msgspec.structs.replace(session, messages=history)
    Watched.own, Watched.looks = threading.get_ident(), 0
    answers = [] if answered else [resolved(question, approved=True)]
    await runs.start(run_input(SESSION, *messages, resume=answers))
    assert len(turns.asked[-1].turn.messages) == said
    assert Watched.looks < 1000
