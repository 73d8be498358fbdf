"""What is sent to a busy session waits, and is answered in its order, once."""

import asyncio

import pytest

from chat.approvals.confirmation import Decision
from chat.inbox.service import InboxService
from chat.service import ChatRequest, OpenTurn
from chat.start.turn_request import TurnRequest
from mochi_project.principal import SCOPES, Principal, acting_for, principal
from models_app.errors import ModelNotPermitted, OllamaUnreachable
from models_app.language_model import Finished, TextDelta
from sessions_app.edits import Rewind
from sessions_app.errors import (
    InboxFull,
    QueuedMessageNotFound,
    QueuedMessageTaken,
    SessionBusy,
    SessionNotFound,
    ValidationFailed,
)
from sessions_app.inbox import MOST_MESSAGES, inbox_from_json, inbox_to_json
from tests.unit.chat.inbox.conftest import Desk
from tests.unit.chat.listening import names, read_all
from tests.unit.chat.turns import Calculator, call


async def test_messages_are_answered_one_after_the_other(desk, house):
    session_id = await desk.busy()
    house.model.say_text("Yes.")
    house.model.say_text("No.")

    first, second = [await desk.queue(session_id, text) for text in ("First?", "Second?")]
    assert (first.position, second.position, first.state) == (1, 2, "queued")
    assert await desk.waiting(session_id) == (None, ["First?", "Second?"])
    house.model.go_on.set()

    contents = await desk.idle(session_id, messages=6)
    assert contents == ["Count!", "One two", "First?", "Yes.", "Second?", "No."]
    messages = await house.messages(session_id)
    assert [messages[2].message_id, messages[4].message_id] == [first.message_id, second.message_id]
    taken = await desk.inbox.state_of(session_id, first.message_id)
    assert (taken.state, taken.turn_id) == ("taken", messages[2].turn_id)
    assert await desk.waiting(session_id) == (None, [])


@pytest.mark.parametrize("when_busy", ["refuse", "queue", "steer", "interrupt"])
async def test_an_idle_session_just_starts(desk, house, when_busy):
    session_id = await house.new_session()
    house.model.say_text("Hi.")

    opened = await desk.send(session_id, "Hello!", when_busy)

    assert isinstance(opened, OpenTurn)
    assert names(await read_all(opened.listener))[-1] == "done"


async def test_a_busy_session_refuses_unless_asked_or_set_otherwise(desk, house):
    session_id = await desk.busy()

    for when_busy in ("refuse", None):
        with pytest.raises(SessionBusy):
            await desk.send(session_id, "Hello!", when_busy)
    queueing = InboxService(desk.chat, house.space, "queue")
    request = ChatRequest(turn=TurnRequest(message="Hello!"), session_id=session_id)
    assert (await queueing.open(request)).position == 1
    with pytest.raises(SessionBusy):
        await queueing.open(request, when_busy="refuse")


@pytest.mark.parametrize(
    "turn",
    [TurnRequest(), TurnRequest(rewind=Rewind(message_id="1", content="?"))],
    ids=["regenerate", "edit"],
)
async def test_only_a_message_can_wait(desk, house, turn):
    session_id = await desk.busy()
    request = ChatRequest(turn=turn, session_id=session_id)

    with pytest.raises(SessionBusy):
        await desk.inbox.open(request, when_busy="queue")


async def test_a_session_that_is_not_saved_has_no_inbox(desk, house):
    session_id = await desk.busy()
    request = ChatRequest(turn=TurnRequest(message="Hi"), session_id=session_id, ephemeral=True)

    with pytest.raises(ValidationFailed) as refused:
        await desk.inbox.open(request, when_busy="queue")
    assert refused.value.details["field"] == "when_busy"


