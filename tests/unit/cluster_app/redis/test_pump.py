"""Connecting: passwords, databases and servers that are not the primary; one pump a loop."""

import asyncio
import logging
import socket

import pytest
import redis

from cluster_app.redis.pump import Pumps, connected, pack
from sessions_app.store.redis_url import RedisUrl, parse_redis_url


class User:
    """Sends one command whenever Redis is there."""

    def __init__(self, pump, *command):
        self.pump, self.command, self.answers, self.away = pump, command, [], 0
        self.heard = asyncio.Event()

    def disconnected(self):
        self.away += 1

    def connected(self):
        self.send()

    def send(self):
        self.pump.send(pack(self.command), self.take)

    def take(self, answer):
        self.answers.append(answer)
        self.heard.set()

    def tick(self, seconds):
        pass

    async def hear(self):
        async with asyncio.timeout(30):
            await self.heard.wait()
        self.heard.clear()
        return self.answers[-1]


@pytest.fixture
def address(own_server):
    return parse_redis_url(own_server.url)


@pytest.fixture
async def make_pump(quick):
    made = []

    def make(dial):
        made.append(Pumps(dial))
        return made[-1].here()

    yield make
    for pumps in made:
        pumps.close()


async def test_it_speaks_to_the_database_of_the_url_with_its_password(
    own_server, address, make_pump
):
    with redis.Redis.from_url(own_server.url) as client:
        await asyncio.to_thread(client.config_set, "requirepass", "secret")
    told = RedisUrl(hosts=address.hosts, password="secret", database=3)
    pump = make_pump(lambda: told)
    user = User(pump, "CLIENT", "INFO")
    pump.add(user)
    assert b" db=3 " in await user.hear()


async def test_a_connection_is_kept_alive_while_nothing_is_sent(own_server):
    made = await connected(RedisUrl(hosts=(("127.0.0.1", own_server.port),)), asyncio.Protocol)
    try:
        link = made.get_extra_info("socket")
        assert link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
            if option := getattr(socket, name, None):
                assert link.getsockopt(socket.IPPROTO_TCP, option) == value
    finally:
        made.close()


async def test_a_wrong_password_is_tried_again_and_never_logged(
    own_server, address, make_pump, caplog
):
    with redis.Redis.from_url(own_server.url) as client:
        await asyncio.to_thread(client.config_set, "requirepass", "secret")
    words = iter(["wrong", "wrong"])
    dialled = []

    def dial():
        dialled.append(next(words, "secret"))
        return RedisUrl(hosts=address.hosts, password=dialled[-1])

    pump = make_pump(dial)
    user = User(pump, "PING")
    with caplog.at_level(logging.INFO):
        pump.add(user)
        assert await user.hear() == b"PONG"
    assert dialled == ["wrong", "wrong", "secret"]
    assert "redis is reachable again" in caplog.text
    assert "wrong" not in caplog.text


async def test_what_is_not_the_primary_is_not_spoken_to(
    own_server, killed_server, address, make_pump
):
    with redis.Redis.from_url(killed_server.url) as client:
        await asyncio.to_thread(client.execute_command, "REPLICAOF", "127.0.0.1", "1")
    known = iter([parse_redis_url(killed_server.url)] * 3)
    pump = make_pump(lambda: next(known, address))
    user = User(pump, "ROLE")
    pump.add(user)
    assert (await user.hear())[0] == b"master"


async def test_commands_of_one_round_of_the_loop_are_one_pipeline(own_server, address, make_pump):
    pump = make_pump(lambda: address)
    user = User(pump, "INCR", "count")
    pump.add(user)
    await user.hear()
    for _ in range(100):
        user.send()
    while len(user.answers) < 101:
        await user.hear()
    assert user.answers == list(range(1, 102))


async def test_who_sent_is_told_when_redis_went_and_came(killed_server, make_pump):
    pump = make_pump(lambda: parse_redis_url(killed_server.url))
    user = User(pump, "ROLE")  # which a server answers while it still reads its data, too
    pump.add(user)
    assert (await user.hear())[0] == b"master"
    away = user.away
    await asyncio.to_thread(killed_server.kill)
    user.send()
    await asyncio.to_thread(killed_server.start)
    assert (await user.hear())[0] == b"master"
    assert user.away > away


async def test_a_loop_has_one_pump(quick):
    pumps = Pumps(lambda: parse_redis_url("redis://nowhere.invalid"))
    assert pumps.here() is pumps.here()

    def elsewhere():
        async def pump():
            return pumps.here()

        return asyncio.run(pump())

    mine = pumps.here()
    assert await asyncio.to_thread(elsewhere) is not mine
    assert pumps.here() is mine
    pumps.close()
    pumps.close()
