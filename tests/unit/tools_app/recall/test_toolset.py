"""Recall: which messages are read, which matches are shown, and how much of them."""

import msgspec
import pytest

from sessions_app.messages import SystemMessage, ToolMessage
from sessions_app.session import with_messages
from tests.unit.conftest import NOW, SESSION_ID
from tests.unit.sessions_app.left_out import leaving_out
from tools_app.errors import ToolNotFound
from tools_app.recall.record import HEADING
from tools_app.recall.search import ConversationMatch
from tools_app.recall.toolset import RecallTools
from tools_app.toolset import ToolInvocation

# The sessions of a test are written in its own loop.
pytestmark = pytest.mark.allow_blocking

OTHER = "0123456789"


async def call(recall, name, arguments, own=""):
    """Return the result of a call as text, or its failure with the code."""
    result = await recall.call_tool(ToolInvocation(name=name, arguments=arguments, session_id=own))
    return result.result if result.success else f"{result.error_code}: {result.error_message}"


class Everything:
    """A search that finds each message of some sessions, and their titles."""

    def __init__(self, *sessions, complete=True):
        self.sessions = sessions
        self.complete = complete

    async def search(self, request, accepts):
        matches = [match for session in self.sessions for match in matches_of(session)]
        accepted = [match for match in matches if accepts(match)]
        return accepted[: request.limit], self.complete


def matches_of(session):
    places = [(at, each.message_id, each.role) for at, each in enumerate(session.messages)]
    for index, message_id, role in [*places, (None, None, "title")]:
        yield ConversationMatch(
            session_id=session.session_id,
            title=None,
            role=role,
            message_index=index,
            message_id=message_id,
            timestamp=NOW,
            excerpt=f"{session.session_id} {index}",
        )


@pytest.fixture
def recall(manager):
    """Return the recall of these sessions, all of which are found."""

    def of(*sessions, **more):
        for session in sessions:
            manager.keep_new(session, any_id=False)
        return RecallTools(manager.get, Everything(*sessions, **more))

    return of


@pytest.fixture
def tools(manager):
    """Return the tools of a server without a search."""
    return RecallTools(manager.get, None)


def hide(session, index):
    messages = list(session.messages)
    messages[index] = msgspec.structs.replace(messages[index], hidden=True)
    return with_messages(session, messages, now=NOW)


async def excerpts(recall, **how):
    text = await call(recall, "search_conversations", {"query": "x", "limit": 20}, **how)
    return [line.rpartition(": ")[2] for line in text.splitlines() if line[0].isdigit()]


async def test_parts_are_read_from_both_ends_and_from_a_message(recall, make_session):
    session = make_session(*(f"text {number}" for number in range(10)))
    recall = recall(session)

    async def read(**arguments):
        text = await call(recall, "read_conversation", {"session_id": SESSION_ID, **arguments})
        return [line.rpartition("] ")[2] for line in text.splitlines() if line.startswith("[")]

    assert await read(limit=2) == ["text 0", "text 1"]
    assert await read(offset=8) == ["text 8", "text 9"]
    assert await read(offset=-2) == ["text 8", "text 9"]
    assert await read(offset=-99, limit=1) == ["text 0"]
    assert await read(offset=10**30) == []
    assert await read(message_id=f"{4:010x}", limit=1) == ["text 4"]
    assert await read(message_id=f"{4:010x}", offset=-1, limit=2) == ["text 3", "text 4"]
    arguments = {"session_id": SESSION_ID, "message_id": "none"}
    assert (await call(recall, "read_conversation", arguments)).startswith("MESSAGE_CHANGED: ")


async def test_hidden_messages_and_system_prompts_are_not_read(recall, make_session):
    session = hide(make_session("seen", "hidden words", "seen too"), 1)
    prompt = SystemMessage(content="secret prompt", message_id="p", timestamp=NOW)
    session = with_messages(session, [prompt, *session.messages], now=NOW)
    text = await call(recall(session), "read_conversation", {"session_id": SESSION_ID})
    assert "0-1 of 2" in text
    assert "hidden words" not in text
    assert "secret prompt" not in text


async def test_what_a_summary_stands_for_is_read_word_for_word(recall, make_session):
    session = make_session(*(f"text {number}" for number in range(10)))
    session = leaving_out(session, session.messages[2:6], summary="They talked.")
    recall = recall(session)
    text = await call(recall, "expand_summary", {"limit": 3}, own=SESSION_ID)
    assert 'messages="0-2 of 4"' in text
    assert [f"text {number}" in text for number in range(10)] == [2 <= n <= 4 for n in range(10)]
    assert text.endswith("1 more from offset 3.")


