"""Conversations of clients that keep their own, saved here as well."""

import asyncio
import threading

import pytest

from chat.service import OpenTurn
from chat.start.turn_request import TurnRequest
from chat.turn.outcome import Outcome
from dialects_app.settings import DialectsSettings
from dialects_app.shared import transcripts as module
from dialects_app.shared.transcripts import Transcripts
from sessions_app.errors import SessionBusy
from sessions_app.ids_and_clock import new_message_id, utc_now
from sessions_app.messages import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from sessions_app.service import SessionManager
from sessions_app.store import session_files

READ = ToolSpec(name="Read", description="", parameters={})
HEADERS = {"x-claude-code-session-id": "6f9619ff-8b86"}


@pytest.fixture
def sessions(tmp_path):
    return SessionManager(tmp_path)


@pytest.fixture
def transcripts(sessions):
    return Transcripts(sessions, ["claude-code"], grace_seconds=30)


def said(kind, content, **fields):
    return kind(content=content, message_id=new_message_id(), timestamp=utc_now(), **fields)


async def save(transcripts, history, *answer, **request):
    """Save a request with this history, and the answer that its turn added."""
    messages = begin(transcripts, history, *answer, **request)
    await transcripts.aclose()
    return messages


async def ended():
    return Outcome()


def begin(
    transcripts,
    history,
    *answer,
    headers=HEADERS,
    tools=(READ,),
    model="qwen3:14b",
    words=None,
    finished=ended,
):
    messages = [*history, *answer]
    turn = OpenTurn(
        session_id="0123456789",
        turn_id="",
        listener=None,
        committed=None,
        finished=finished,
        leave=None,
        messages=lambda: messages,
    )
    name = transcripts.conversation_of(headers)
    request = TurnRequest(messages=history, client_tools=tools)
    transcripts.save(name, model, request, turn, words=words or {})
    return messages


async def listed(sessions):
    return await asyncio.to_thread(sessions.list_sessions)


async def texts_of(sessions):
    (session,) = await listed(sessions)
    messages = await asyncio.to_thread(sessions.messages, session.session_id)
    return [message.content for message in messages]


async def test_a_session_gets_what_is_new_in_each_request(sessions, transcripts):
    call = ToolCall(id="toolu_1", name="Read", arguments={"file": "a"}, client_side=True)
    begun = await save(
        transcripts,
        [
            said(SystemMessage, "You are Claude Code."),
            said(UserMessage, "Read the file."),
        ],
        said(AssistantMessage, "", tool_calls=(call,)),
    )
    result = said(ToolMessage, "42", tool_name="Read", tool_call_id="toolu_1")
    await save(transcripts, [*begun, result], said(AssistantMessage, "It says 42."))

    assert await texts_of(sessions) == ["Read the file.", "", "42", "It says 42."]
    (session,) = await listed(sessions)
    assert (session.title, session.model) == ("Read the file.", "qwen3:14b")


async def test_each_subagent_has_a_session_of_its_own(sessions, transcripts):
    for headers in (HEADERS, {**HEADERS, "x-claude-code-agent-id": "a1"}):
        history = [said(UserMessage, "Hello.")]
        await save(transcripts, history, said(AssistantMessage, "Hi."), headers=headers)

    assert len(await listed(sessions)) == 2


async def test_what_a_client_asks_for_itself_is_not_saved(sessions, transcripts):
    history = [said(UserMessage, "Make a title.")]
    await save(transcripts, history, said(AssistantMessage, "Greetings"), tools=())

    assert not await listed(sessions)


async def test_a_turn_without_an_answer_is_not_saved_as_its_client_asks_again(
    sessions, transcripts
):
    history = [said(UserMessage, "Hello.")]
    await save(transcripts, history)
    await save(transcripts, history, said(AssistantMessage, "Hi."))

    assert await texts_of(sessions) == ["Hello.", "Hi."]


async def test_two_first_requests_at_once_make_one_session(sessions, transcripts):
    await asyncio.gather(
        *(
            save(transcripts, [said(UserMessage, text)], said(AssistantMessage, "Yes."))
            for text in ("One.", "Two.")
        )
    )

    assert sorted(await texts_of(sessions)) == ["One.", "Two.", "Yes.", "Yes."]


def test_only_the_named_clients_conversations_are_saved(sessions):
    codex = Transcripts(sessions, ["codex"], grace_seconds=30)

    assert codex.conversation_of(HEADERS) is None
    assert codex.conversation_of({"session-id": "0199"}) == "codex:0199"
    assert codex.conversation_of({}) is None


def test_the_former_switch_of_open_webui_is_a_name_for_its_entry():
    assert DialectsSettings(openwebui_sessions=True).saved_clients == {"openwebui"}
    assert DialectsSettings(client_sessions="openwebui,codex").saved_clients == {
        "openwebui",
        "codex",
    }
    with pytest.raises(ValueError, match="must list clients of claude-code, codex, openwebui"):
        DialectsSettings(client_sessions="chatgpt")


