"""Records in Redis, and approvals over them: good once anywhere."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from chat.approvals.confirmation import Decision
from chat.approvals.store import CONFIRMATION_RECORDS, KINDS, ConfirmationStore
from chat.errors import ConfirmationAlreadyDecided, ConfirmationExpired
from cluster_app.redis.records import RedisRecords
from sessions_app.errors import StorageUnavailable
from tests.unit.chat.approvals.questions import CALL, MESSAGE, SESSION
from tests.unit.chat.approvals.questions import approve as answer

ASKED, DECIDED, USED = (f"{SESSION}/conf_{'0' * 32}.{kind}" for kind in KINDS)
SECONDS = 60


@pytest.fixture
def records(connection):
    return RedisRecords(connection, "conf", names=CONFIRMATION_RECORDS, seconds=SECONDS)


@pytest.fixture
def others(redis_connection):
    """Return the records as another process has them."""
    return RedisRecords(redis_connection, "conf", names=CONFIRMATION_RECORDS, seconds=SECONDS)


def test_every_record_that_is_put_gives_its_session_the_whole_time(records, connection):
    key = connection.key("conf", SESSION)
    for name in (ASKED, DECIDED, USED):
        connection.client.pexpire(key, 1000)
        records.put(name, b"{}", exists=None if name == ASKED else False)
        assert 1000 < connection.client.pttl(key) <= SECONDS * 1000


def test_one_who_is_too_late_does_not_prolong(records, others, connection):
    assert records.put(USED, b"1", exists=False)
    connection.client.pexpire(connection.key("conf", SESSION), 1000)
    assert not others.put(USED, b"1", exists=False)
    assert connection.client.pttl(connection.key("conf", SESSION)) <= 1000


def test_fields_of_others_are_no_records(records, connection):
    key = connection.key("conf", SESSION)
    connection.client.hset(key, mapping={"conf_0.colour": b"blue", "asked": b"x", b"\xff": b"x"})
    assert records.names(SESSION) == []
    assert records.read("../x/conf_0.asked") is None
    assert records.names("../x") == []


def test_a_record_whose_answer_got_lost_does_not_stand(records, others, connection):
    connection.lost = ["HSETNX"]
    with pytest.raises(StorageUnavailable):
        records.put(DECIDED, b"yes", exists=False)
    assert others.put(DECIDED, b"no", exists=False)


def test_what_another_one_put_is_never_taken_back(records, others, connection):
    assert others.put(DECIDED, b"no", exists=False)
    connection.lost = ["HSETNX"]
    with pytest.raises(StorageUnavailable):
        records.put(DECIDED, b"no", exists=False)
    assert others.read(DECIDED) == b"no"


@pytest.fixture
def nodes(redis_connection):
    """Return the approvals as two machines have them."""
    return [
        ConfirmationStore(
            RedisRecords(redis_connection, "conf", names=CONFIRMATION_RECORDS, seconds=SECONDS),
            timeout_seconds=SECONDS,
            now=redis_connection.now,
        )
        for _ in range(2)
    ]


def ask(store, turn_id="turn_1"):
    return store.ask(
        session_id=SESSION, message_id=MESSAGE, call=CALL, call_index=0, turn_id=turn_id
    )


def test_an_approval_is_given_once_and_used_once_wherever_it_is_tried(nodes):
    question = ask(nodes[0])
    assert nodes[1].pending(SESSION) == [question]

    def approve(number):
        try:
            nodes[number % 2].decide(
                SESSION, Decision(confirmation_id=question.confirmation_id, approved=True)
            )
        except ConfirmationAlreadyDecided:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(approve, range(16))) == 1
        used = pool.map(
            lambda number: nodes[number % 2].consume(SESSION, question.confirmation_id), range(16)
        )
        assert sum(used) == 1


def test_a_question_asked_on_one_machine_is_asked_again_under_its_id_by_another(nodes):
    question = ask(nodes[0])
    assert ask(nodes[1], "turn_2").confirmation_id == question.confirmation_id
    assert [asked.turn_id for asked in nodes[0].pending(SESSION)] == ["turn_2"]


def test_a_question_is_open_for_other_machines_at_once(nodes):
    question = ask(nodes[0])
    assert nodes[1].pending(SESSION) == [question]
    answer(nodes[1], question)
    assert nodes[0].find_decided(SESSION, MESSAGE, CALL).approved


def test_the_time_of_redis_closes_a_question(records):
    now = [datetime(2026, 11, 21, 10, 0, tzinfo=UTC)]
    store = ConfirmationStore(records, timeout_seconds=SECONDS, now=lambda: now[0])
    question = ask(store)
    now[0] = now[0].replace(minute=1)
    assert store.pending(SESSION) == []
    with pytest.raises(ConfirmationExpired):
        answer(store, question)
