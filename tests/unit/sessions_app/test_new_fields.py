"""A field of a message or a session is declared in its struct and nowhere else."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sessions_app

# For a process of its own, in which the struct has two more fields before anything imports it.
SCRIPT = """
import json
from typing import Annotated

import django
import msgspec
from msgspec import Meta

from sessions_app import messages, session as sessions


class Mood(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    joy: int


class AssistantMessage(messages.AssistantMessage, frozen=True, kw_only=True, gc=False):
    trace_id: Annotated[str | None, Meta(description="where it was traced")] = None
    mood: Mood | None = None


messages.MESSAGE_TYPES = tuple(
    AssistantMessage if found is messages.AssistantMessage else found
    for found in messages.MESSAGE_TYPES
)
messages.AssistantMessage = AssistantMessage


class SessionMetadata(sessions.SessionMetadata, frozen=True, kw_only=True):
    title: str | None = None


sessions.SessionMetadata = SessionMetadata
django.setup()

from mochi_project.api import api
from sessions_app.format.codec import decode, encode, to_json
from sessions_app.format.json_pieces import json_pieces
from sessions_app.format.to_json import many_messages
from sessions_app.session import Session

ID, NOW = "a1b2c3d4e5", "2026-11-21T10:00:00.000000+00:00"
without = AssistantMessage(content="Yes.", message_id="1", timestamp=NOW)
message = msgspec.structs.replace(without, trace_id="t1", mood=Mood(joy=3))
session = Session(
    metadata=SessionMetadata(
        session_id=ID, model="m", created_at=NOW, updated_at=NOW, title="Yes and no"
    ),
    messages=(message, without),
)
file = encode(session)
reply = b"".join(json_pieces({"messages": many_messages(session.messages)}, to_json))
with_unknown_key = decode(file.replace(b'"t1"', b'"t1", "x": 1'), ID).messages[0]
newer = file.replace(b'"joy": 3', b'"joy": 3, "awe": 1')
print(json.dumps({
    "file": json.loads(file)["messages"],
    "reply": json.loads(reply)["messages"],
    "is read again": decode(file, ID).messages == session.messages,
    "metadata": json.loads(file)["metadata"],
    "titles that are read": [
        decode(data, ID).metadata.title
        for data in (file, file.replace(b'"title"', b'"x": 1, "title"'))
    ],
    "is read beside unknown keys": (with_unknown_key.trace_id, with_unknown_key.mood.joy),
    "of a newer server": json.loads(encode(decode(newer, ID)))["messages"][0]["mood"],
    "schema": api.get_openapi_schema()["components"]["schemas"]["MessageOut"]["properties"],
}))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    run = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("place", ["file", "reply"])
def test_a_new_field_is_written_where_it_is_set(found: dict[str, Any], place: str) -> None:
    message, without = found[place]
    assert (message["trace_id"], message["mood"]) == ("t1", {"joy": 3})
    assert [*message][-2:] == ["trace_id", "mood"], "after the keys that older servers know"
    assert not {"trace_id", "mood"} & {*without}


def test_a_new_field_is_read_again(found: dict[str, Any]) -> None:
    assert found["is read again"]
    assert found["is read beside unknown keys"] == ["t1", 3]


def test_a_value_of_a_newer_server_is_kept_whole(found: dict[str, Any]) -> None:
    assert found["of a newer server"] == {"joy": 3, "awe": 1}


def test_a_new_field_is_in_the_openapi_document(found: dict[str, Any]) -> None:
    assert found["schema"]["trace_id"] == {
        "anyOf": [{"type": "string"}, {"type": "null"}],
        "description": "assistant: where it was traced",
        "title": "Trace Id",
    }


def test_no_other_file_of_the_app_names_a_field() -> None:
    naming = [
        path.name
        for path in Path(sessions_app.__path__[0]).rglob("*.py")
        if "done_reason" in path.read_text()
    ]
    assert naming == ["messages.py"]


def test_a_new_field_of_a_session_is_written_and_read_again(found: dict[str, Any]) -> None:
    assert [*found["metadata"].items()][-1] == ("title", "Yes and no")
    assert found["titles that are read"] == ["Yes and no", "Yes and no"], "beside unknown keys too"
