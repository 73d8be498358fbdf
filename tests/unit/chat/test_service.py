"""Sessions that are made for a chat request."""

import asyncio

import msgspec
import pytest

from chat.errors import ShuttingDown
from chat.service import ChatRequest, ChatService
from chat.start.turn_request import TurnRequest
from models_app.catalogue import ModelListing
from models_app.default_model import DefaultModel
from models_app.errors import ModelNotFound, OllamaError, OllamaUnreachable, ThinkingNotSupported
from models_app.language_model import ModelInfo, TextDelta
from sessions_app.errors import StorageFull
from tests.unit.chat.keys import keys_in
from tests.unit.chat.listening import read_all

HELLO = ChatRequest(turn=TurnRequest(message="Hello!"), model="qwen3:14b")


@pytest.fixture
def make_service(house, data_dir):
    def make(models=None):
        return ChatService(
            saved=house.space,
            ephemeral=house.space,
            keys=keys_in(data_dir / ".mochi" / "keys"),
            default_model=DefaultModel(models, None if models else "qwen3:14b"),
        )

    return make


class Models:
    """The models that are installed."""

    def __init__(self, *names):
        self._names = names
        self.times_asked = 0

    async def installed(self):
        self.times_asked += 1
        return [ModelInfo(name=name, size_mb=1) for name in self._names]

    async def listing(self):
        return ModelListing(models=await self.installed())


async def sessions_of(house):
    return list((await asyncio.to_thread(house.sessions.list)).sessions)


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_request_that_is_refused_leaves_no_empty_session(house, make_service, key):
    thinking = msgspec.structs.replace(HELLO.turn, think=True)
    with pytest.raises(ThinkingNotSupported):
        await make_service().open(ChatRequest(turn=thinking, model="qwen3:14b"), key)
    assert await sessions_of(house) == []


async def test_a_server_that_stops_leaves_no_empty_session(house, make_service):
    await house.turns.shutdown(0)
    with pytest.raises(ShuttingDown):
        await make_service().open(HELLO)
    assert await sessions_of(house) == []


async def test_a_client_that_leaves_before_the_turn_begins_leaves_no_empty_session(
    house, make_service, monkeypatch
):
    asked, go_on, describe = asyncio.Event(), asyncio.Event(), house.model.describe
    house.model.say_text("Hi")

    async def wait(model):
        asked.set()
        await go_on.wait()
        return await describe(model)

    monkeypatch.setattr(house.model, "describe", wait)
    opening = asyncio.create_task(make_service().open(HELLO))
    await asked.wait()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert await sessions_of(house) == []
    go_on.set()
    await house.turns.shutdown(0)
    assert all(session.message_count for session in await sessions_of(house))


async def test_a_request_that_names_no_model_gets_the_default_one(house, make_service):
    house.model.say_text("Hi")
    turn = await make_service().open(ChatRequest(turn=TurnRequest(message="Hello!")))
    await read_all(turn.listener)
    session = await asyncio.to_thread(house.sessions.get, turn.session_id)
    assert session.metadata.model == "qwen3:14b"


async def test_without_the_setting_it_gets_the_first_one_that_is_installed(house, make_service):
    house.model.say_text("Hi")
    turn = await make_service(Models("small:1b", "large:70b")).open(
        ChatRequest(turn=TurnRequest(message="Hello!"))
    )
    await read_all(turn.listener)
    session = await asyncio.to_thread(house.sessions.get, turn.session_id)
    assert session.metadata.model == "small:1b"


async def test_a_request_that_names_a_model_asks_for_no_other(house, make_service):
    house.model.say_text("Hi")
    models = Models("small:1b")
    turn = await make_service(models).open(HELLO)
    await read_all(turn.listener)
    assert models.times_asked == 0


async def test_without_any_model_there_is_no_new_session(house, make_service):
    with pytest.raises(ModelNotFound, match="ollama pull"):
        await make_service(Models()).open(ChatRequest(turn=TurnRequest(message="Hello!")))
    assert await sessions_of(house) == []


async def marks_of(house):
    return [session.refused_at == session.updated_at for session in await sessions_of(house)]


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_session_of_a_refused_request_is_marked_until_it_is_used(house, make_service, key):
    house.model.say(OllamaUnreachable("connection refused"))
    turn = await make_service().open(HELLO, key)
    with pytest.raises(OllamaUnreachable):
        await turn.committed()
    await turn.finished()
    assert await marks_of(house) == [True]
    [session] = await sessions_of(house)
    assert session.message_count == 1

    house.model.say_text("Hi")
    again = ChatRequest(turn=TurnRequest(), session_id=session.session_id)
    await (await make_service().open(again)).finished()

    [session] = await sessions_of(house)
    assert (session.refused_at, session.message_count) == (None, 2)


async def test_neither_another_session_nor_a_turn_that_was_shown_is_marked(house, make_service):
    session_id = await house.new_session()
    house.model.say(OllamaUnreachable("connection refused"))
    turn = await make_service().open(
        ChatRequest(turn=TurnRequest(message="Hello!"), session_id=session_id)
    )
    await turn.finished()
    house.model.say([TextDelta("Half")], OllamaError("unexpected EOF", retryable=True))
    await (await make_service().open(HELLO)).finished()
    assert [session.refused_at for session in await sessions_of(house)] == [None, None]


async def test_a_mark_that_can_not_be_written_keeps_the_session(house, make_service, monkeypatch):
    update = house.sessions.repository.update

    def full(session_id, change, **how):
        if how.get("release"):
            raise StorageFull("No space is left.")
        return update(session_id, change, **how)

    monkeypatch.setattr(house.sessions.repository, "update", full)
    house.model.say(OllamaUnreachable("connection refused"))
    await (await make_service().open(HELLO)).finished()
    assert await marks_of(house) == [False]
    [session] = await sessions_of(house)
    assert await asyncio.to_thread(house.sessions.repository.claim_of, session.session_id) is None
