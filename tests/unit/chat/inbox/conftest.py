"""A house whose sessions have inboxes."""

import asyncio

import pytest

from chat.inbox.service import InboxService, QueuedMessage
from chat.service import ChatRequest, ChatService
from chat.start.turn_request import TurnRequest
from models_app.default_model import DefaultModel
from models_app.language_model import Finished, TextDelta


class Desk:
    """Sends messages to the sessions of a house, and waits for their answers."""

    def __init__(self, house):
        self.house = house
        house.turns.go_on()
        house.recovery.when_waiting(house.turns.answer_waiting)
        self.chat = ChatService(
            saved=house.space,
            ephemeral=house.space,
            keys=house.keys,
            default_model=DefaultModel(None, "m"),
        )
        self.inbox = InboxService(self.chat, house.space)

    async def send(self, session_id, message, when_busy="queue", key=None, **turn):
        request = ChatRequest(turn=TurnRequest(message=message, **turn), session_id=session_id)
        return await self.inbox.open(request, key, when_busy=when_busy)

    async def queue(self, session_id, message, when_busy="queue", key=None, **turn):
        queued = await self.send(session_id, message, when_busy, key, **turn)
        assert isinstance(queued, QueuedMessage)
        return queued

    async def busy(self, *rest):
        """Return a session whose turn has said something, and goes on when it is told."""
        session_id = await self.house.new_session()
        self.house.model.say([TextDelta("One ")], ..., [TextDelta("two")], *rest, [Finished()])
        opened = await self.send(session_id, "Count!", detached=True)
        await opened.committed()
        await self.house.model.asked.wait()
        return session_id

    async def idle(self, session_id, *, messages):
        """Wait until no turn runs, and the session has so many messages."""
        async with asyncio.timeout(30):
            while True:
                session, claim = await asyncio.to_thread(
                    self.house.repository.load_claimed, session_id
                )
                if claim is None and len(session.messages) >= messages:
                    return [each.content for each in session.messages]
                await asyncio.sleep(0.01)

    async def waiting(self, session_id):
        inbox = await self.inbox.listing(session_id)
        return inbox.paused, [each.content for each in inbox.messages]


@pytest.fixture
async def desk(house):
    return Desk(house)
