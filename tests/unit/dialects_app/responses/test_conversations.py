"""Conversations are sessions, and stay what they are when a request is refused."""

from datetime import datetime

import pytest

from chat.storage.records import TURN_RECORDS
from dialects_app.responses.conversations import (
    NO_MODEL,
    ConversationIn,
    Conversations,
    ItemsIn,
    LabelsIn,
)
from dialects_app.responses.errors import ItemNotFound
from dialects_app.responses.record import ResponseRecord
from dialects_app.responses.store import ResponseStore
from dialects_app.responses.tool_forms import ToolForm
from dialects_app.shared.body import convert_body
from dialects_app.shared.ids import conversation_id, item_id
from sessions_app.errors import ValidationFailed
from sessions_app.labels import titled_by_message
from sessions_app.messages import AssistantMessage, ToolCall, ToolMessage
from sessions_app.service import SessionManager
from sessions_app.session import append_messages, with_metadata
from sessions_app.store.file_records import FileRecords

NOW = "2026-01-01T00:00:00.000000+00:00"
HELLO = {"role": "user", "content": "Hello!"}


@pytest.fixture
def sessions(tmp_path):
    return SessionManager(tmp_path)


@pytest.fixture
def store(tmp_path):
    return ResponseStore(FileRecords(tmp_path / "responses", names=TURN_RECORDS))


@pytest.fixture
def conversations(sessions, store):
    return Conversations(sessions, store)


def session_id_of(shown):
    return shown.id.removeprefix("conv_")


def only(sessions):
    [session] = sessions.list_sessions()
    return sessions.get(session.session_id)


def test_a_conversation_has_the_default_model_until_a_response_names_one(
    sessions, store, conversations
):
    made = conversations.create(ConversationIn())
    assert sessions.get(session_id_of(made)).metadata.model == NO_MODEL
    made = Conversations(sessions, store, model="m").create(ConversationIn())
    assert sessions.get(session_id_of(made)).metadata.model == "m"


def test_the_time_and_the_metadata_are_those_of_the_session(sessions, conversations):
    made = conversations.create(ConversationIn(metadata={"topic": "rain"}))
    assert only(sessions).metadata.metadata == {"topic": "rain"}
    created_at = datetime.fromisoformat(only(sessions).metadata.created_at)
    assert made.created_at == int(created_at.timestamp())
    assert conversations.set_labels(made.id, LabelsIn(metadata=None)).metadata == {}
    assert only(sessions).metadata.metadata is None


def test_every_session_is_a_conversation(sessions, conversations):
    session = sessions.create("m", system_prompt="Be brief.")
    name = conversation_id(session.session_id)
    assert conversations.get(name).metadata == {}
    [item] = conversations.items(name)
    assert (item["role"], item["content"][0]["text"]) == ("system", "Be brief.")


@pytest.fixture
def answered(sessions):
    """A session with everything that an answer can be."""
    session = sessions.create("m")
    ours = ToolCall(id="c1", name="note", arguments={})
    theirs = ToolCall(id="c2", name="look", arguments={}, client_side=True)
    ids = [{"message_id": f"{number:010}", "timestamp": NOW} for number in range(4)]
    messages = [
        AssistantMessage(content="Hi", thinking="Hm", tool_calls=(ours, theirs), **ids[0]),
        ToolMessage(content="noted", tool_call_id="c1", **ids[1]),
        ToolMessage(content="seen", tool_call_id="c2", **ids[2]),
        AssistantMessage(content="Done", **ids[3]),
    ]
    sessions.change(session.session_id, lambda each: append_messages(each, *messages, now=NOW))
    return session.session_id


def shown(sessions, session_id):
    return [
        (
            message.content,
            getattr(message, "thinking", None),
            len(getattr(message, "tool_calls", ())),
        )
        for message in sessions.get(session_id).messages
    ]


WHOLE = [("Hi", "Hm", 2), ("noted", None, 0), ("seen", None, 0), ("Done", None, 0)]


