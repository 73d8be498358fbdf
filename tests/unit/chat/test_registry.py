"""Turns against a real repository and journal, with a model that says what it is told."""

import asyncio
import errno
from unittest.mock import patch

import pytest

from chat.errors import (
    NoActiveTurn,
    NothingToContinue,
    ShuttingDown,
    TooManyTurns,
    TurnLimitReached,
)
from chat.start.turn_request import TurnRequest
from chat.storage.files.journal_file import FileJournalWriter
from chat.stream import turn_stream
from chat.turn.state_machine import State
from models_app.errors import (
    ModelNotFound,
    OllamaError,
    OllamaUnreachable,
    ThinkingNotSupported,
)
from models_app.language_model import (
    Finished,
    Retrying,
    TextDelta,
    ThinkingDelta,
    WindowGrown,
)
from sessions_app.errors import SessionBusy, SessionNotFound, StorageFull
from sessions_app.store import session_files
from tests.unit.chat.turns import HELLO, WAIT, listen, names, run
from tools_app.errors import ToolNotFound


async def test_a_model_that_goes_on_and_on_is_ended_and_what_it_said_is_kept(house):
    house.model.say_text(*["word " * 100] * 50)
    session_id = await house.new_session()
    with patch.object(turn_stream, "MAX_TURN_BYTES", 5000):
        events, outcome = await run(house, session_id)
    assert names(events)[-2:] == ["error", "done"]
    assert isinstance(outcome.error, TurnLimitReached)
    said = (await house.messages(session_id))[-1]
    assert said.interrupted
    assert 4000 < len(said.content) < 5000


async def test_an_answer_that_its_session_can_not_hold_ends_with_an_error_and_is_put_aside(
    house, data_dir, monkeypatch
):
    house.model.say_text("word " * 2000)
    session_id = await house.new_session()
    monkeypatch.setattr(session_files, "SIZE_LIMIT", 5000)
    events, outcome = await run(house, session_id)
    assert names(events)[-2:] == ["error", "done"]
    assert outcome.error.code == "VALIDATION_ERROR"
    assert [message.role for message in await house.messages(session_id)] == ["user"]
    house.model.say_text("Short.")
    _, outcome = await run(house, session_id)
    assert outcome.state is State.COMPLETED
    [aside] = await asyncio.to_thread(lambda: list(data_dir.rglob("*.broken")))
    assert (await asyncio.to_thread(aside.read_text)).count("word") == 2000


async def test_an_answer_arrives_in_order_and_is_on_disk(house):
    house.model.say_text("Hi", " there")
    session_id = await house.new_session()
    events, outcome = await run(house, session_id)
    assert names(events) == [
        "turn_started",
        "content_delta",
        "content_delta",
        "message_complete",
        "done",
    ]
    complete = dict(events)["message_complete"]
    assert complete["content"] == "Hi there"
    usage = complete["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (10, 2)
    assert complete["context_window"] == {
        "current_window": 8192,
        "usage_tokens": 12,
        "reason": "initial_setup",
    }
    user, answer = await house.messages(session_id)
    assert (user.content, answer.content) == ("Hello!", "Hi there")
    assert answer.message_id == complete["message_id"] == outcome.message.message_id


async def test_the_message_is_on_disk_before_the_first_event(house):
    house.model.say([TextDelta("Hi")], WAIT)
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    first, *_ = await turn.first_subscription.next()
    assert first.name == "turn_started"
    assert [message.content for message in await house.messages(session_id)] == ["Hello!"]


async def test_the_next_turn_may_start_as_soon_as_done_was_seen(house):
    session_id = await house.new_session()
    for number in range(20):
        house.model.say_text(str(number))
        assert names((await run(house, session_id))[0])[-1] == "done"
    assert len(await house.messages(session_id)) == 40


async def test_a_turn_whose_end_was_not_kept_is_ended_by_the_next_one(house):
    real = FileJournalWriter.append

    def full(self, lines, *kept):
        if '"event":"done"' in lines:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, lines, *kept)

    session_id = await house.new_session()
    house.model.say_text("x")
    with patch.object(FileJournalWriter, "append", full):
        turn = await house.turns.start(session_id, HELLO)
        await turn.finished()
    assert not await asyncio.to_thread(house.journal.has_ended, session_id, turn.turn_id)
    house.model.say_text("y")
    await run(house, session_id)
    assert await asyncio.to_thread(house.journal.has_ended, session_id, turn.turn_id)


