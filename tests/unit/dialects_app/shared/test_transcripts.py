"""Conversations of clients that keep their own, saved here as well."""

import asyncio

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

READ = ToolSpec(name="Read", description="", parameters={})
HEADERS = {"x-claude-code-session-id": "6f9619ff-8b86"}


@pytest.fixture
def sessions(tmp_path):
    return SessionManager(tmp_path)


@pytest.fixture
def transcripts(sessions):
    return Transcripts(sessions, ["claude-code"])


def said(kind, content, **fields):
    return kind(content=content, message_id=new_message_id(), timestamp=utc_now(), **fields)


async def save(transcripts, history, *answer, headers=HEADERS, tools=(READ,), model="qwen3:14b"):
    """Save a request with this history, and the answer that its turn added."""
    messages = [*history, *answer]

    async def finished():
        return Outcome()

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
    transcripts.save(name, model, TurnRequest(messages=history, client_tools=tools), turn)
    await transcripts.aclose()
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
            said(UserMessage, "<system-reminder>Be kind.</system-reminder>\n\nRead the file."),
        ],
        said(AssistantMessage, "", tool_calls=(call,)),
    )
    result = said(ToolMessage, "42", tool_name="Read", tool_call_id="toolu_1")
    await save(transcripts, [*begun, result], said(AssistantMessage, "It says 42."))

    assert await texts_of(sessions) == ["Read the file.", "", "42", "It says 42."]
    (session,) = await listed(sessions)
    assert (session.title, session.model) == ("Read the file.", "qwen3:14b")


async def test_a_client_that_shortens_its_history_takes_nothing_away(sessions, transcripts):
    await save(transcripts, [said(UserMessage, "Hello.")], said(AssistantMessage, "Hi."))
    summary = [said(UserMessage, "They greeted."), said(AssistantMessage, "I see.")]
    await save(
        transcripts, [*summary, said(UserMessage, "Go on.")], said(AssistantMessage, "Gladly.")
    )

    assert await texts_of(sessions) == ["Hello.", "Hi.", "Go on.", "Gladly."]


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


async def test_a_session_that_a_person_goes_on_with_is_waited_for(
    sessions, transcripts, monkeypatch
):
    monkeypatch.setattr(module, "BUSY_SECONDS", 0.0)
    await save(transcripts, [said(UserMessage, "One.")], said(AssistantMessage, "1"))
    change, refusals = sessions.change, iter([SessionBusy("0123456789")] * 2)

    def busy_at_first(*arguments):
        if (error := next(refusals, None)) is not None:
            raise error
        return change(*arguments)

    monkeypatch.setattr(sessions, "change", busy_at_first)
    await save(transcripts, [said(UserMessage, "Two.")], said(AssistantMessage, "2"))

    assert await texts_of(sessions) == ["One.", "1", "Two.", "2"]


async def test_two_first_requests_at_once_make_one_session(sessions, transcripts):
    await asyncio.gather(
        *(
            save(transcripts, [said(UserMessage, text)], said(AssistantMessage, "Yes."))
            for text in ("One.", "Two.")
        )
    )

    assert sorted(await texts_of(sessions)) == ["One.", "Two.", "Yes.", "Yes."]


def test_only_the_named_clients_conversations_are_saved(sessions):
    codex = Transcripts(sessions, ["codex"])

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


async def test_what_a_person_said_is_saved_once_though_the_client_compacts(sessions, transcripts):
    hello, again = said(UserMessage, "Hello!"), said(UserMessage, "Go on.")
    begun = await save(transcripts, [hello], said(AssistantMessage, "Hi!"))
    await save(transcripts, [*begun, again], said(AssistantMessage, "I do."))

    compacted = [said(UserMessage, each) for each in ("Hello!", "Go on.", "A summary.", "Go on.")]
    await save(transcripts, compacted, said(AssistantMessage, "Done."))

    assert await texts_of(sessions) == [
        *("Hello!", "Hi!", "Go on.", "I do."),
        *("A summary.", "Go on.", "Done."),
    ]