async def test_a_state_that_does_not_hold_leaves_nothing_out(recall, make_session):
    session = make_session("a", "b", "c", "d")
    session = leaving_out(session, session.messages[:2])
    changed = with_messages(session, [*session.messages[1:]], now=NOW)
    text = await call(recall(changed), "expand_summary", {}, own=SESSION_ID)
    assert text == "Nothing is left out of this conversation's context."


async def test_a_search_shows_neither_what_is_hidden_nor_what_the_model_sees(recall, make_session):
    own = make_session("own 0", "own 1", "own 2", "own 3")
    own = leaving_out(own, own.messages[:2])
    record = ToolMessage(content=f"{HEADING}\n", message_id="r", timestamp=NOW, tool_name="x")
    other = hide(make_session("a", "b", "c", session_id=OTHER), 1)
    other = with_messages(other, [*other.messages, record], now=NOW)
    recall = recall(own, other)
    there = [f"{OTHER} {place}" for place in (0, 2, None)]
    assert await excerpts(recall, own=SESSION_ID) == [
        *(f"{SESSION_ID} 0", f"{SESSION_ID} 1", *there)
    ]
    assert len(await excerpts(recall)) == 8


async def test_a_search_shows_nothing_of_a_session_that_has_changed_or_gone(
    recall, manager, make_session
):
    session, gone = make_session("a", "b", "c"), make_session("d", session_id=OTHER)
    recall = recall(session, gone)
    manager.delete(OTHER)
    manager.repository.update(
        SESSION_ID, lambda session: with_messages(session, session.messages[1:2], now=NOW)
    )
    assert await excerpts(recall) == [f"{SESSION_ID} None", f"{OTHER} None"]


async def test_a_search_says_what_it_has_not_searched(recall):
    arguments = {"query": "x"}
    assert await call(recall(), "search_conversations", arguments) == "Nothing was found."
    text = await call(recall(complete=False), "search_conversations", arguments)
    assert text == "Nothing was found.\nNot everything was searched yet."


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("read_conversation", {"session_id": OTHER}, "SESSION_NOT_FOUND"),
        ("read_conversation", {"session_id": "../../x"}, "SESSION_NOT_FOUND"),
        ("read_conversation", {}, "VALIDATION_ERROR"),
        ("read_conversation", {"session_id": OTHER, "limit": 51}, "VALIDATION_ERROR"),
        ("read_conversation", {"session_id": OTHER, "all": True}, "VALIDATION_ERROR"),
        ("search_conversations", {}, "VALIDATION_ERROR"),
        ("search_conversations", {"query": ""}, "VALIDATION_ERROR"),
        ("search_conversations", {"query": "x", "role": "system"}, "VALIDATION_ERROR"),
    ],
)
async def test_what_can_not_be_answered_is_a_failure(recall, name, arguments, code):
    assert (await call(recall(), name, arguments)).startswith(f"{code}: ")


async def test_a_conversation_that_is_not_saved_can_not_be_read(recall):
    answer = await call(recall(), "read_conversation", {}, own=SESSION_ID)
    assert answer.startswith("VALIDATION_ERROR: This conversation is not saved")


async def test_another_tool_is_not_found(recall):
    with pytest.raises(ToolNotFound):
        await call(recall(), "delete_conversation", {})


async def test_without_a_search_its_tool_is_listed_with_the_reason(tools):
    listing = await tools.listing()
    assert listing.groups == {"recall": ["read_conversation", "expand_summary"]}
    assert not any(tool.destructive or tool.queue for tool in listing.tools.values())
    [invalid] = listing.invalid
    assert (invalid.name, invalid.reason) == (
        "search_conversations",
        "This server runs without the app that searches.",
    )


async def test_without_a_search_its_tool_is_not_found(tools):
    with pytest.raises(ToolNotFound):
        await tools.call_tool(ToolInvocation(name="search_conversations", arguments={"query": "x"}))


@pytest.mark.parametrize("tokens", [400, 2000])
async def test_a_result_keeps_to_its_tokens(tools, manager, make_session, tokens):
    manager.keep_new(make_session(*["word " * 500] * 20))
    call = ToolInvocation(
        name="read_conversation",
        arguments={},
        session_id=SESSION_ID,
        result_tokens=tokens,
    )
    result = await tools.call_tool(call)
    assert tokens * 2 < len(result.result.encode()) <= tokens * 3