async def test_a_busy_session_refuses_a_second_turn(house):
    house.model.say([TextDelta("Hi")], WAIT)
    session_id = await house.new_session()
    await house.turns.start(session_id, HELLO)
    with pytest.raises(SessionBusy):
        await house.turns.start(session_id, HELLO)


async def test_cancel_closes_the_model_and_saves_what_there_was(house):
    house.model.say([TextDelta("The capital")], WAIT)
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    report = await house.turns.cancel(session_id)
    assert report.turn_id == turn.turn_id
    assert report.partial_content == "The capital"
    assert report.stopped == {"upstream": True, "tools": [], "agents": []}
    assert house.model.closed == 1
    events = await listen(turn)
    assert names(events) == ["turn_started", "content_delta", "cancelled", "done"]
    assert events[2][1]["content"] == "The capital"
    answer = (await house.messages(session_id))[-1]
    assert answer.content == "The capital\n\n[cancelled]"
    assert answer.cancelled


async def test_cancelling_twice_is_safe_and_cancelling_nothing_is_told(house):
    house.model.say([TextDelta("x")], WAIT)
    session_id = await house.new_session()
    await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    first, second = await asyncio.gather(
        house.turns.cancel(session_id), house.turns.cancel(session_id)
    )
    assert first == second
    with pytest.raises(NoActiveTurn):
        await house.turns.cancel(session_id)
    with pytest.raises(SessionNotFound):
        await house.turns.cancel("0123456789")
    assert len(await house.messages(session_id)) == 2


async def test_a_cancel_before_the_turns_first_step_ends_it_all_the_same(house):
    house.model.say([TextDelta("never")], WAIT)
    session_id = await house.new_session()
    make = house.turns._claimer._claim

    def claim_and_signal(*args):
        claimed = make(*args)
        house.signals.send(claimed.job.turn_id, "cancel")
        house.turns._inbox._early.append((claimed.job.turn_id, "cancel"))
        return claimed

    with patch.object(house.turns._claimer, "_claim", claim_and_signal):
        turn = await house.turns.start(session_id, HELLO)
    assert (await turn.finished()).state is State.CANCELLED
    assert names(await listen(turn)) == ["turn_started", "cancelled", "done"]
    assert house.model.requests == []
    house.model.scripts.clear()
    house.model.say_text("free")
    await run(house, session_id)


async def test_a_client_that_leaves_ends_its_turn_and_a_detached_one_does_not(house):
    house.model.say([TextDelta("partial")], WAIT)
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    turn.leave(turn.first_subscription)
    assert (await turn.finished()).state is State.CANCELLED
    house.model.say_text("whole")
    turn = await house.turns.start(session_id, TurnRequest(message="Again", detached=True))
    turn.leave(turn.first_subscription)
    assert (await turn.finished()).state is State.COMPLETED


async def test_an_error_in_mid_answer_keeps_the_text_and_a_retry_replaces_it(house):
    house.model.say([TextDelta("Half an")], OllamaError("unexpected EOF", retryable=True))
    session_id = await house.new_session()
    events, _ = await run(house, session_id)
    assert names(events) == ["turn_started", "content_delta", "error", "done"]
    assert events[2][1]["code"] == "OLLAMA_ERROR"
    assert events[2][1]["details"] == {"provider": "ollama", "retryable": True}
    broken = (await house.messages(session_id))[-1]
    assert (broken.content, broken.interrupted) == ("Half an", True)
    house.model.say_text("A whole answer")
    await run(house, session_id, TurnRequest())
    assert [message.content for message in await house.messages(session_id)] == [
        "Hello!",
        "A whole answer",
    ]


async def test_a_refusal_before_the_first_event_is_raised_and_the_message_stays(house):
    house.model.say([Retrying("x")], OllamaUnreachable("connection refused"))
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    with pytest.raises(OllamaUnreachable):
        await turn.committed()
    assert (await turn.finished()).state is State.FAILED
    assert await turn.first_subscription.next() is None
    assert [message.content for message in await house.messages(session_id)] == ["Hello!"]
    assert await asyncio.to_thread(house.journal.turns, session_id) == []
    house.model.say_text("Hi")
    await run(house, session_id)
    contents = [message.content for message in await house.messages(session_id)]
    assert contents == ["Hello!", "Hi"]


async def test_a_retry_before_the_first_delta_is_told_once_the_stream_begins(house):
    house.model.say([Retrying("reset")], [TextDelta("Hi")], [Finished()])
    events, _ = await run(house, await house.new_session())
    assert names(events)[:3] == ["turn_started", "status", "content_delta"]
    assert events[1][1] == {"state": "retrying"}


