"""Summaries give way to turns that want their model (docs/decisions/0031)."""

import asyncio
import json

import msgspec
import pytest

from chat.summaries.prompt import ANSWER_TOKENS
from chat.summaries.service import GAVE_WAY_SECONDS
from models_app.ollama.language_model import OllamaLanguageModel
from models_app.structured import StructuredModels
from sessions_app.messages import ToolCall
from tests.claims import claim_session, hold_of
from tests.unit.chat.summaries.house import ANSWERED, Claims

pytestmark = pytest.mark.allow_blocking  # tests look into files between the steps


async def test_a_turn_that_begins_takes_the_model_back(house):
    session_id = house.talk()
    house.answers.script = [...]

    running = asyncio.create_task(house.run(session_id))
    await house.answers.asked.wait()
    claim_session(house.repository, session_id, "turn")

    assert await running == "gave way to a turn"
    assert house.answers.cancelled == 1
    assert house.metadata(session_id).summary_due == ANSWERED
    assert house.service.failing() == []
    house.repository.release(session_id, hold_of(house.repository, "turn"))
    assert await house.run(session_id) == "done"


async def test_a_turn_of_another_session_on_the_same_model_takes_it_back(house):
    session_id, other, third = house.talk(), house.talk(), house.talk("n")
    house.answers.script = [...]
    claim_session(house.repository, third, "turn3")  # another model

    running = asyncio.create_task(house.run(session_id))
    await house.answers.asked.wait()
    assert not running.done()
    claim_session(house.repository, other, "turn2")

    assert await running == "gave way to a turn of another session"
    assert house.answers.cancelled == 1
    assert house.queue.added == [(session_id, GAVE_WAY_SECONDS)]
    assert house.service.failing() == []
    assert await house.run(session_id) == "gave way to a turn of another session"
    assert len(house.answers.questions) == 1  # the model was not asked again
    house.repository.release(other, hold_of(house.repository, "turn2"))
    assert await house.run(session_id) == "done"


async def test_a_turn_that_waits_for_an_approval_wants_no_model(house):
    session_id, other = house.talk(), house.talk()
    claim_session(house.repository, other, "turn2")
    call = ToolCall(id="c1", name="delete", arguments={})
    asked = {"session_id": other, "message_id": "m1", "call": call, "call_index": 0}

    house.confirmation_store.ask(**asked, turn_id="turn1")  # left by a turn that is over
    assert await house.run(session_id) == "gave way to a turn of another session"
    house.confirmation_store.withdraw_all(other)
    house.confirmation_store.ask(
        **asked, turn_id="turn2", agent_name="coder"
    )  # beside other agents
    assert await house.run(session_id) == "gave way to a turn of another session"
    house.confirmation_store.withdraw_all(other)
    house.confirmation_store.ask(**asked, turn_id="turn2")
    assert await house.run(session_id) == "done"


async def test_a_summary_does_not_give_way_for_ever(house):
    session_id, other = house.talk(), house.talk()
    claim_session(house.repository, other, "turn2")
    house.now = "2026-01-01T00:09:59.000000+00:00"
    assert await house.run(session_id) == "gave way to a turn of another session"
    house.now = "2026-01-01T00:10:01.000000+00:00"
    assert await house.run(session_id) == "done"


async def test_where_requests_do_not_wait_for_each_other_nobody_gives_way(house):
    session_id, other = house.talk("openai:gpt"), house.talk("openai:gpt")
    claim_session(house.repository, other, "turn2")
    assert await house.run(session_id) == "done"


async def test_who_asks_for_a_summary_waits_for_no_other_session(house):
    session_id, other = house.talk(), house.talk()
    claim_session(house.repository, other, "turn2")
    assert (await house.service.summarize(session_id)).summary == "They talked."


async def test_a_dead_turn_wants_no_model(house):
    session_id, other = house.talk(), house.talk()
    claim_session(house.repository, other, "turn2")
    claim = house.repository.claim_of(other)
    dead = msgspec.structs.replace(claim, alive=False)
    house.claims = Claims(house.repository, [dead])
    assert await house.run(session_id, house.build()) == "done"


async def test_giving_way_frees_the_models_slot(house):
    """With the real client, against an Ollama that goes on and on."""
    asked, left = asyncio.get_running_loop().create_future(), asyncio.Event()

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        asked.set_result(json.loads(await reader.readexactly(length)))
        await reader.read()
        left.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    house.answers = StructuredModels(
        lambda name: (OllamaLanguageModel(url), name),
        is_of_ollama=lambda _: True,
        ollama_host=url,
        silence_timeout=60,
    )
    session_id, other = house.talk(), house.talk()
    async with server, asyncio.timeout(20):
        running = asyncio.create_task(house.run(session_id, house.build()))
        request = await asked
        claim_session(house.repository, other, "turn2")
        assert await running == "gave way to a turn of another session"
        await left.wait()
    assert (request["truncate"], request["shift"]) == (False, False)
    assert request["options"]["num_predict"] == ANSWER_TOKENS