async def test_a_request_that_names_another_model_is_refused_and_not_queued(desk, house):
    session_id = await desk.busy()
    request = ChatRequest(turn=TurnRequest(message="Hi"), session_id=session_id, model="other")

    for key in (None, "k"):
        with pytest.raises(ValidationFailed) as refused:
            await desk.inbox.open(request, key, when_busy="queue")
        assert refused.value.details["field"] == "model"
    assert await desk.waiting(session_id) == (None, [])


async def test_posts_at_once_get_one_order_and_a_full_inbox_takes_no_more(desk, house):
    session_id = await desk.busy()
    sent = [desk.send(session_id, f"{n}") for n in range(MOST_MESSAGES + 1)]

    results = await asyncio.gather(*sent, return_exceptions=True)

    refused = [each for each in results if isinstance(each, InboxFull)]
    assert len(refused) == 1
    _, waiting = await desk.waiting(session_id)
    assert sorted(waiting) == sorted(
        f"{n}" for n, each in enumerate(results) if each not in refused
    )


async def test_who_sends_to_an_unknown_session_is_told_so(desk):
    with pytest.raises(SessionNotFound):
        await desk.send("0123456789", "Hello!")


async def test_an_interruption_keeps_the_partial_answer_and_is_answered_next(desk, house):
    session_id = await desk.busy()
    house.model.say_text("Stopped.")
    house.model.say_text("Later.")
    await desk.queue(session_id, "Later?")

    await desk.queue(session_id, "Stop!", "interrupt")

    contents = await desk.idle(session_id, messages=6)
    assert contents == ["Count!", "One \n\n[cancelled]".replace(" \n", "\n"), *contents[2:]]
    assert contents[2:] == ["Stop!", "Stopped.", "Later?", "Later."]


async def test_an_interruption_ends_a_tool_and_its_call_has_a_result(make_house):
    calculator = Calculator()
    house = make_house(calculator)
    desk = Desk(house)
    session_id = await house.new_session(tools=["add"])
    house.model.say([call("c1", a=1, b=2, wait=True)], [Finished()])
    await desk.send(session_id, "Add!", detached=True)
    await calculator.waiting.wait()
    house.model.say_text("Stopped.")

    await desk.queue(session_id, "Stop!", "interrupt")

    await desk.idle(session_id, messages=6)
    kinds = [each.role for each in await house.messages(session_id)]
    assert kinds == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    await house.turns.shutdown(0)


async def test_an_interruption_withdraws_what_a_person_is_asked(make_house):
    house = make_house(Calculator())
    desk = Desk(house)
    session_id = await house.new_session(tools=["add"], policy="always_confirm")
    house.model.say([call("c1", a=1, b=2)], [Finished()])
    opened = await desk.send(session_id, "Add!", detached=True)
    while not await house.confirmations.pending(session_id):
        assert await opened.listener.next() is not None
    house.model.say_text("Stopped.")

    await desk.queue(session_id, "Stop!", "interrupt")

    contents = await desk.idle(session_id, messages=6)
    assert contents[-2:] == ["Stop!", "Stopped."]
    assert await house.confirmations.pending(session_id) == []
    await house.turns.shutdown(0)


async def test_a_deleted_session_takes_its_inbox_with_it(desk, house):
    session_id = await desk.busy()
    await desk.queue(session_id, "Later?")
    await house.turns.cancel(session_id)
    await asyncio.to_thread(house.sessions.delete, session_id)

    with pytest.raises(SessionNotFound):
        await desk.inbox.listing(session_id)


async def test_after_a_stop_nothing_is_answered_until_somebody_resumes(desk, house):
    session_id = await desk.busy()
    await desk.queue(session_id, "Later?")

    await house.turns.cancel(session_id)

    assert await desk.waiting(session_id) == ("cancelled", ["Later?"])
    house.model.say_text("Later.")
    await desk.inbox.resume(session_id)
    assert (await desk.idle(session_id, messages=4))[2:] == ["Later?", "Later."]