async def test_thinking_is_streamed_apart_and_saved(house):
    house.model.say([ThinkingDelta("Hm.")], [TextDelta("<think>so</think>42 ")], [Finished()])
    session_id = await house.new_session()
    events, outcome = await run(house, session_id)
    assert "".join(data["content"] for name, data in events if name == "thinking_delta") == "Hm.so"
    assert (outcome.message.content, outcome.message.thinking) == ("42", "Hm.so")


async def test_thinking_is_asked_only_of_models_that_can(house):
    session_id = await house.new_session()
    with pytest.raises(ThinkingNotSupported):
        await house.turns.start(session_id, TurnRequest(message="x", think="high"))
    assert await house.messages(session_id) == ()
    house.model.say_text("a")
    await run(house, session_id)
    assert house.model.requests[-1].think is None


async def test_bad_requests_leave_nothing_behind(house):
    session_id = await house.new_session()
    with pytest.raises(NothingToContinue):
        await house.turns.start(session_id, TurnRequest())
    with pytest.raises(ToolNotFound):
        await house.turns.start(session_id, TurnRequest(message="x", selected_tools=["no"]))
    with pytest.raises(ModelNotFound):
        await house.turns.start(await house.new_session("missing"), HELLO)
    assert await house.messages(session_id) == ()
    house.model.say_text("free again")
    await run(house, session_id)


async def test_a_window_that_the_provider_grew_is_told_and_kept(house):
    house.model.say([WindowGrown(16384)], [TextDelta("x")], [Finished()])
    session_id = await house.new_session()
    events, _ = await run(house, session_id)
    assert dict(events)["message_complete"]["context_window"]["current_window"] == 16384
    session = await asyncio.to_thread(house.sessions.get, session_id)
    assert session.window.current_window == 16384


async def test_too_many_turns_and_a_stopping_server_refuse(make_house):
    house = make_house(active=1)
    house.model.say([TextDelta("x")], WAIT)
    turn = await house.turns.start(await house.new_session(), HELLO)
    await house.model.asked.wait()
    with pytest.raises(TooManyTurns):
        await house.turns.start(await house.new_session(), HELLO)
    await house.turns.shutdown(grace_seconds=0)
    events = await listen(turn)
    assert names(events) == ["turn_started", "content_delta", "error", "done"]
    assert events[2][1]["code"] == "SHUTTING_DOWN"
    assert (await house.messages(turn.session_id))[-1].interrupted
    with pytest.raises(ShuttingDown):
        await house.turns.start(turn.session_id, HELLO)


async def test_a_caller_that_is_cancelled_while_the_turn_starts_leaves_the_session_free(house):
    house.model.say([TextDelta("x")], WAIT)
    session_id = await house.new_session()
    starting = asyncio.create_task(house.turns.start(session_id, HELLO))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    while house.turns.active_count:
        await asyncio.sleep(0.001)
    house.model.scripts.clear()
    house.model.say_text("free")
    assert (await run(house, session_id))[1].state is State.COMPLETED


async def test_a_full_disk_under_the_journal_ends_the_turn_with_an_error_and_done(house):
    real = FileJournalWriter.append

    def full(self, lines, *kept):
        if '"y"' in lines:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, lines, *kept)

    house.model.say([TextDelta("x")], [TextDelta("y")], [Finished()])
    with patch.object(FileJournalWriter, "append", full):
        events, _ = await run(house, await house.new_session())
    assert names(events)[-2:] == ["error", "done"]
    assert dict(events)["error"]["code"] == "STORAGE_FULL"
    assert [data["content"] for name, data in events if name == "content_delta"] == ["x"]


async def test_an_answer_that_can_not_be_saved_is_never_called_complete(house):
    house.model.say_text("x")
    session_id = await house.new_session()
    full = StorageFull("No space left on device")
    with patch.object(house.sessions.repository, "update", side_effect=full):
        events, _ = await run(house, session_id)
    assert names(events)[-2:] == ["error", "done"]
    assert "message_complete" not in names(events)
    house.model.say_text("works again")
    await run(house, session_id, TurnRequest())


async def test_a_slow_listener_costs_no_memory_and_misses_nothing(house):
    text = "x" * 5000
    house.model.say(*[[TextDelta(text)] for _ in range(200)], [Finished()])
    turn = await house.turns.start(await house.new_session(), HELLO)
    await turn.finished()
    assert turn.first_subscription._pending_bytes <= 256 * 1024
    events = await listen(turn)
    assert sum(len(data["content"]) for name, data in events if name == "content_delta") == 10**6
    assert names(events)[-1] == "done"
