"""Let processes die before each of their calls to the system, and look at what they leave.

``python dying.py DIRECTORY OPERATION`` prints how often one died. A program of its own, for it
forks: that is safe only where no other thread runs.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

from chat.approvals.confirmation import Decision
from chat.approvals.store import CONFIRMATION_RECORDS, ConfirmationStore
from chat.errors import ConfirmationError
from sessions_app.messages import ToolCall
from sessions_app.store.file_records import FileRecords

SESSION, MESSAGE = "a1b2c3d4e5", "f1e2d3c4b5"
CALL = ToolCall(id="call_1", name="delete_file", arguments={"path": "/tmp/x"})
CALLS_TO_THE_SYSTEM = (
    *("open", "write", "fsync", "link", "replace", "unlink", "rmdir", "mkdir", "scandir"),
)
DIED, ENDED = 9, 0


def ask(store, turn_id):
    return store.ask(
        session_id=SESSION, message_id=MESSAGE, call=CALL, call_index=0, turn_id=turn_id
    )


def approve(store, question):
    return store.decide(SESSION, Decision(confirmation_id=question.confirmation_id, approved=True))


class Scene:
    """One store, and one question in it; what tools do is written down."""

    def __init__(self, directory):
        self.directory = directory
        self.store = ConfirmationStore(
            FileRecords(directory / "store", names=CONFIRMATION_RECORDS),
            timeout_seconds=300,
        )
        self.runs = directory / "runs"
        directory.mkdir()
        self.runs.touch()
        self.question = ask(self.store, "turn_1")

    def run(self):
        if self.store.consume(SESSION, self.question.confirmation_id):
            descriptor = os.open(self.runs, os.O_WRONLY | os.O_APPEND)
            os.write(descriptor, b"ran\n")

    def sweep(self):
        for path in self.directory.rglob("*"):
            os.utime(path, (0, 0))
        self.store.sweep(0)

    @property
    def run_count(self):
        return self.runs.read_text().count("ran")


def before_asking(scene):
    scene.store.discard_session(SESSION)


def before_running(scene):
    approve(scene.store, scene.question)


def before_sweeping(scene):
    approve(scene.store, scene.question)
    scene.run()


def afterwards_it_can_be_asked_and_answered(scene):
    assert len(scene.store.pending(SESSION)) <= 1
    question = ask(scene.store, "turn_3")
    assert scene.store.pending(SESSION) == [question]
    woken, decision = approve(scene.store, question)
    assert woken.turn_id == "turn_3"
    assert decision.approved
    assert scene.store.consume(SESSION, question.confirmation_id)


def afterwards_the_question_is_still_the_same(scene):
    [question] = scene.store.pending(SESSION)
    assert question.confirmation_id == scene.question.confirmation_id
    afterwards_it_can_be_asked_and_answered(scene)


def afterwards_one_answer_stands(scene):
    decision = scene.store.decision_of(scene.question)
    assert (decision is None) == bool(scene.store.pending(SESSION))
    assert scene.store.expire(scene.question).approved is (decision is not None)
    scene.run()
    scene.run()
    assert scene.run_count == (decision is not None)


def afterwards_it_runs_once_at_most(scene):
    usable = scene.store.find_decided(SESSION, MESSAGE, CALL) is not None
    assert scene.run_count + usable <= 1
    scene.run()
    scene.run()
    assert scene.run_count <= 1
    assert scene.store.find_decided(SESSION, MESSAGE, CALL) is None


def afterwards_it_never_runs_again(scene):
    assert scene.store.pending(SESSION) == []
    assert scene.store.find_decided(SESSION, MESSAGE, CALL) is None
    with suppress(ConfirmationError):
        approve(scene.store, scene.question)
        raise AssertionError
    scene.run()
    assert scene.run_count == 1


def afterwards_it_is_withdrawn_or_still_open(scene):
    if not scene.store.pending(SESSION):
        with suppress(ConfirmationError):
            approve(scene.store, scene.question)
            raise AssertionError
    scene.store.withdraw([scene.question])
    assert scene.store.pending(SESSION) == []
    scene.run()
    assert scene.run_count == 0


OPERATIONS = {
    "ask": (
        before_asking,
        lambda scene: ask(scene.store, "turn_2"),
        afterwards_it_can_be_asked_and_answered,
    ),
    "ask_again": (
        lambda scene: None,
        lambda scene: ask(scene.store, "turn_2"),
        afterwards_the_question_is_still_the_same,
    ),
    "approve": (
        lambda scene: None,
        lambda scene: approve(scene.store, scene.question),
        afterwards_one_answer_stands,
    ),
    "run": (before_running, Scene.run, afterwards_it_runs_once_at_most),
    "withdraw": (
        lambda scene: None,
        lambda scene: scene.store.withdraw([scene.question]),
        afterwards_it_is_withdrawn_or_still_open,
    ),
    "sweep": (before_sweeping, Scene.sweep, afterwards_it_never_runs_again),
}


def make_mortal(calls_to_live):
    """Let this process die before it has made one more call than these."""
    left = calls_to_live

    def mortal(function):
        def call(*arguments, **options):
            nonlocal left
            left -= 1
            if left < 0:
                os._exit(DIED)
            return function(*arguments, **options)

        return call

    for name in CALLS_TO_THE_SYSTEM:
        setattr(os, name, mortal(getattr(os, name)))


def dies(operation, scene, calls_to_live):
    """Perform the operation in a process that makes so many calls; whether it died."""
    child = os.fork()
    if child == 0:
        make_mortal(calls_to_live)
        operation(scene)
        os._exit(ENDED)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in {DIED, ENDED}, code
    return code == DIED


def main(directory, name):
    before, operation, check = OPERATIONS[name]
    deaths, died = 0, True
    while died:
        scene = Scene(Path(directory) / str(deaths))
        before(scene)
        died = dies(operation, scene, deaths)
        check(scene)
        deaths += died
    sys.stdout.write(f"{deaths}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
