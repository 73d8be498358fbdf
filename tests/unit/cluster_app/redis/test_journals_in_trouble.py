"""Journals whose Redis is killed, paused, cut off, emptied, full or overtaken."""

import asyncio
import errno
import itertools

import pytest
import redis

from chat.storage.journal import Fenced, JournalLost, JournalTimedOut, line
from cluster_app.redis import journal_writers
from sessions_app.errors import StorageUnavailable

SESSION, TURN = "a1b2c3d4e5", "0199f3a2b4c50000abcd"
PREFIX = "test:"


class Turn:
    """Writes one journal through a relay or not, and knows what was kept."""

    def __init__(self, journal, turn_id=TURN):
        self.journal, self.turn_id = journal, turn_id
        self.kept, self.troubles = [], []
        self.numbers = itertools.count(1)

    async def open(self):
        self.writer = await asyncio.to_thread(self.journal.open, SESSION, self.turn_id, owner="me")
        self.writer.on_failure(self.troubles.append)
        return self

    def say(self, count=1):
        for number in itertools.islice(self.numbers, count):
            text = line(number, "content_delta", f'{{"content":"{number}"}}')
            self.writer.append(text, lambda number=number: self.kept.append(number))

    def end(self):
        self.writer.append(line(next(self.numbers), "done", "{}"))


async def numbers_in(journal, turn_id=TURN):
    found, position = [], 0
    while entries := (
        passage := await asyncio.to_thread(journal.read, SESSION, turn_id, position)
    ).entries:
        position = passage.position
        found += [entry.n for entry in entries]
    return found


async def until(is_so):
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0.005)


def relayed(relay):
    return f"redis://127.0.0.1:{relay.port}/0"


@pytest.mark.parametrize("side", ["request", "answer"])
async def test_nothing_comes_after_a_fence(side, own_server, relay, make_journal):
    """At 40 exact moments: before Redis has the lines, and before their writer knows that."""
    owner = make_journal(relayed(relay), prefix=PREFIX)
    sealer = make_journal(own_server.url, prefix=PREFIX)
    for number in range(20):
        turn = await Turn(owner, f"{number:020x}").open()
        turn.say(1 + number % 3)
        await turn.writer.flushed()
        moment = relay.hold(b"XADD", side=side)
        turn.say(1 + number % 4)
        await asyncio.to_thread(moment.wait)

        fence = await asyncio.to_thread(sealer.take_over, SESSION, turn.turn_id)
        left = await numbers_in(sealer, turn.turn_id)
        moment.release()
        with pytest.raises(Fenced):  # noqa: PT012 - lines that Redis had already are kept
            await turn.writer.flushed()
            turn.say()
            await turn.writer.flushed()
        assert set(turn.kept) <= set(left)
        assert await numbers_in(sealer, turn.turn_id) == left == list(range(1, len(left) + 1))
        assert [type(trouble) for trouble in turn.troubles] == [Fenced]

        last = line(len(left) + 1, "done", "{}")
        await asyncio.to_thread(fence.append, last)
        turn.writer.close()
        assert (await numbers_in(sealer, turn.turn_id))[-1] == len(left) + 1


async def test_an_answer_that_was_lost_is_found_in_the_journal(own_server, relay, make_journal):
    journal = make_journal(relayed(relay), prefix=PREFIX)
    turn = await Turn(journal).open()
    for nth in range(1, 4):
        swallowed = relay.swallow_answer(b"XADD", nth=nth)
        for _ in range(5):
            turn.say()
            await turn.writer.flushed()
        assert swallowed.reached.is_set()
    assert turn.kept == await numbers_in(journal) == list(range(1, 16))


async def written(server):
    """Wait until Redis has written what it acknowledged to its file."""
    with redis.Redis.from_url(server.url) as client:
        while (await asyncio.to_thread(client.info, "persistence"))["aof_buffer_length"]:
            await asyncio.sleep(0.01)


