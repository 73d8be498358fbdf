"""Several processes seal one turn, and each of them may die on the way."""

import itertools
import threading

import pytest

from chat.storage.journal import Fenced, line
from sessions_app.errors import SessionBusy
from tests.claims import hold_of
from tests.unit.chat.remote.wrecks import SAID, SESSION, TURN, Died, Wreck


@pytest.fixture
def steps() -> list[str]:
    """The steps of who seals a turn without being disturbed."""
    wreck, steps = Wreck().lose(), []
    sealer = wreck.process("sealer")
    sealer.at_each_step(steps.append)
    sealer.recovery.seal_all()
    wreck.check_sealed_once()
    return steps


def at(number, call):
    """Return what calls ``call`` at the step with that number."""
    numbers = itertools.count()
    return lambda _: call() if next(numbers) == number else None


def die():
    raise Died


def test_a_turn_is_taken_over_and_saved_before_its_journal_ends(steps):
    order = [step for step, _ in itertools.groupby(step for step in steps if " a " in step)]
    saved = order.index("have swapped a session")
    assert order.index("take a journal over") < order.index("read a journal") < saved
    assert order.index("write a line") > saved


def test_a_sealer_that_dies_at_any_step_leaves_nothing_twice(steps):
    for number in range(len(steps)):
        wreck = Wreck().lose()
        dying = wreck.process("dying")
        dying.at_each_step(at(number, die))
        with pytest.raises(Died):
            dying.recovery.seal_all()
        wreck.process("second").recovery.seal_all()
        wreck.check_sealed_once()


def test_sealers_that_all_die_leave_it_to_the_next_one(steps):
    for number in range(len(steps)):
        wreck = Wreck().lose()
        for name in ("first", "second", "third"):
            dying = wreck.process(name)
            dying.at_each_step(at(number, die))
            try:
                dying.recovery.seal_all()
            except Died:
                continue
        wreck.process("last").recovery.seal_all()
        wreck.check_sealed_once()


def test_three_others_may_seal_at_any_step_of_a_sealer(steps):
    for number in range(len(steps)):
        wreck = Wreck().lose()

        def others_seal(wreck=wreck):
            for name in ("second", "third", "fourth"):
                wreck.process(name).recovery.seal_all()

        first = wreck.process("first")
        first.at_each_step(at(number, others_seal))
        first.recovery.seal_all()
        wreck.check_sealed_once()


def test_four_seal_at_once_and_it_is_sealed_once():
    wreck = Wreck().lose()
    sealers = [wreck.process(f"sealer{number}") for number in range(4)]
    start = threading.Barrier(len(sealers))

    def seal(sealer):
        start.wait()
        sealer.recovery.seal_all()

    threads = [threading.Thread(target=seal, args=(sealer,)) for sealer in sealers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wreck.check_sealed_once()


def test_what_the_owner_says_before_it_is_fenced_is_saved_and_nothing_after_it():
    wreck = Wreck().lose()
    sealer = wreck.process("sealer")
    late = line(4, "content_delta", '{"content":"late"}')
    refused = []

    def owner_wakes(step):
        if step != "swap a session":
            return
        try:
            wreck.writer.append(late)
        except Fenced:
            refused.append(step)

    sealer.at_each_step(owner_wakes)
    sealer.recovery.seal_all()
    assert refused
    wreck.check_sealed_once()


def test_an_owner_that_wakes_can_not_save_what_others_sealed():
    wreck = Wreck().lose()
    wreck.process("sealer").recovery.seal_all()
    with pytest.raises(SessionBusy):
        wreck.owner.repository.update(
            SESSION,
            lambda session: session,
            hold=hold_of(wreck.owner.repository, TURN),
            release=True,
        )
    wreck.check_sealed_once()


def test_a_turn_that_said_nothing_is_let_go_of():
    wreck = Wreck().lose()
    wreck.process("sealer").recovery.seal_all()
    refused = "0199f3a2b4c60000abcd"
    wreck.owner.journal.open(SESSION, refused, owner=wreck.owner.owners.mine())
    wreck.lose()
    wreck.process("another").recovery.seal_all()
    wreck.check_sealed_once()


def test_a_claim_that_died_before_it_was_made_is_forgotten():
    wreck = Wreck().lose()
    wreck.process("sealer").recovery.seal_all()
    wreck.owner.at_each_step(lambda step: die() if step == "swap a session" else None)
    with pytest.raises(Died):
        wreck.owner.repository.claim(
            SESSION,
            "0199f3a2b4c60000abcd",
            owner=wreck.owner.owners.mine(),
            change=lambda session: (session, None),
        )
    wreck.owner.at_each_step(lambda _: None)
    wreck.lose()
    wreck.process("another").recovery.seal_all()
    wreck.check_sealed_once()


def test_the_older_of_two_turns_without_an_end_is_ended_too():
    """Its owner died before its last words, while the next turn ran."""
    wreck = Wreck().lose()
    later = "0199f3a2b4c60000abcd"
    writer = wreck.owner.journal.open(SESSION, later, owner=wreck.owner.owners.mine())
    writer.append(line(1, "turn_started", "{}") + line(2, "done", "{}"))
    writer.close()
    wreck.process("sealer").recovery.seal_all()
    wreck.check_sealed_once()


def test_nothing_is_read_while_every_owner_lives():
    wreck = Wreck()
    watcher = wreck.process("watcher")
    for _ in range(100):
        watcher.recovery.seal_all()
    assert watcher.repository.loads == 0


@pytest.mark.parametrize("asked", ["u1", "u2"])
def test_an_answer_whose_question_is_gone_is_set_aside_and_not_added(asked):
    """An older copy of the session may have been put in the place of its file."""
    begin = (
        f'{{"turn_id":"{TURN}","session_id":"{SESSION}","model":"m","user_message_id":"{asked}"}}'
    )
    wreck = Wreck([SAID[0], (1, "turn_started", begin), *SAID[2:]]).lose()
    sealer = wreck.process("sealer")
    sealer.recovery.seal_all()
    if asked == "u1":
        wreck.check_sealed_once()
        assert sealer.journal.broken() == []
        return
    finder = wreck.process("finder")
    assert [each.content for each in finder.repository.load(SESSION).messages] == ["Hello!"]
    assert set(sealer.journal.broken()) == {f"{SESSION}/{TURN}"}
    assert finder.journal.has_ended(SESSION, TURN)
    assert finder.repository.claims() == []


def test_the_journals_of_a_replaced_session_go_and_those_without_an_end_are_set_aside():
    ended, unended = Wreck(), Wreck()
    for wreck in (ended, unended):
        wreck.process("owner").recovery.forget(SESSION)
        assert wreck.owner.journal.turns(SESSION) == [TURN]  # it is being written
        wreck.lose()
    sealer = ended.process("sealer")
    sealer.recovery.seal_all()
    for wreck, broken in ((ended, []), (unended, [f"{SESSION}/{TURN}"])):
        finder = wreck.process("finder")
        finder.recovery.forget(SESSION)
        assert finder.journal.turns(SESSION) == []
        assert finder.journal.broken() == broken
