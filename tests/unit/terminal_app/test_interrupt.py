"""CTRL-C, which stops what runs."""

import asyncio
import os
import signal

import pytest

from terminal_app.interrupt import Interrupt


@pytest.fixture
async def interrupt():
    yield Interrupt()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().remove_signal_handler(number)


async def receive(number=signal.SIGINT):
    seen = asyncio.Event()
    os.kill(os.getpid(), number)
    asyncio.get_running_loop().call_later(0, seen.set)
    await seen.wait()
    await asyncio.sleep(0)


async def test_a_signal_stops_the_innermost_work(interrupt):
    stopped = []
    with interrupt.stops(lambda: stopped.append("outer")):
        with interrupt.stops(lambda: stopped.append("inner")):
            await receive()
        assert stopped == ["inner"]
        await receive()
    assert stopped == ["inner", "outer"]
    assert not interrupt.wants_end


async def test_a_signal_between_two_pieces_of_work_stops_the_next_one(interrupt):
    stopped = []
    with interrupt.stops(lambda: stopped.append("first")):
        await receive()
    with interrupt.stops(lambda: stopped.append("second")):
        pass
    interrupt.forget()
    with interrupt.stops(lambda: stopped.append("third")):
        pass
    assert stopped == ["first", "second"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_sigterm_and_a_closed_terminal_want_the_end(interrupt, number):
    with interrupt.stops(lambda: None):
        await receive(number)
    assert interrupt.wants_end


async def test_a_program_under_nohup_outlives_its_terminal():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        Interrupt()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(number)