async def test_a_message_to_a_paused_inbox_goes_to_its_end_and_wakes_it(desk, house):
    session_id = await desk.busy()
    await desk.queue(session_id, "First?")
    await house.turns.cancel(session_id)
    house.model.say_text("1")
    house.model.say_text("2")

    await desk.queue(session_id, "Second?")

    assert (await desk.idle(session_id, messages=6))[2:] == ["First?", "1", "Second?", "2"]


async def test_a_client_that_leaves_stops_its_turn_and_not_what_was_queued(desk, house):
    session_id = await house.new_session()
    house.model.say([TextDelta("One ")], ..., [Finished()])
    opened = await desk.send(session_id, "Count!")
    await opened.committed()
    await desk.queue(session_id, "Later?")
    house.model.say_text("Later.")

    opened.leave()

    assert (await desk.idle(session_id, messages=4))[2:] == ["Later?", "Later."]


async def test_a_stop_counts_also_after_the_client_of_the_turn_has_left(desk, house):
    session_id = await house.new_session()
    house.model.say([TextDelta("One ")], ..., [Finished()])
    opened = await desk.send(session_id, "Count!")
    await opened.committed()
    await desk.queue(session_id, "Later?")

    opened.leave()
    await house.turns.cancel(session_id)

    assert await desk.waiting(session_id) == ("cancelled", ["Later?"])


async def test_a_provider_that_is_down_fails_one_message_and_the_others_wait(desk, house):
    session_id = await desk.busy()
    for number in range(3):
        await desk.queue(session_id, f"{number}")
    house.model.say(OllamaUnreachable("down"))

    house.model.go_on.set()
    await desk.idle(session_id, messages=3)

    async with asyncio.timeout(20):
        while (await desk.waiting(session_id))[0] is None:
            await asyncio.sleep(0.01)
    assert await desk.waiting(session_id) == ("failed", ["1", "2"])
    assert [each.content for each in await house.messages(session_id)] == ["Count!", "One two", "0"]


async def test_a_model_that_is_gone_leaves_all_that_waits(desk, house):
    session_id = await desk.busy()
    await desk.queue(session_id, "0")
    await asyncio.to_thread(house.sessions.update, session_id, model="missing")

    house.model.go_on.set()
    await desk.idle(session_id, messages=2)

    async with asyncio.timeout(20):
        while (await desk.waiting(session_id))[0] is None:
            await asyncio.sleep(0.01)
    assert await desk.waiting(session_id) == ("failed", ["0"])
    inbox = await desk.inbox.listing(session_id)
    assert inbox.error is not None
    assert (inbox.error["code"], "missing" in inbox.error["message"]) == ("MODEL_NOT_FOUND", True)
    kept = inbox_from_json(inbox_to_json(inbox))
    assert kept == inbox
    assert (kept.resume().error, kept.take(kept.messages[0].message_id).error) == (None, None)


async def test_what_waits_is_held_while_a_person_is_asked_and_answered_after(make_house):
    house = make_house(Calculator())
    desk = Desk(house)
    session_id = await house.new_session(tools=["add"], policy="always_confirm")
    house.model.say([TextDelta("Well.")], ..., [call("c1", a=1, b=2)], [Finished()])
    opened = await desk.send(session_id, "Add!", approvals="suspend", detached=True)
    await opened.committed()
    await desk.queue(session_id, "And?")
    house.model.go_on.set()
    await opened.finished()
    await asyncio.to_thread(house.recovery.seal_all)
    assert await desk.waiting(session_id) == (None, ["And?"])
    [question] = await house.confirmations.pending(session_id)
    await house.confirmations.decide(
        session_id, Decision(confirmation_id=question.confirmation_id, approved=True)
    )
    house.model.say_text("3")
    house.model.say_text("That is it.")

    resumed = await house.turns.start(session_id, TurnRequest())
    await resumed.finished()

    contents = await desk.idle(session_id, messages=6)
    assert contents[2:] == ["3", "3", "And?", "That is it."]
    await house.turns.shutdown(0)


