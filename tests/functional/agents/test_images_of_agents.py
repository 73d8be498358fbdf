"""Images that agents are shown with what they shall do, and that their tools return."""

import base64
import hashlib
import json

import pytest

from tests.functional.agents.conftest import calls
from tests.unit.sessions_app.attachments.images import gif, png

PLAN = "1. Draw it."


@pytest.fixture(scope="module")
def server(start_once):
    return start_once(MOCHI_DEFAULT_MODEL="scripted-vision:latest")


def kept(server, data):
    """Return the file in which the server keeps these bytes."""
    digest = hashlib.sha256(data).hexdigest()
    return server.data_dir / "attachments" / digest[:2] / digest


def reference(data, name, media_type):
    return {
        "id": f"sha256:{hashlib.sha256(data).hexdigest()}",
        "name": name,
        "media_type": media_type,
        "size": len(data),
        "width": 2,
        "height": 1,
    }


def attached(chat):
    """Return the attachments of an agent's messages, by role."""
    return [(m["role"], m["attachments"]) for m in chat["messages"] if m.get("attachments")]


def test_an_agent_sees_what_the_user_attached_and_hands_on_what_its_tools_returned(scribe):
    shown = gif()
    cat = reference(shown, "cat.gif", "image/gif")
    file = kept(scribe.server, shown)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(shown)
    session_id = scribe.new_session()
    drawing = calls(("draw", {"pixels": png().hex()}))
    asked = scribe.message(scribe.instruct(PLAN, drawing, "Drawn."))
    path = scribe.server.data_dir / "chat_sessions" / f"{session_id}.json"
    session = json.loads(path.read_text())
    said = {"role": "user", "content": asked, "message_id": "0123456789", "attachments": [cat]}
    said["timestamp"] = session["metadata"]["created_at"]
    session["messages"].append(said)
    path.write_text(json.dumps(session))

    events = scribe.chat.say(session_id)

    drawn = reference(png(), "draw.png", "image/png")
    [result] = [e.data for e in events if e.name == "agent_tool_result"]
    assert result["attachments"] == [drawn]
    assert result["result"] == f"[draw.png, {len(png())} bytes]"
    assert kept(scribe.server, png()).read_bytes() == png()
    [complete] = [e.data for e in events if e.name == "agent_complete"]
    inside = scribe.agent_chat(complete["session_id"])
    assert attached(inside) == [("user", [cat]), ("tool", [drawn])]
    told = [m for m in scribe.chat.messages(session_id) if m["role"] == "tool"]
    assert [m["attachments"] for m in told] == [[drawn]]
    [ended] = [e.data for e in events if e.name == "message_complete"]
    assert [call["attachments"] for call in ended["tool_calls"]] == [[drawn]]


def test_an_agent_that_is_the_model_sees_an_image_without_a_word(scribe):
    session_id = scribe.chat.new_session(model="agent:scribe")
    image = {"data": base64.b64encode(png()).decode(), "name": "cat.png"}

    answer = scribe.chat.http.post(f"/chat/{session_id}", json={"attachments": [image]})

    assert answer.status_code == 200, answer.text
    plan = answer.json()["message"]["thinking"]
    assert f"[image/png, {len(png())} bytes, sha256:{hashlib.sha256(png()).hexdigest()}]" in plan
