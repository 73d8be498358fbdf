"""What every journal does, whatever it is kept in."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from chat.storage.journal import (
    PASSAGE_BYTES,
    Fenced,
    JournalSlice,
    JournalWriter,
    OwnerExpired,
    TurnJournal,
    line,
    whole_journal,
)
from tests.contract.journal_process import JournalProcess
from tests.contract.memory_journal import MemoryJournal

SESSION, OTHER_SESSION = "a1b2c3d4e5", "0123456789"
TURN, LATER_TURN = "0199f3a2b4c50000abcd", "0199f3a2b4c60000abcd"
DONE = ("done", '{"session_id":"a1b2c3d4e5"}')
OLD = -1.0  # everything is older than that


def write(
    journal: TurnJournal, *events: tuple[str, str], turn_id: str = TURN, **where: str
) -> None:
    writer = journal.open(where.get("session_id", SESSION), turn_id, owner="me")
    for number, (name, data) in enumerate(events, 1):
        writer.append(line(number, name, data))
    writer.close()


def read(
    journal: TurnJournal, position: int = 0, turn_id: str = TURN
) -> list[tuple[int, str, str]]:
    entries = journal.read(SESSION, turn_id, position).entries
    return [(entry.n, entry.event, bytes(entry.data).decode()) for entry in entries]


def delta(text: str) -> tuple[str, str]:
    return "content_delta", f'{{"content":"{text}"}}'


def test_events_come_back_in_order_byte_for_byte(journal: TurnJournal) -> None:
    write(journal, delta("\\u00e9 \\\\ \\n"), delta("b"), DONE)
    assert read(journal) == [
        (1, *delta("\\u00e9 \\\\ \\n")),
        (2, *delta("b")),
        (3, *DONE),
    ]


def test_notes_are_kept_but_not_counted(journal: TurnJournal) -> None:
    writer = journal.open(SESSION, TURN, owner="me")
    writer.append(line(0, "round", '{"message_id":"m"}'))
    writer.append(line(1, *delta("a")) + line(0, "round", "{}") + line(2, *delta("b")))
    writer.close()
    assert [entry[0] for entry in read(journal)] == [0, 1, 0, 2]


def test_reading_goes_on_from_a_position(journal: TurnJournal) -> None:
    writer = journal.open(SESSION, TURN, owner="me")
    writer.append(line(1, *delta("a")))
    first = journal.read(SESSION, TURN)
    assert journal.read(SESSION, TURN, first.position).entries == []
    writer.append(line(2, *delta("b")))
    second = journal.read(SESSION, TURN, first.position)
    assert [entry.n for entry in second.entries] == [2]
    assert second.position > first.position
    assert journal.read(SESSION, TURN, second.position).position == second.position
    writer.close()


def test_several_readers_do_not_disturb_each_other(journal: TurnJournal) -> None:
    write(journal, *[delta(str(number)) for number in range(10)])
    positions = [0, 0, 0]
    seen: list[list[int]] = [[], [], []]
    for reader in (0, 1, 0, 2, 1, 2):
        passage = journal.read(SESSION, TURN, positions[reader])
        positions[reader] = passage.position
        seen[reader] += [entry.n for entry in passage.entries]
    assert seen == [list(range(1, 11))] * 3


def test_a_turn_can_not_have_two_journals(journal: TurnJournal) -> None:
    write(journal, delta("first"))
    with pytest.raises(FileExistsError):
        journal.open(SESSION, TURN, owner="me")
    assert read(journal) == [(1, *delta("first"))]


def test_what_does_not_exist_is_empty(journal: TurnJournal) -> None:
    assert journal.turns(SESSION) == []
    assert read(journal) == []
    assert not journal.has_ended(SESSION, TURN)
    assert not journal.is_being_written(SESSION, TURN)
    assert journal.unended_sessions() == []
    journal.discard(SESSION, TURN)
    journal.discard_session(SESSION)
    assert journal.sweep(OLD) == 0


def test_another_process_is_read_while_it_writes(
    journal: TurnJournal, elsewhere: JournalProcess
) -> None:
    for number in range(1, 20):
        elsewhere.write(number, "x" * number)
        assert read(journal)[-1] == (number, *delta("x" * number))


def test_a_torn_last_line_is_not_there_yet(journal: TurnJournal, elsewhere: JournalProcess) -> None:
    elsewhere.write(1, "whole")
    elsewhere.write("torn", '{"n":2,"event":"content_delta","data":{"conte')
    passage = journal.read(SESSION, TURN)
    assert [entry.n for entry in passage.entries] == [1]
    assert journal.read(SESSION, TURN, passage.position).entries == []
    assert not journal.has_ended(SESSION, TURN)


def test_whether_somebody_writes_is_known_until_its_process_dies(
    journal: TurnJournal, elsewhere: JournalProcess
) -> None:
    elsewhere.write(1, "a")
    assert journal.is_being_written(SESSION, TURN)
    elsewhere.end(by_kill=True)
    assert not journal.is_being_written(SESSION, TURN)
    assert journal.unended_sessions() == [SESSION]


def test_closing_a_writer_lets_go_of_its_journal(journal: TurnJournal) -> None:
    writer = journal.open(SESSION, TURN, owner="me")
    assert journal.is_being_written(SESSION, TURN)
    assert journal.unended_sessions() == []
    writer.close()
    writer.close()
    assert not journal.is_being_written(SESSION, TURN)
    assert journal.unended_sessions() == [SESSION]


def test_after_a_dead_writer_its_torn_line_is_cut_off(
    journal: TurnJournal, elsewhere: JournalProcess
) -> None:
    elsewhere.write(1, "whole")
    elsewhere.write("torn", '{"n":2,"event":"content_delta","data":{"conte')
    elsewhere.end(by_kill=True)
    writer = journal.take_over(SESSION, TURN)
    writer.append(line(2, "error", "{}") + line(3, *DONE))
    writer.close()
    assert [entry[:2] for entry in read(journal)] == [
        (1, "content_delta"),
        (2, "error"),
        (3, "done"),
    ]
    assert journal.has_ended(SESSION, TURN)


def test_only_done_ends_a_journal(journal: TurnJournal) -> None:
    writer = journal.open(SESSION, TURN, owner="me")
    writer.append(line(1, *delta('\\"event\\":\\"done\\"')))
    assert not journal.has_ended(SESSION, TURN)
    # The arguments of a tool are whatever a model says.
    writer.append(line(2, "tool_call", '{"arguments":{"n":3,"event":"done","data":{}}}'))
    assert not journal.has_ended(SESSION, TURN)
    writer.append(line(3, "message_complete", '{"content":"' + "x" * 10_000 + '"}'))
    assert not journal.has_ended(SESSION, TURN)
    writer.append(line(4, *DONE))
    writer.close()
    assert journal.has_ended(SESSION, TURN)
    assert journal.unended_sessions() == []


def test_turns_are_listed_oldest_first(journal: TurnJournal) -> None:
    write(journal, DONE, turn_id=LATER_TURN)
    write(journal, DONE)
    write(journal, DONE, session_id=OTHER_SESSION)
    assert journal.turns(SESSION) == [TURN, LATER_TURN]


def test_one_turn_or_a_whole_session_is_forgotten(journal: TurnJournal) -> None:
    for turn_id in (TURN, LATER_TURN):
        write(journal, DONE, turn_id=turn_id)
    write(journal, delta("other"), session_id=OTHER_SESSION)
    journal.discard(SESSION, TURN)
    assert journal.turns(SESSION) == [LATER_TURN]
    journal.discard_session(SESSION)
    assert journal.turns(SESSION) == []
    assert journal.unended_sessions() == [OTHER_SESSION]


def test_only_what_has_ended_long_enough_ago_is_swept(journal: TurnJournal) -> None:
    write(journal, delta("ended"), DONE)
    write(journal, delta("never ended"), turn_id=LATER_TURN)
    assert journal.sweep(3600) == 0
    assert journal.sweep(OLD) == 1
    assert journal.turns(SESSION) == [LATER_TURN]


def test_a_journal_can_be_begun_while_the_session_is_swept(journal: TurnJournal) -> None:
    for number in range(50):
        write(journal, DONE)
        journal.sweep(OLD)
        write(journal, delta(str(number)), turn_id=LATER_TURN)
        assert read(journal, turn_id=LATER_TURN) == [(1, *delta(str(number)))]
        journal.discard(SESSION, LATER_TURN)


def test_what_is_set_aside_stays_until_its_session_is_deleted(journal: TurnJournal) -> None:
    for session_id, turn_id in ((SESSION, TURN), (SESSION, LATER_TURN), (OTHER_SESSION, TURN)):
        write(
            journal, delta("a"), ("unreadable", "{}"), DONE, session_id=session_id, turn_id=turn_id
        )
        journal.set_aside(session_id, turn_id, lambda entry: entry.event != "unreadable")
        journal.copy_aside(session_id, turn_id)
    journal.move_aside(SESSION, LATER_TURN)
    everything = list(journal.broken())
    assert everything

    assert journal.sweep(OLD) == 2
    assert journal.broken() == everything
    journal.discard_session(SESSION)
    assert journal.broken() == [each for each in everything if OTHER_SESSION in each] != []
    journal.discard_session(OTHER_SESSION)
    assert journal.broken() == []


def test_readers_keep_what_was_forgotten_meanwhile_from_hurting(journal: TurnJournal) -> None:
    write(journal, delta("a"), DONE)
    position = journal.read(SESSION, TURN).position
    journal.discard(SESSION, TURN)
    assert journal.read(SESSION, TURN, position).entries == []


@pytest.mark.parametrize(
    "session_id", ["../outside", "/etc", "a\0b", "x" * 300, "", "..", "٣" * 10]
)
def test_what_is_no_session_id_never_becomes_a_path(journal: TurnJournal, session_id: str) -> None:
    assert journal.turns(session_id) == []


def test_a_long_journal_is_read_in_passages(journal: TurnJournal) -> None:
    events = [("content_delta", f'{{"content":"{"x" * 1000}"}}') for _ in range(1000)]
    events[500] = ("tool_result", f'{{"result":"{"y" * 3 * PASSAGE_BYTES}"}}')
    write(journal, *events, DONE)
    position, numbers, sizes = 0, [], []
    while (passage := journal.read(SESSION, TURN, position)).entries:
        position = passage.position
        numbers += [entry.n for entry in passage.entries]
        sizes.append([len(bytes(entry.data)) for entry in passage.entries])
    assert numbers == list(range(1, 1002))
    assert len(sizes) > 5
    assert all(sum(each) <= PASSAGE_BYTES or len(each) == 1 for each in sizes)
    assert [entry.n for entry in whole_journal(journal, SESSION, TURN)] == numbers


def test_a_passage_without_entries_is_the_end(journal: TurnJournal) -> None:
    writer = journal.open(SESSION, TURN, owner="me")
    writer.append("no entry\n" * (PASSAGE_BYTES // 4))
    writer.append(line(1, *DONE))
    writer.append('{"n":2,"event":"torn' + "x" * PASSAGE_BYTES)
    writer.close()
    passage = journal.read(SESSION, TURN)
    assert [entry.n for entry in passage.entries] == [1]
    assert journal.read(SESSION, TURN, passage.position) == JournalSlice([], passage.position)


async def open_and_write(journal: TurnJournal, texts: str) -> tuple[JournalWriter, list[str]]:
    """Append each text, and return which were kept already when that returned."""
    writer = await asyncio.to_thread(journal.open, SESSION, TURN, owner="me")
    kept: list[str] = []
    for number, text in enumerate(texts, 1):
        writer.append(line(number, *delta(text)), partial(kept.append, text))
    return writer, kept


async def test_lines_are_kept_in_order_and_can_be_read_then(journal_on_loop: TurnJournal) -> None:
    writer, kept = await open_and_write(journal_on_loop, "abc")
    await writer.flushed()
    assert kept == ["a", "b", "c"]
    passage = await asyncio.to_thread(journal_on_loop.read, SESSION, TURN)
    assert [entry.n for entry in passage.entries] == [1, 2, 3]
    writer.close()


@pytest.mark.allow_blocking
async def test_what_is_kept_can_be_read_the_moment_that_it_is(journal_on_loop: TurnJournal) -> None:
    writer = await asyncio.to_thread(journal_on_loop.open, SESSION, TURN, owner="me")
    seen: list[int] = []

    def look() -> None:
        with ThreadPoolExecutor(1) as pool:
            seen.append(len(pool.submit(journal_on_loop.read, SESSION, TURN).result().entries))

    for number in (1, 2, 3):
        writer.append(line(number, *delta("x")), look)
    await writer.flushed()
    writer.close()
    assert seen[0] >= 1
    assert seen == sorted(seen)
    assert seen[-1] == 3


async def test_a_watcher_hears_of_what_was_written(journal_on_loop: TurnJournal) -> None:
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    stop = journal_on_loop.watch(SESSION, TURN, lambda: loop.call_soon_threadsafe(changed.set))
    async with asyncio.timeout(10):
        await changed.wait()  # what is there already may have come before the watching
        changed.clear()
        writer, _ = await open_and_write(journal_on_loop, "a")
        await writer.flushed()
        await changed.wait()
    stop()
    writer.close()


def test_a_sealer_goes_on_with_what_a_dead_writer_left(journal: TurnJournal) -> None:
    write(journal, delta("left"))
    sealer = journal.take_over(SESSION, TURN)
    kept: list[bool] = []
    sealer.append(line(2, *DONE), lambda: kept.append(True))
    assert kept == [True]  # before it returns: no event loop runs where turns are sealed
    sealer.close()
    assert journal.has_ended(SESSION, TURN)
    assert not journal.is_being_written(SESSION, TURN)


def test_taking_over_what_is_not_there_makes_nothing(journal: TurnJournal) -> None:
    journal.take_over(SESSION, TURN).close()
    assert journal.turns(SESSION) == []


@pytest.mark.parametrize("place", ["memory", "redis"], indirect=True)
def test_who_is_fenced_off_can_not_write(journal: TurnJournal) -> None:
    """With files the sessions' lock sees to that: a dead process writes nothing more."""
    owner = journal.open(SESSION, TURN, owner="me")
    owner.append(line(1, *delta("a")))
    first = journal.take_over(SESSION, TURN)
    second = journal.take_over(SESSION, TURN)
    for late in (owner, first):
        with pytest.raises(Fenced):
            late.append(line(2, *DONE))
    second.append(line(2, *DONE))
    assert [entry[:2] for entry in read(journal)] == [(1, "content_delta"), (2, "done")]


@pytest.mark.parametrize("place", ["memory", "redis"], indirect=True)
def test_a_process_that_was_given_up_begins_no_journal(
    journal: TurnJournal, request: pytest.FixtureRequest
) -> None:
    """With files nothing condemns a process that lives."""
    if isinstance(journal, MemoryJournal):
        journal.condemned.add("me")
    else:
        connection = request.getfixturevalue("redis_connection")
        connection.client.set(connection.root_key("dead", "me"), "1")
    with pytest.raises(OwnerExpired):
        journal.open(SESSION, TURN, owner="me")
    assert journal.turns(SESSION) == []