async def test_what_waits_is_edited_moved_and_deleted(desk, house):
    session_id = await desk.busy()
    ids = [(await desk.queue(session_id, text)).message_id for text in "abc"]

    edited = await desk.inbox.edit(session_id, ids[2], content="C!", position=1)
    assert (edited.position, edited.when_busy) == (1, "queue")
    await desk.inbox.delete(session_id, ids[0])
    assert await desk.waiting(session_id) == (None, ["C!", "b"])
    await desk.inbox.delete(session_id)
    assert await desk.waiting(session_id) == (None, [])
    for change in (desk.inbox.delete(session_id, ids[0]), desk.inbox.state_of(session_id, ids[0])):
        with pytest.raises(QueuedMessageNotFound):
            await change


async def test_a_message_that_is_taken_can_not_be_changed_any_more(desk, house):
    session_id = await desk.busy()
    house.model.say_text("Yes.")
    queued = await desk.queue(session_id, "First?")
    house.model.go_on.set()
    await desk.idle(session_id, messages=4)

    for change in (
        desk.inbox.edit(session_id, queued.message_id, content="No!"),
        desk.inbox.delete(session_id, queued.message_id),
    ):
        with pytest.raises(QueuedMessageTaken) as refused:
            await change
        assert refused.value.details["turn_id"] == (await house.messages(session_id))[2].turn_id


async def test_a_message_that_is_made_to_interrupt_stops_the_turn(desk, house):
    session_id = await desk.busy()
    house.model.say_text("Stopped.")
    queued = await desk.queue(session_id, "Stop!")

    await desk.inbox.edit(session_id, queued.message_id, when_busy="interrupt")

    assert (await desk.idle(session_id, messages=4))[2:] == ["Stop!", "Stopped."]


async def test_other_listeners_of_the_turn_hear_of_it_and_its_end_counts_what_waits(desk, house):
    session_id = await desk.busy()
    listener = await house.turns.attach(session_id, None)
    queued = await desk.queue(session_id, "Later?")
    house.model.say_text("Later.")
    house.model.go_on.set()

    events = [each.decode() for each in await read_all(listener)]

    told = next(each for each in events if each.event == "message_queued")
    assert (told.message_id, told.position) == (queued.message_id, 1)
    assert events[-1].queued == 1
    await desk.idle(session_id, messages=4)


async def test_a_key_for_other_models_queues_and_edits_nothing(desk, house):
    session_id = await desk.busy()
    queued = await desk.queue(session_id, "Mine.")
    limited = Principal("default", SCOPES, key_id="k00000000", models=("other:*",))

    with acting_for(limited):
        for when_busy in ("queue", "steer", "interrupt"):
            with pytest.raises(ModelNotPermitted):
                await desk.queue(session_id, "For nothing!", when_busy)
        with pytest.raises(ModelNotPermitted):
            await desk.inbox.edit(session_id, queued.message_id, content="For nothing!")
        assert await desk.waiting(session_id) == (None, ["Mine."])

        await desk.inbox.delete(session_id, queued.message_id)
        assert await desk.waiting(session_id) == (None, [])
    house.model.go_on.set()


async def test_a_queued_message_is_answered_within_the_limits_of_its_own_key(
    desk, house, monkeypatch
):
    limited = Principal("default", SCOPES, key_id="k00000000", models=("m",))
    stream, limits = house.model.stream, []

    def seen(request):
        limits.append(principal().models)
        return stream(request)

    monkeypatch.setattr(house.model, "stream", seen)
    with acting_for(limited):
        session_id = await desk.busy()
    house.model.say_text("Yes.")
    house.model.say_text("No.")
    await desk.queue(session_id, "Anybody's?")
    with acting_for(limited):
        await desk.queue(session_id, "Of the key?")
    house.model.go_on.set()

    await desk.idle(session_id, messages=6)
    assert limits == [("m",), ("*",), ("m",)]
