"""Conversations become sessions, with ids that say where they were before."""

from typing import Any

import msgspec

from sessions_app.format.codec import decode, encode
from sessions_app.labels import TITLE_LENGTH
from sessions_app.messages import ToolCall
from sessions_app.session import Session
from tests.unit.transfer_app.stores import NOW
from transfer_app.conversion import message_ids, session_id_of, session_of
from transfer_app.formats.conversation import (
    Branch,
    GivenFile,
    ImportedConversation,
    ImportedMessage,
)

CAT = GivenFile(name="cat.png", pointer="file-1")
LOST = GivenFile(name="dog\n.png", pointer="file-2")
QUESTION = ImportedMessage(role="user", key="1", content="Which?", timestamp=NOW, files=(CAT, LOST))
ANSWER = ImportedMessage(
    role="assistant",
    key="2",
    content="A cat.",
    thinking="Whiskers.",
    tool_calls=(ToolCall(id="c", name="look", arguments={"at": 1}),),
)
RESULT = ImportedMessage(role="tool", key="3", content="cat", tool_name="look", tool_call_id="c")
SHOWN = Branch(messages=(QUESTION, ANSWER, RESULT))


def conversation(**known: Any) -> ImportedConversation:
    return ImportedConversation(**{"source": "claude", "id": "1", "branches": [SHOWN], **known})


def made(branch: Branch = SHOWN, *, forked_from: str | None = None, **known: Any) -> Session:
    return session_of(
        conversation(**known),
        branch,
        {},
        session_id="0123456789",
        model="m",
        now="2030-01-01T00:00:00.000000+00:00",
        forked_from=forked_from,
    )


def test_messages_are_taken_with_all_that_is_known_of_them() -> None:
    session = made(model="sonnet")
    question, answer, result = session.messages
    assert question.content == "Which?\n[file cat.png left out]\n[file dog.png left out]"
    assert (answer.thinking, answer.tool_calls) == ("Whiskers.", ANSWER.tool_calls)  # type: ignore[union-attr]
    assert answer.model == "sonnet"  # type: ignore[union-attr]
    assert result.tool_call_id == "c"  # type: ignore[union-attr]
    assert {message.timestamp for message in session.messages} == {NOW}
    assert len({message.message_id for message in session.messages}) == 3


def test_a_session_has_the_times_and_labels_of_the_conversation() -> None:
    metadata = made(
        title=" On \n cats " + "x" * 300,
        created_at="2025-01-01T00:00:00.000000+00:00",
        updated_at="2025-01-02T00:00:00.000000+00:00",
        pinned=True,
        archived=True,
    ).metadata
    assert metadata.title is not None
    assert metadata.title.startswith("On cats")
    assert len(metadata.title) <= TITLE_LENGTH
    assert metadata.titled_by == "person"
    assert (metadata.created_at[:10], metadata.updated_at[:10]) == ("2025-01-01", "2025-01-02")
    assert (metadata.pinned, metadata.archived) == (True, True)
    assert metadata.imported_from == {"source": "claude", "id": "1"}


def test_what_has_no_title_is_called_by_its_first_words() -> None:
    metadata = made(title=" ").metadata
    assert metadata.title is not None
    assert metadata.title.startswith("Which?")
    assert metadata.titled_by == "message"


def test_another_branch_is_a_fork_and_is_not_pinned() -> None:
    branch = Branch(messages=(QUESTION,), leaf="n9", shared=1)
    metadata = made(branch, forked_from="abcdef0123", instructions="x", pinned=True).metadata
    assert metadata.forked_from == {"session_id": "abcdef0123", "message_index": 1}
    assert metadata.pinned is None
    assert metadata.imported_from == {"source": "claude", "id": "1", "branch": "n9"}


def test_ids_are_the_same_in_every_import_and_differ_otherwise() -> None:
    other = Branch(messages=SHOWN.messages, leaf="x")
    ids = [
        session_id_of(conversation(), SHOWN, 0),
        session_id_of(conversation(), SHOWN, 1),
        session_id_of(conversation(), other, 0),
        session_id_of(conversation(id="2"), SHOWN, 0),
        session_id_of(conversation(source="chatgpt"), SHOWN, 0),
        session_id_of(conversation(source="claude1", id=""), SHOWN, 0),
    ]
    assert len(set(ids)) == len(ids)
    assert ids[0] == session_id_of(conversation(title="Renamed"), SHOWN, 0)
    assert message_ids(conversation(), SHOWN) == message_ids(conversation(title="x"), other)


def test_an_older_server_keeps_where_a_session_was_before() -> None:
    file = encode(made())
    kept = decode(file, "0123456789")
    assert kept.metadata.imported_from == {"source": "claude", "id": "1"}
    assert encode(msgspec.structs.replace(kept)) == file
