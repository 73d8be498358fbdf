"""Questions of servers for values and to open addresses, in the store of approvals."""

import json

import pytest

from chat.approvals.confirmation import Decision, Retry
from chat.approvals.store import ConfirmationStore
from chat.errors import ConfirmationAlreadyDecided, ConfirmationExpired
from sessions_app.errors import ValidationFailed
from sessions_app.messages import ToolCall
from tests.unit.chat.approvals.questions import CALL, MESSAGE, SESSION, Clock, approve, records_in

SECRET = "planted-secret-4711"
SCHEMA = {
    "type": "object",
    "properties": {"size": {"type": "string", "default": "m"}, "note": {"type": "string"}},
    "required": [],
}
STATE = 'state "\\ \u2028 é'
ORDER = ToolCall(id="call_2", name="shop__order", arguments={})


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(tmp_path, clock):
    return ConfirmationStore(records_in(tmp_path), timeout_seconds=300, now=clock)


def ask(store, **about):
    given = {
        "kind": "input",
        "server": "shop",
        "message": "Which size?",
        "schema": SCHEMA,
        "retry": Retry(key="size", request_state=STATE, round=1, arguments={}),
    }
    return store.ask(
        session_id=SESSION,
        message_id=MESSAGE,
        call=ORDER,
        call_index=0,
        turn_id="turn_1",
        **given | about,
    )


def texts_in(directory):
    return "".join(file.read_text() for file in directory.rglob("*") if file.is_file())


def test_records_of_servers_questions_are_refused_by_older_servers(tmp_path, store):
    approve(store, ask(store), content={"size": "l"})

    versions = {json.loads(file.read_text())["version"] for file in tmp_path.rglob("conf_*")}
    assert versions == {2}


def test_records_about_calls_are_read_by_older_servers(tmp_path, store):
    question = store.ask(
        session_id=SESSION, message_id=MESSAGE, call=CALL, call_index=0, turn_id="turn_1"
    )
    approve(store, question)
    store.consume(SESSION, question.confirmation_id)

    versions = {json.loads(file.read_text())["version"] for file in tmp_path.rglob("conf_*")}
    assert versions == {1}


def test_what_was_filled_in_is_kept_with_defaults_until_it_is_taken(tmp_path, store):
    question = ask(store)
    approve(store, question, content={"note": SECRET})
    assert SECRET in texts_in(tmp_path)

    taken = store.take(question)

    assert taken.content == {"size": "m", "note": SECRET}
    assert SECRET not in texts_in(tmp_path)
    assert store.take(question) is None


def test_withdrawn_questions_keep_nothing_of_their_answers(tmp_path, store):
    approve(store, ask(store), content={"note": SECRET})

    store.withdraw_all(SESSION)

    assert SECRET not in texts_in(tmp_path)


def test_the_first_answer_stands(store):
    question = ask(store)
    approve(store, question, content={"note": SECRET})

    with pytest.raises(ConfirmationAlreadyDecided):
        store.decide(SESSION, Decision(confirmation_id=question.confirmation_id, approved=False))
    assert store.take(question).approved


def test_values_that_do_not_fit_leave_the_question_open(store):
    question = ask(store)
    with pytest.raises(ValidationFailed, match="stays open"):
        approve(store, question, content={"size": 5})

    assert store.pending(SESSION) == [question]


@pytest.mark.parametrize(
    ("about", "answer"),
    [
        ({}, {"arguments": {"size": "l"}}),
        ({"kind": "url", "schema": None, "url": "https://x.example/"}, {"content": {}}),
    ],
)
def test_questions_take_no_other_answers(store, about, answer):
    question = ask(store, **about)
    with pytest.raises(ValidationFailed):
        approve(store, question, **answer)

    assert store.pending(SESSION) == [question]


def test_an_approval_of_a_call_takes_no_content(store):
    question = store.ask(
        session_id=SESSION, message_id=MESSAGE, call=CALL, call_index=0, turn_id="turn_1"
    )
    with pytest.raises(ValidationFailed):
        approve(store, question, content={"size": "l"})


def test_an_answer_can_be_repeated_but_not_changed(store):
    question = ask(store)
    approve(store, question, content={"size": "l"})

    approve(store, question, content={"size": "l"}, repeatable=True)
    with pytest.raises(ConfirmationAlreadyDecided):
        approve(store, question, content={"size": "s"}, repeatable=True)
    with pytest.raises(ConfirmationAlreadyDecided):
        approve(store, question, content={"size": "l"})


def test_late_answers_are_refused_and_keep_nothing(tmp_path, store, clock):
    question = ask(store)
    clock.move(301)
    with pytest.raises(ConfirmationExpired):
        approve(store, question, content={"note": SECRET})

    assert SECRET not in texts_in(tmp_path)
    assert store.take(question).reason == "timeout"


def test_the_servers_state_is_kept_byte_for_byte(store):
    ask(store)

    (again,) = store.left_open(SESSION, MESSAGE)

    assert again.retry == Retry(key="size", request_state=STATE, round=1, arguments={})


def test_two_equal_questions_are_two_questions(store):
    assert ask(store, retry=None) != ask(store, retry=None)


def test_questions_of_calls_that_are_still_open_are_not_left_open(store):
    ask(store, retry=None)
    taken = ask(store)
    store.take(taken)

    assert store.left_open(SESSION, MESSAGE) == []


def test_a_question_is_asked_again_under_its_id(store, clock):
    question = ask(store)
    clock.move(200)

    again = store.renew(question, "turn_2")

    clock.move(200)
    assert again.confirmation_id == question.confirmation_id
    assert store.pending(SESSION) == [again]


def test_an_answer_to_a_server_approves_no_call(store):
    approve(store, ask(store), content={})

    assert store.find_decided(SESSION, MESSAGE, ORDER) is None


def test_names_like_secrets_are_told(store):
    schema = {"type": "object", "properties": {"password": {"type": "string"}}, "required": []}

    assert ask(store, schema=schema).secret_names == ["password"]
