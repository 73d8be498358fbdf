"""Claims of a house's sessions, with a catalogue and threads that count."""

import dataclasses

import pytest

from chat.start.preparation import ChatPreparation
from tests.unit.chat.start.claims import HELLO, Known, Threads, claimer_of


@pytest.fixture
def threads():
    return Threads()


@pytest.fixture
def models(house):
    return Known(house.model)


@pytest.fixture
def preparer(house, models):
    return dataclasses.replace(house.preparer, models=models)


@pytest.fixture
def claim(house, preparer, threads):
    claimer = claimer_of(house, in_thread=threads.run)

    async def claim(session_id, request=HELLO, **more):
        return await claimer.claim(session_id, ChatPreparation(preparer, request), **more)

    return claim
