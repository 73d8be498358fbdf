"""Another process goes on with a journal, whatever it is kept in; and only one does."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from chat.storage.journal import Fenced, JournalWriter, TurnJournal, line
from tests.contract.journal_process import JournalProcess
from tests.contract.test_turn_journal import DONE, SESSION, TURN, delta, read, write


def test_another_process_goes_on_with_a_dead_writers_journal(
    journal: TurnJournal, elsewhere: JournalProcess
) -> None:
    elsewhere.write(1, "a")
    elsewhere.write("torn", '{"n":2,"eve')
    elsewhere.end(by_kill=True)
    writer = journal.reopen(SESSION, TURN, owner="me")
    assert journal.is_being_written(SESSION, TURN)
    writer.append(line(2, *delta("b")) + line(3, *DONE))
    writer.close()
    assert [entry[:2] for entry in read(journal)][-2:] == [(2, "content_delta"), (3, "done")]
    assert journal.has_ended(SESSION, TURN)


def test_nobody_goes_on_with_a_journal_that_is_being_written(journal: TurnJournal) -> None:
    owner = journal.open(SESSION, TURN, owner="me")
    with pytest.raises(Fenced):
        journal.reopen(SESSION, TURN, owner="me")
    owner.append(line(1, *delta("a")))
    assert read(journal) == [(1, *delta("a"))]
    owner.close()


def test_of_many_that_go_on_with_a_journal_one_does(journal: TurnJournal) -> None:
    write(journal, delta("a"))

    def reopen(_: int) -> JournalWriter | None:
        try:
            return journal.reopen(SESSION, TURN, owner="me")
        except Fenced:
            return None

    with ThreadPoolExecutor(8) as pool:
        [writer] = filter(None, pool.map(reopen, range(8)))
    writer.append(line(2, *DONE))
    writer.close()
    assert [entry[0] for entry in read(journal)] == [1, 2]


@pytest.mark.parametrize("place", ["redis"], indirect=True)
def test_a_journal_that_its_last_owner_takes_again_meanwhile_is_not_taken(
    journal: TurnJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(journal, delta("a"))
    rivals: list[JournalWriter] = []
    look = journal.is_being_written

    def look_and_lose(session_id: str, turn_id: str) -> bool:
        is_written = look(session_id, turn_id)
        if not rivals:
            monkeypatch.setattr(journal, "is_being_written", look)
            rivals.append(journal.reopen(session_id, turn_id, owner="me"))
        return is_written

    monkeypatch.setattr(journal, "is_being_written", look_and_lose)
    with pytest.raises(Fenced):
        journal.reopen(SESSION, TURN, owner="me")
    rivals[0].append(line(2, *DONE))
    rivals[0].close()
    assert [entry[0] for entry in read(journal)] == [1, 2]


def test_a_journal_that_is_gone_can_not_be_gone_on_with(journal: TurnJournal) -> None:
    with pytest.raises(FileNotFoundError):
        journal.reopen(SESSION, TURN, owner="me")
    assert journal.turns(SESSION) == []


@pytest.mark.parametrize("place", ["memory", "redis"], indirect=True)
def test_who_wakes_after_its_journal_was_reopened_can_not_write(journal: TurnJournal) -> None:
    frozen = journal.open(SESSION, TURN, owner="me")
    frozen.append(line(1, *delta("a")))
    frozen.close()  # which marks it as left, as a condemned owner is
    writer = journal.reopen(SESSION, TURN, owner="me")
    with pytest.raises(Fenced):
        frozen.append(line(2, *delta("late")))
    writer.append(line(2, *delta("b")))
    writer.close()
    assert [entry[2] for entry in read(journal)] == ['{"content":"a"}', '{"content":"b"}']
