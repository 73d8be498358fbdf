"""Turns without an answer: what their requests have changed is undone, and nothing is missing."""

import asyncio
import os

import pytest

from chat.start.turn_request import TurnRequest
from models_app.errors import REQUEST_REFUSALS, CallRefused, OllamaError
from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.attachments.service import keep
from sessions_app.attachments.sweeping import DAY, AttachmentSweep
from sessions_app.edits import Rewind
from sessions_app.errors import MochiError
from sessions_app.labels import with_labels
from tests.unit.chat.turns import HELLO, run


async def refusal_of(turns, session_id, request=HELLO):
    turn = await turns.start(session_id, request)
    with pytest.raises(MochiError) as refused:
        await turn.committed()
    await turn.finished()
    return refused.value


@pytest.mark.parametrize("error", REQUEST_REFUSALS)
async def test_a_request_that_the_first_call_refuses_leaves_nothing(house, error):
    house.model.say_text("Hi.")
    session_id = await house.new_session()
    await run(house, session_id)
    before = await asyncio.to_thread(house.sessions.get, session_id)
    house.model.say(error("No."))

    refused = await refusal_of(house.turns, session_id)

    assert refused.details["message_saved"] is False
    assert await asyncio.to_thread(house.sessions.get, session_id) == before
    house.model.say_text("Hi.")
    await run(house, session_id)
    assert [message.role for message in await house.messages(session_id)] == [
        *("user", "assistant", "user", "assistant"),
    ]


async def test_what_others_changed_meanwhile_stays(house):
    session_id = await house.new_session()
    house.model.say(..., CallRefused("The budget is used up."))
    turn = await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    await asyncio.to_thread(
        house.repository.update, session_id, lambda found: with_labels(found, pinned=True)
    )
    house.model.go_on.set()
    with pytest.raises(CallRefused):
        await turn.committed()
    await turn.finished()
    session = await asyncio.to_thread(house.sessions.get, session_id)
    assert (session.messages, session.metadata.pinned) == ((), True)


async def test_a_message_that_is_answered_anew_stays_where_the_budget_is_used_up(house):
    session_id = await house.new_session()
    house.model.say(OllamaError("down"))
    await refusal_of(house.turns, session_id)
    house.model.say(CallRefused("The budget is used up."))

    refused = await refusal_of(house.turns, session_id)

    assert refused.details["message_saved"] is True
    assert len(await house.messages(session_id)) == 1


async def test_the_files_of_a_message_that_is_edited_outlive_the_edit_that_is_undone(
    make_house, data_dir
):
    store = FileAttachmentStore(data_dir / "attachments")
    house = make_house(attachments=store, read_attachment=store.read)
    image = await asyncio.to_thread(keep, store, b"A text.", name="a.txt", max_bytes=100)
    house.model.say_text("Hi.")
    session_id = await house.new_session()
    await run(house, session_id, TurnRequest(message="Look!", attachments=(image,)))
    (path,) = await asyncio.to_thread(
        lambda: list((data_dir / "attachments").rglob(image.id.removeprefix("sha256:")))
    )
    os.utime(path, (0, 0))
    edited = Rewind(message_id=(await house.messages(session_id))[0].message_id, content="Hello!")
    house.model.say(..., OllamaError("down"))

    turn = await house.turns.start(session_id, TurnRequest(rewind=edited))
    await house.model.asked.wait()
    sweep = AttachmentSweep(store, [house.repository])
    swept = await asyncio.to_thread(store.sweep, sweep.referenced, older_than_seconds=DAY)
    house.model.go_on.set()
    await turn.finished()

    assert [message.attachments for message in await house.messages(session_id)] == [(image,), ()]
    assert swept == 0
    assert await asyncio.to_thread(store.read, image.id) == b"A text."