@pytest.mark.parametrize(
    ("kind", "name", "left"),
    [
        ("msg", "0000000000", [("", "Hm", 2), *WHOLE[1:]]),
        ("rs", "0000000000", [("Hi", None, 2), *WHOLE[1:]]),
        ("mcp", "c1", [("Hi", "Hm", 1), *WHOLE[2:]]),
        ("fc", "c2", [("Hi", "Hm", 1), WHOLE[1], WHOLE[3]]),
        ("fco", "0000000002", [*WHOLE[:2], WHOLE[3]]),
        ("msg", "0000000003", WHOLE[:3]),
    ],
)
def test_an_item_is_removed_and_nothing_else(sessions, conversations, answered, kind, name, left):
    items = conversations.items(conversation_id(answered))
    removed = item_id(kind, answered, name)
    assert removed in {item["id"] for item in items}
    conversations.remove(conversation_id(answered), removed)
    assert shown(sessions, answered) == left
    with pytest.raises(ItemNotFound):
        conversations.remove(conversation_id(answered), removed)


def test_nothing_tells_of_an_item_that_was_removed(sessions, conversations):
    said = [{"role": "user", "content": text} for text in ("Secret words", "Rain")]
    made = conversations.create(ConversationIn(items=said))
    session_id = session_id_of(made)
    summary = {"summary": "Words were said.", "topics": []}

    def described(session):
        return with_metadata(titled_by_message(session), now=NOW, summary=summary)

    assert sessions.change(session_id, described).metadata.title == "Secret words"
    first, second = (item["id"] for item in conversations.items(made.id))

    conversations.remove(made.id, first)

    metadata = only(sessions).metadata
    assert (metadata.summary, metadata.title, metadata.titled_by) == (None, "Rain", "message")
    assert metadata.summary_due == metadata.history_changed_at == metadata.updated_at
    conversations.remove(made.id, second)
    assert only(sessions).metadata.title is None


@pytest.mark.parametrize("name", ["msg_68ab", "", "conv_0000000000", "msg_00000000000000000000"])
def test_what_is_no_item_of_the_conversation_is_not_removed(
    sessions, conversations, answered, name
):
    with pytest.raises(ItemNotFound):
        conversations.remove(conversation_id(answered), name)
    with pytest.raises(ItemNotFound):
        conversations.item(conversation_id(answered), name)
    assert shown(sessions, answered) == WHOLE


def test_a_custom_call_and_its_output_are_items_of_their_own(sessions, store, conversations):
    call = ToolCall(id="c1", name="patch", arguments={"input": "x"}, client_side=True)
    turn = {"timestamp": NOW, "turn_id": "0" * 20}
    session = sessions.create("m")
    said = [
        AssistantMessage(content="", tool_calls=(call,), message_id="1" * 10, **turn),
        ToolMessage(content="ok", tool_name="patch", tool_call_id="c1", message_id="2" * 10,
                    **turn),
    ]  # fmt: skip
    sessions.repository.update(
        session.session_id, lambda session: append_messages(session, *said, now=NOW)
    )
    record = ResponseRecord(forms={"patch": ToolForm(name="patch", is_custom=True)})
    store.keep(session.session_id, turn["turn_id"], record)
    name = conversation_id(session.session_id)
    made, output = conversations.items(name)
    assert [made["type"], output["type"]] == ["custom_tool_call", "custom_tool_call_output"]
    assert conversations.item(name, made["id"]) == made
    conversations.remove(name, output["id"])
    assert [item["type"] for item in conversations.items(name)] == ["custom_tool_call"]
    conversations.remove(name, made["id"])
    assert conversations.items(name) == []


def test_a_call_of_the_other_side_is_another_item(sessions, conversations, answered):
    with pytest.raises(ItemNotFound):
        conversations.item(conversation_id(answered), item_id("fc", answered, "c1"))


def test_an_output_is_added_to_the_call_that_waits_for_it(sessions, conversations):
    call = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"}
    made = conversations.create(ConversationIn(items=[HELLO, call]))
    output = {"type": "function_call_output", "call_id": "c1", "output": "3"}
    [added] = conversations.add(made.id, ItemsIn(items=[output])).data
    assert (added["type"], added["output"]) == ("function_call_output", "3")
    assert only(sessions).messages[-1].tool_name == "add"
    with pytest.raises(ValidationFailed) as refusal:
        conversations.add(made.id, ItemsIn(items=[output]))
    assert refusal.value.details["field"] == "items[0].call_id"
    assert len(only(sessions).messages) == 3


