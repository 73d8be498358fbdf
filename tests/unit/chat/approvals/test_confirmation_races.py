"""Everybody answers at once, and everybody dies half-way: still one answer stands, for one run."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from chat.approvals.confirmation import Decision
from chat.approvals.store import CONFIRMATION_RECORDS, ConfirmationStore
from chat.errors import ConfirmationAlreadyDecided, ConfirmationExpired, ConfirmationNotFound
from sessions_app.messages import ToolCall
from sessions_app.store.file_records import FileRecords

SESSION, MESSAGE = "a1b2c3d4e5", "f1e2d3c4b5"
CALL = ToolCall(id="call_1", name="delete_file", arguments={"path": "/tmp/x"})


@pytest.fixture
def records(tmp_path):
    return FileRecords(tmp_path, names=CONFIRMATION_RECORDS)


@pytest.fixture
def store(records):
    return ConfirmationStore(records, timeout_seconds=300)


@pytest.fixture
def ask(store):
    def asking(call=CALL, turn_id="turn_1"):
        return store.ask(
            session_id=SESSION, message_id=MESSAGE, call=call, call_index=0, turn_id=turn_id
        )

    return asking


def approve(store, question):
    return store.decide(SESSION, Decision(confirmation_id=question.confirmation_id, approved=True))


def test_of_many_threads_that_answer_at_once_one_succeeds_and_a_denial_replaces_a_yes(ask, store):
    question = ask()

    def answer(number):
        try:
            return store.decide(
                SESSION,
                Decision(
                    confirmation_id=question.confirmation_id,
                    approved=number % 2 == 0,
                    arguments={"number": number},
                ),
            )[1]
        except ConfirmationAlreadyDecided:
            return None

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(answer, range(50)))
    given = [answer for answer in answers if answer is not None]
    standing = store.decision_of(question)
    assert standing in given
    assert [answer.approved for answer in given if answer != standing] in ([], [True])
    assert store.consume(SESSION, question.confirmation_id) is standing.approved


ANSWERER = """
import sys
from pathlib import Path
from chat.approvals.confirmation import Decision
from chat.approvals.store import CONFIRMATION_RECORDS, ConfirmationStore
from sessions_app.store.file_records import FileRecords
from chat.errors import ConfirmationAlreadyDecided

directory, session_id, *questions = sys.argv[1:]
records = FileRecords(Path(directory), names=CONFIRMATION_RECORDS)
store = ConfirmationStore(records, timeout_seconds=300)
print("ready", flush=True)
sys.stdin.readline()
for question in questions:
    try:
        store.decide(session_id, Decision(confirmation_id=question, approved=True))
        store.consume(session_id, question) and print(question)
    except ConfirmationAlreadyDecided:
        pass
"""


def test_of_many_processes_that_answer_at_once_exactly_one_succeeds(ask, tmp_path):
    calls = [ToolCall(id=f"call_{n}", name="t", arguments={}) for n in range(20)]
    ids = [ask(call).confirmation_id for call in calls]
    command = [sys.executable, "-c", ANSWERER, str(tmp_path), SESSION, *ids]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with ExitStack() as stack:
        processes = [stack.enter_context(subprocess.Popen(command, **pipes)) for _ in range(8)]
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        won = [line for process in processes for line in process.communicate(timeout=30)[0].split()]
    assert [process.returncode for process in processes] == [0] * 8
    assert sorted(won) == sorted(ids)


@pytest.mark.parametrize("kind", ["expire", "withdraw"])
def test_of_an_approval_and_a_no_at_the_same_moment_one_stands_for_everybody(store, ask, kind):
    seen = set()
    for number in range(40):
        question = ask(ToolCall(id=f"call_{number}", name="t", arguments={}))

        def say_yes(question=question):
            try:
                return approve(store, question)[1].reason
            except (ConfirmationExpired, ConfirmationNotFound):
                return "too late"

        def say_no(question=question):
            if kind == "expire":
                return store.expire(question).reason
            return store.withdraw([question])

        with ThreadPoolExecutor(2) as pool:
            no_first = number % 2
            jobs = [
                pool.submit(each) for each in ((say_no, say_yes) if no_first else (say_yes, say_no))
            ]
            yes, no = [job.result() for job in (reversed(jobs) if no_first else jobs)]
        standing = store.decision_of(question)
        assert standing.approved == (yes == "approved")
        if kind == "expire":
            assert no == standing.reason
        else:
            assert not store.consume(SESSION, question.confirmation_id)
        seen.add(yes)
    assert seen <= {"approved", "too late"}


def test_of_many_who_use_an_approval_at_once_exactly_one_may(ask, store):
    question = ask()
    approve(store, question)
    with ThreadPoolExecutor(30) as pool:
        allowed = list(
            pool.map(lambda _: store.consume(SESSION, question.confirmation_id), range(30))
        )
    assert sum(allowed) == 1


def test_somebody_who_answers_while_the_turn_asks_again_wakes_it_or_is_seen(ask, store):
    for number in range(30):
        call = ToolCall(id=f"call_{number}", name="t", arguments={})
        first = ask(call)
        with ThreadPoolExecutor(2) as pool:
            asking = pool.submit(
                lambda call=call: (
                    again := ask(call, turn_id="turn_2"),
                    store.decision_of(again),
                )
            )
            woken, _ = approve(store, first)
            again, seen = asking.result()
        if again.confirmation_id == first.confirmation_id:
            assert seen is not None or woken.turn_id == "turn_2"
        else:  # it was answered before the turn asked again; ``find_decided`` comes first there
            assert store.find_decided(SESSION, MESSAGE, call).approved


def test_an_answer_wakes_the_turn_that_asked_again_just_before_it(store, records, ask, monkeypatch):
    question = ask()
    put = records.put

    def put_a_moment_later(*record, **how):
        monkeypatch.setattr(records, "put", put)
        ask(turn_id="turn_2")
        return put(*record, **how)

    monkeypatch.setattr(records, "put", put_a_moment_later)
    woken, _ = approve(store, question)
    assert woken.turn_id == "turn_2"


@pytest.mark.parametrize("operation", ["ask", "ask_again", "approve", "run", "withdraw", "sweep"])
def test_a_process_may_die_before_any_of_its_calls_to_the_system(tmp_path, operation):
    program = Path(__file__).with_name("dying.py")
    root = Path(__file__).parents[4]
    ended = subprocess.run(
        [sys.executable, str(program), str(tmp_path), operation],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(root)},
    )
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 4