async def test_what_was_acknowledged_is_there_when_redis_was_killed(killed_server, make_journal):
    """A busy disk may cost Redis what it acknowledged last: that is sent again."""
    journal = make_journal(killed_server.url)
    turns = [await Turn(journal, f"{number:020x}").open() for number in range(20)]
    await written(killed_server)  # or it may forget that there are journals
    for round_ in range(3):
        for turn in turns:
            turn.say(50)
        await until(lambda: any(len(turn.kept) > 50 * round_ for turn in turns))  # noqa: B023
        await asyncio.to_thread(killed_server.kill)
        for turn in turns:
            turn.say()
        kept = [list(turn.kept) for turn in turns]
        await asyncio.to_thread(killed_server.start)
        for turn, before in zip(turns, kept, strict=True):
            await turn.writer.flushed()  # the rest follows
            assert set(before) <= set(await numbers_in(journal, turn.turn_id))
    for turn in turns:
        assert turn.kept == await numbers_in(journal, turn.turn_id) == list(range(1, 154))
        assert not turn.troubles


async def test_a_redis_that_is_frozen_is_waited_for(own_server, make_journal, monkeypatch):
    monkeypatch.setattr("cluster_app.redis.pump.REPLY_SECONDS", 0.1)
    journal = make_journal(own_server.url)
    turn = await Turn(journal).open()
    turn.say(3)
    await turn.writer.flushed()
    await asyncio.to_thread(own_server.freeze)
    turn.say(3)
    pump = turn.writer.pump
    await until(lambda: not pump.is_connected)  # given up
    assert turn.kept == [1, 2, 3]
    own_server.thaw()
    turn.say(3)
    await turn.writer.flushed()
    assert turn.kept == await numbers_in(journal) == list(range(1, 10))


async def test_a_redis_that_forgot_a_journal_leaves_its_turn_to_its_listeners(
    own_server, make_journal
):
    journal = make_journal(own_server.url)
    turn = await Turn(journal).open()
    turn.say(3)
    await turn.writer.flushed()
    with redis.Redis.from_url(own_server.url) as client:
        await asyncio.to_thread(client.flushall)
    turn.say(3)
    await turn.writer.flushed()
    turn.say(2)
    assert turn.kept == list(range(1, 9))
    assert [type(trouble) for trouble in turn.troubles] == [JournalLost]
    assert await numbers_in(journal) == []
    turn.writer.close()


async def test_a_full_redis_is_a_full_disk(own_server, make_journal):
    journal = make_journal(own_server.url)
    turn = await Turn(journal).open()
    turn.say(3)
    await turn.writer.flushed()
    with redis.Redis.from_url(own_server.url) as client:
        await asyncio.to_thread(client.config_set, "maxmemory", "1")
        turn.say(3)
        with pytest.raises(OSError, match="full") as caught:
            await turn.writer.flushed()
        assert caught.value.errno == errno.ENOSPC
        assert turn.kept == await numbers_in(journal) == [1, 2, 3]
        turn.writer.close()
        await asyncio.to_thread(client.config_set, "maxmemory", "0")
    # It says that it is over once there is room: then others end it.
    await until_unended(journal)


async def until_unended(journal):
    async with asyncio.timeout(30):
        while await asyncio.to_thread(journal.unended_sessions) != [SESSION]:
            await asyncio.sleep(0.01)


async def test_a_turn_bears_for_a_while_that_redis_is_away(own_server, relay, make_journal):
    journal = make_journal(relayed(relay), prefix=PREFIX, timeout_seconds=0.1)
    elsewhere = make_journal(own_server.url, prefix=PREFIX)
    turn = await Turn(journal).open()
    relay.cut()
    turn.say(3)
    await until(lambda: turn.troubles)
    assert [type(trouble) for trouble in turn.troubles] == [JournalTimedOut]
    assert turn.kept == []
    for again in (turn.say, turn.end):
        with pytest.raises(JournalTimedOut):
            again()
    turn.writer.close()
    relay.heal()
    await until_elsewhere_is_told(elsewhere)


async def until_elsewhere_is_told(elsewhere):
    """Wait until another process sees that a living one has left its turn."""

    def is_told():
        mark = elsewhere.connection.root_key("m", TURN)
        return elsewhere.connection.client.hget(mark, "left") is not None

    async with asyncio.timeout(30):
        while not await asyncio.to_thread(is_told):
            await asyncio.sleep(0.01)
    assert await asyncio.to_thread(elsewhere.was_closed, SESSION, TURN)
    assert await asyncio.to_thread(elsewhere.unended_sessions) == [SESSION]


