"""Positions and passages, what Redis forgets by itself, and what can't be read."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chat.storage.journal import PASSAGE_BYTES, Fenced, line, whole_journal
from cluster_app.redis.hub import Hub
from cluster_app.redis.journals import RedisTurnJournal
from tests.contract.elsewhere import PidOwners

SESSION = "a1b2c3d4e5"
TURN, LATER = "0199f3a2b4c50000abcd", "0199f3a2b4c60000abcd"
RETENTION = 600


@pytest.fixture
def journal(redis_connection):
    return RedisTurnJournal(
        redis_connection,
        owners=PidOwners(),
        hub=Hub(redis_connection),
        retention_seconds=RETENTION,
    )


def delta(number, length=1):
    return line(number, "content_delta", '{"content":"' + "x" * length + '"}')


def write(journal, turn_id=TURN, *, done=True):
    writer = journal.open(SESSION, turn_id, owner="me")
    writer.append(delta(1))
    if done:
        writer.append(line(2, "done", "{}"))
    writer.close()


def ttl(journal, *parts):
    return journal.connection.client.ttl(journal.connection.key(*parts))


appends = st.lists(
    st.lists(st.sampled_from([1, 100, 5000, PASSAGE_BYTES // 2]), min_size=1, max_size=4),
    min_size=1,
    max_size=12,
)


@settings(
    max_examples=settings.default.max_examples // 2,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(sizes=appends, taken_at=st.integers(0, 12))
def test_passages_hold_every_line_once_from_any_position(journal, sizes, taken_at):
    """Across a change of writers, too; what was appended at once is read at once."""
    writer, number = journal.open(SESSION, TURN, owner="me"), 0
    for count, append in enumerate(sizes):
        if count == taken_at:
            writer = journal.take_over(SESSION, TURN)
        writer.append("".join(delta(number + n, size) for n, size in enumerate(append, 1)))
        number += len(append)

    position, seen, positions = 0, [], [0]
    while (passage := journal.read(SESSION, TURN, position)).entries:
        size = sum(len(bytes(entry.data)) for entry in passage.entries)
        assert size <= PASSAGE_BYTES or len(passage.entries) <= max(map(len, sizes))
        assert passage.position > position
        position = passage.position
        seen += [entry.n for entry in passage.entries]
        positions.append(position)
    assert seen == list(range(1, number + 1))
    assert journal.read(SESSION, TURN, position).position == position
    for earlier in positions:
        rest = [entry.n for entry in journal.read(SESSION, TURN, earlier).entries]
        assert rest == seen[seen.index(rest[0]) :][: len(rest)] if rest else earlier == position
    writer.close()
    journal.connection.client.delete(*journal.connection.client.keys(f"{journal.connection.root}*"))


def test_redis_forgets_a_journal_some_time_after_its_end(journal):
    write(journal, done=False)
    assert ttl(journal, "j", SESSION, TURN) == ttl(journal, "t", SESSION) == -1
    write(journal, LATER)
    assert 0 < ttl(journal, "j", SESSION, LATER) <= RETENTION
    assert ttl(journal, "t", SESSION) == -1  # the older one has no end yet
    sealer = journal.take_over(SESSION, TURN)
    sealer.append(line(2, "done", "{}"))
    assert 0 < ttl(journal, "j", SESSION, TURN) <= RETENTION
    assert RETENTION < ttl(journal, "t", SESSION) <= 2 * RETENTION
    assert journal.sweep(RETENTION) == 0
    assert journal.turns(SESSION) == [TURN, LATER]


def test_a_turn_that_redis_has_forgotten_is_not_listed(journal):
    write(journal)
    write(journal, LATER)
    journal.connection.client.delete(journal.connection.key("j", SESSION, TURN))
    assert journal.turns(SESSION) == [LATER]
    assert journal.all_turns() == {LATER}


def test_an_end_that_its_writer_could_not_tell_of_is_found(journal):
    writer = journal.open(SESSION, TURN, owner="999999999")  # a process that died
    writer.append(delta(1))
    client, key = journal.connection.client, journal.connection.key("j", SESSION, TURN)
    client.xadd(key, {"l": line(2, "done", "{}")}, id="1-2")
    assert journal.unended_sessions() == [SESSION]
    assert journal.has_ended(SESSION, TURN)
    assert journal.unended_sessions() == []
    assert 0 < ttl(journal, "j", SESSION, TURN) <= RETENTION
    journal.take_over(SESSION, TURN)
    assert journal.has_ended(SESSION, TURN)


def test_a_living_process_may_have_left_its_turn(journal):
    writer = journal.open(SESSION, TURN, owner="me")
    writer.append(delta(1))
    assert journal.unended_sessions() == []
    assert not journal.was_closed(SESSION, TURN)
    writer.close()
    assert journal.unended_sessions() == [SESSION]
    assert journal.was_closed(SESSION, TURN)


def test_a_journal_that_was_taken_over_keeps_its_writer_out_when_it_is_forgotten(journal):
    writer = journal.open(SESSION, TURN, owner="me")
    journal.take_over(SESSION, TURN)
    journal.discard(SESSION, TURN)
    assert journal.turns(SESSION) == []
    assert journal.unended_sessions() == []
    with pytest.raises(Fenced):
        writer.append(delta(1))
    with pytest.raises(FileExistsError):
        journal.open(SESSION, TURN, owner="me")
    assert 0 < ttl(journal, "j", SESSION, TURN) <= RETENTION


def test_what_is_being_written_is_not_discarded(journal):
    writer = journal.open(SESSION, TURN, owner="me")
    journal.discard_session(SESSION)
    assert journal.turns(SESSION) == [TURN]
    writer.close()
    journal.discard_session(SESSION)
    assert journal.turns(SESSION) == []


def test_what_can_not_be_read_is_set_aside(journal):
    writer = journal.open(SESSION, TURN, owner="me")
    for text in (delta(1), "no entry\n", line(2, "broken", "{}"), delta(3)):
        writer.append(text)
    position = journal.read(SESSION, TURN).position
    assert journal.set_aside(SESSION, TURN, lambda entry: entry.event != "broken")
    assert [entry.n for entry in whole_journal(journal, SESSION, TURN)] == [1, 3]
    assert journal.read(SESSION, TURN, position).entries == []
    assert not journal.set_aside(SESSION, TURN, lambda entry: True)
    [where] = journal.broken()
    aside = journal.connection.client.lrange(where.removesuffix(" in Redis"), 0, -1)
    assert aside == [b"no entry\n", line(2, "broken", "{}").encode()]


def test_a_journal_is_copied_and_moved_aside(journal):
    write(journal)
    journal.copy_aside(SESSION, TURN)
    [where] = journal.broken()
    assert journal.connection.client.ttl(where.removesuffix(" in Redis")) == -1
    journal.move_aside(SESSION, TURN)
    assert journal.turns(SESSION) == []
    assert journal.broken() == [where]
    assert journal.connection.client.xlen(where.removesuffix(" in Redis")) == 3


def test_storages_do_not_see_each_others_journals(journal, redis_connection):
    agents = RedisTurnJournal(
        redis_connection.under("a:"),
        owners=PidOwners(),
        hub=Hub(redis_connection),
        retention_seconds=RETENTION,
    )
    write(journal)
    write(agents, LATER)
    assert (journal.all_turns(), agents.all_turns()) == ({TURN}, {LATER})
    # Who sends a signal knows no more than the turn.
    for turn_id in (TURN, LATER):
        assert redis_connection.client.hget(redis_connection.root_key("m", turn_id), "worker")