def test_items_of_another_conversation_are_copied_by_their_ids(conversations, answered):
    names = [item["id"] for item in conversations.items(conversation_id(answered))]
    references = [{"type": "item_reference", "id": name} for name in names]
    made = conversations.create(ConversationIn(items=references))
    copied = conversations.items(made.id)
    assert [item["type"] for item in copied] == [name_type(name) for name in names]
    with pytest.raises(ItemNotFound):
        conversations.create(ConversationIn(items=[{"id": item_id("msg", "0000000000", "0" * 10)}]))


def name_type(name):
    return {
        "msg": "message",
        "rs": "reasoning",
        "mcp": "mcp_call",
        "fc": "function_call",
        "fco": "function_call_output",
    }[name.partition("_")[0]]


@pytest.mark.parametrize(
    ("items", "field"),
    [
        (7, "items"),
        ("Hello!", "items"),
        ([HELLO] * 21, "items"),
        ([{"role": "user"}], "items[0].content"),
        (
            [
                {
                    "type": "mcp_approval_response",
                    "approval_request_id": item_id("mcpr", "0" * 10, "conf_" + "a" * 32),
                    "approve": True,
                }
            ],
            "items[0]",
        ),
    ],
)
def test_a_refused_request_saves_nothing(sessions, conversations, items, field):
    with pytest.raises(ValidationFailed) as refusal:
        conversations.create(convert_body({"items": items}, ConversationIn))
    assert refusal.value.details["field"] == field
    assert sessions.list_sessions() == ()
    made = conversations.create(ConversationIn())
    with pytest.raises(ValidationFailed):
        conversations.add(made.id, convert_body({"items": items}, ItemsIn))
    assert only(sessions).messages == ()


def test_an_item_of_an_older_server_goes_alone_if_calls_of_other_rounds_have_its_id(
    sessions, conversations
):
    made = conversations.create(ConversationIn(items=[HELLO]))
    session_id = session_id_of(made)
    rounds = []
    for number in range(2):
        call = ToolCall(id="c1", name="add", arguments={"a": number})
        asked = AssistantMessage(
            content="", message_id=f"a{number}", timestamp=NOW, tool_calls=(call,)
        )
        result = ToolMessage(
            content=str(number),
            message_id=f"t{number}",
            timestamp=NOW,
            tool_name="add",
            tool_call_id="c1",
        )
        rounds += [asked, result]
    sessions.change(session_id, lambda session: append_messages(session, *rounds, now=NOW))
    first, second = (item for item in conversations.items(made.id) if item["type"] == "mcp_call")
    conversations.remove(made.id, second["id"])
    left = [each for each in only(sessions).messages if isinstance(each, ToolMessage)]
    assert [each.content for each in left] == ["0"]
    conversations.remove(made.id, first["id"])
    assert [each.role for each in only(sessions).messages] == ["user"]


def test_calls_that_were_added_keep_the_form_of_their_tool(sessions, conversations):
    name = conversations.create(ConversationIn()).id
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** Begin"}
    done = {"type": "custom_tool_call_output", "call_id": "c1", "output": "Success."}
    opened = {"type": "function_call", "call_id": "c2", "name": "open", "namespace": "box"}
    items = [call, done, {**opened, "arguments": "{}"}]
    added = conversations.add(name, ItemsIn(items=items)).data
    assert sorted(item["type"] for item in added) == sorted(item["type"] for item in items)
    shown = {item["type"]: item for item in conversations.items(name)}
    assert shown["custom_tool_call"].items() >= call.items()
    assert shown["custom_tool_call_output"].items() >= done.items()
    assert shown["function_call"].items() >= opened.items()
    answers = [each for each in only(sessions).messages if isinstance(each, AssistantMessage)]
    assert [call.name for each in answers for call in each.tool_calls] == ["patch", "box__open"]


def test_the_form_of_a_call_may_have_been_edited(sessions, conversations):
    call = ToolCall(
        id="c1", name="f", arguments={}, client_side=True, extra={"openai_tool": {"name": 1}}
    )
    answer = AssistantMessage(content="", message_id="0a", timestamp=NOW, tool_calls=[call])
    session = sessions.create(model="m")
    sessions.change(session.session_id, lambda each: append_messages(each, answer, now=NOW))
    [item] = conversations.items(conversation_id(session.session_id))
    assert (item["type"], item["name"]) == ("function_call", "f")