async def test_what_a_client_adds_to_the_words_of_a_person_is_not_saved(sessions, transcripts):
    record, hello = said(UserMessage, "A record."), said(UserMessage, "Reminder. Hello!")
    words = {record.message_id: "", hello.message_id: "Hello!"}
    await save(transcripts, [record, hello], said(AssistantMessage, "Hi!"), words=words)

    assert await texts_of(sessions) == ["Hello!", "Hi!"]


# --- In order ----------------------------------------------------------------------------------


@pytest.fixture
def busy(sessions, monkeypatch):
    """Return an event: until it is set, a turn runs on all sessions."""
    free, change = threading.Event(), sessions.change

    def changed(session_id, *arguments):
        if not free.is_set():
            raise SessionBusy(session_id)
        return change(session_id, *arguments)

    monkeypatch.setattr(module, "BUSY_SECONDS", 0.01)
    monkeypatch.setattr(sessions, "change", changed)
    return free


def conversation(*texts):
    kinds = [UserMessage, AssistantMessage] * len(texts)
    return [said(kind, text) for kind, text in zip(kinds, texts, strict=False)]


async def test_requests_wait_in_order_while_a_person_goes_on(sessions, transcripts, busy):
    history = await save(transcripts, [said(UserMessage, "0")], said(AssistantMessage, "a0"))
    for number in range(1, 6):
        question, answer = conversation(f"{number}", f"a{number}")
        history = begin(transcripts, [*history, question], answer)
    await asyncio.sleep(0)
    busy.set()
    await transcripts.aclose()

    assert await texts_of(sessions) == [
        text for number in range(6) for text in (f"{number}", f"a{number}")
    ]


async def test_a_request_waits_for_the_turn_of_an_earlier_one(sessions, transcripts):
    ends = asyncio.Event()

    async def finished():
        await ends.wait()
        return Outcome()

    begin(transcripts, conversation("1"), said(AssistantMessage, "a1"), finished=finished)
    begin(transcripts, conversation("1", "a1", "2"), said(AssistantMessage, "a2"))
    await asyncio.sleep(0)
    ends.set()
    await transcripts.aclose()

    assert await texts_of(sessions) == ["1", "a1", "2", "a2"]


async def test_those_that_wait_are_few_and_the_last_one_has_what_the_others_said(
    sessions, transcripts, busy, monkeypatch, caplog
):
    monkeypatch.setattr(module, "MOST_WAITING", 2)
    history = await save(transcripts, [said(UserMessage, "0")], said(AssistantMessage, "a0"))
    for number in range(1, 6):
        question, answer = conversation(f"{number}", f"a{number}")
        history = begin(transcripts, [*history, question], answer)
    busy.set()
    await transcripts.aclose()

    assert await texts_of(sessions) == [
        text for number in range(6) for text in (f"{number}", f"a{number}")
    ]
    assert "waits" in caplog.text


async def test_the_end_of_the_server_waits_no_longer_than_its_grace(
    sessions, busy, caplog, monkeypatch
):
    monkeypatch.setattr(module, "LEAST_GRACE_SECONDS", 0.01)
    transcripts = Transcripts(sessions, ["claude-code"], grace_seconds=0)
    await save(transcripts, conversation("1"), said(AssistantMessage, "a1"))
    begin(transcripts, conversation("1", "a1", "2"), said(AssistantMessage, "a2"))
    await transcripts.aclose()

    assert "1 conversations can't be saved" in caplog.text


async def test_one_that_fails_does_not_stop_those_that_follow(sessions, transcripts, caplog):
    async def failed():
        raise RuntimeError

    begin(transcripts, conversation("1"), said(AssistantMessage, "a1"), finished=failed)
    begin(transcripts, conversation("1", "a1", "2"), said(AssistantMessage, "a2"))
    await transcripts.aclose()

    assert await texts_of(sessions) == ["1", "a1", "2", "a2"]
    assert "RuntimeError" in caplog.text


# --- In full -----------------------------------------------------------------------------------


async def test_a_session_that_is_full_is_followed_by_another(sessions, transcripts, monkeypatch):
    history = await save(transcripts, conversation("1" * 3000), said(AssistantMessage, "a1"))
    monkeypatch.setattr(session_files, "SIZE_LIMIT", 6000)
    for number in "23":
        question, answer = conversation(number * 1500, f"a{number}")
        history = await save(transcripts, [*history, question], answer)

    newest, first = await listed(sessions)
    assert newest.forked_from == {"session_id": first.session_id, "message_index": 1}
    found = await asyncio.to_thread(sessions.messages, newest.session_id)
    assert [message.content for message in found] == ["2" * 1500, "a2", "3" * 1500, "a3"]
    assert first.message_count == 2