async def test_a_turn_that_ended_while_redis_was_away_is_ended_there_later(
    own_server, relay, make_journal
):
    journal = make_journal(relayed(relay), prefix=PREFIX)
    elsewhere = make_journal(own_server.url, prefix=PREFIX)
    turn = await Turn(journal).open()
    turn.say(3)
    await turn.writer.flushed()
    relay.refuse()
    turn.say()
    turn.end()
    turn.writer.close()
    assert not await asyncio.to_thread(elsewhere.has_ended, SESSION, TURN)
    relay.heal()
    await turn.writer.flushed()
    assert await asyncio.to_thread(elsewhere.has_ended, SESSION, TURN)
    assert await numbers_in(elsewhere) == [1, 2, 3, 4, 5]


async def test_a_journal_that_redis_begins_late_is_one_that_nobody_writes(own_server, make_journal):
    journal = make_journal(own_server.url, prefix=PREFIX)
    await asyncio.to_thread(journal.open, "b1b2c3d4e5", "0199f3a2b4c50000abce", owner="me")
    await asyncio.to_thread(own_server.freeze)
    with pytest.raises(StorageUnavailable):
        await Turn(journal).open()
    own_server.thaw()
    async with asyncio.timeout(30):
        while await asyncio.to_thread(journal.unended_sessions) != [SESSION]:
            await asyncio.sleep(0.01)
    assert await asyncio.to_thread(journal.was_closed, SESSION, TURN)


async def test_a_journal_that_nobody_writes_is_not_begun_later(own_server, relay, make_journal):
    journal = make_journal(relayed(relay), prefix=PREFIX)
    elsewhere = make_journal(own_server.url, prefix=PREFIX)
    relay.refuse()
    with pytest.raises(StorageUnavailable):
        await Turn(journal).open()
    relay.heal()
    assert await asyncio.to_thread(journal.unended_sessions) == []
    with pytest.raises(FileExistsError):
        await Turn(elsewhere).open()
    assert await asyncio.to_thread(elsewhere.unended_sessions) == []


def as_a_late_replica(client, journal, count):
    """Have the server know no more than the first entries of the journal."""
    key = journal.connection.key("j", SESSION, TURN)
    entries = client.xrange(key, count=count + 1)  # with the one that opens it
    client.delete(key)
    for entry_id, fields in entries:
        client.xadd(key, fields, id=entry_id)


async def test_a_replica_that_was_behind_gets_the_rest_again(own_server, relay, make_journal):
    journal = make_journal(relayed(relay), prefix=PREFIX)
    turn = await Turn(journal).open()
    turn.say(20)
    await turn.writer.flushed()
    relay.refuse()
    with redis.Redis.from_url(own_server.url) as client:
        await asyncio.to_thread(as_a_late_replica, client, journal, 7)
    turn.say(5)
    relay.heal()
    await turn.writer.flushed()
    turn.say(5)
    await turn.writer.flushed()
    assert turn.kept == await numbers_in(journal) == list(range(1, 31))
    assert not turn.troubles


async def test_a_replica_that_was_too_far_behind_has_no_gap(
    own_server, relay, make_journal, monkeypatch
):
    monkeypatch.setattr(journal_writers, "TAIL_BYTES", 1000)
    journal = make_journal(relayed(relay), prefix=PREFIX)
    turn = await Turn(journal).open()
    turn.say(100)
    await turn.writer.flushed()
    relay.refuse()
    with redis.Redis.from_url(own_server.url) as client:
        await asyncio.to_thread(as_a_late_replica, client, journal, 7)
    turn.say(5)
    relay.heal()
    await turn.writer.flushed()
    turn.say(5)
    assert turn.kept == list(range(1, 111))
    assert [type(trouble) for trouble in turn.troubles] == [JournalLost]
    assert await numbers_in(journal) == list(range(1, 8))


async def test_a_replica_is_not_written_to(own_server, make_journal):
    """Until it takes over: then who was sent there by its address goes on."""
    journal = make_journal(own_server.url)
    turn = await Turn(journal).open()
    turn.say(3)
    await turn.writer.flushed()
    pump = turn.writer.pump
    with redis.Redis.from_url(own_server.url) as client:
        await asyncio.to_thread(client.execute_command, "REPLICAOF", "127.0.0.1", "1")
        turn.say(3)
        await until(lambda: not pump.is_connected)
        assert turn.kept == [1, 2, 3]
        await asyncio.to_thread(client.execute_command, "REPLICAOF", "NO", "ONE")
    await turn.writer.flushed()
    assert turn.kept == await numbers_in(journal) == list(range(1, 7))
