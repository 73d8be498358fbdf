"""Images and texts in a conversation, over real sockets."""

import base64
import hashlib

import pytest

from tests.unit.sessions_app.attachments import images

PICTURE = images.png(padding=100_000)
ID = f"sha256:{hashlib.sha256(PICTURE).hexdigest()}"
LINE = f"[image/png, {len(PICTURE)} bytes, {ID}]"
SEEING = "scripted-vision"


def inline(data, name=None):
    return {"data": base64.b64encode(data).decode(), "name": name}


def answer(chat, session_id, **body):
    reply = chat.http.post(f"/chat/{session_id}", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()["message"]["content"]


def test_a_model_gets_the_images_of_a_message_and_of_the_ones_before(chat):
    session_id = chat.new_session(model=SEEING)
    assert LINE in answer(
        chat, session_id, message="Who is it?", attachments=[inline(PICTURE, "cat.png")]
    )
    [asked, _] = chat.messages(session_id)
    [cat] = asked["attachments"]
    assert asked["content"] == "Who is it?"
    assert (cat["id"], cat["name"], cat["media_type"]) == (ID, "cat.png", "image/png")
    assert (cat["width"], cat["height"], cat["size"]) == (2, 1, len(PICTURE))
    assert len(chat.http.get(f"/sessions/{session_id}/export").content) < 5000
    for message in ({}, {"message": ""}, {"message": " \n"}):
        assert LINE in answer(chat, session_id, **message, attachments=[ID])
        assert chat.messages(session_id)[-2]["content"] == ""


def test_the_first_event_tells_what_became_of_the_files_that_came_with_the_request(chat):
    session_id = chat.new_session(model=SEEING)
    with chat.stream(session_id, attachments=[inline(PICTURE, "cat.png")]) as events:
        [cat] = next(events).data["attachments"]
        assert (cat["id"], cat["name"], cat["size"]) == (ID, "cat.png", len(PICTURE))
        list(events)
    assert chat.messages(session_id)[0]["attachments"] == [cat]
    with chat.stream(session_id, message="And now?") as events:
        assert "attachments" not in next(events).data
        list(events)


def test_an_answer_is_made_again_with_its_images(chat):
    session_id = chat.new_session(model=SEEING)
    answer(chat, session_id, message="Who?", attachments=[inline(PICTURE)])
    assert LINE in answer(chat, session_id)
    chat.http.put(f"/sessions/{session_id}/messages/0", json={"content": "Where?"})
    assert LINE in answer(chat, session_id)
    fork = chat.http.post(f"/sessions/{session_id}/fork", json={}).json()["session_id"]
    assert LINE in answer(chat, fork)
    chat.http.put(
        f"/sessions/{session_id}/messages/0", json={"content": "What?", "attachments": []}
    )
    assert "sha256" not in answer(chat, session_id)


def test_a_text_file_is_part_of_the_message_for_every_model(chat):
    session_id = chat.new_session(model="scripted-plain")
    said = answer(chat, session_id, message="Read:", attachments=[inline(b"# Notes\n", "notes.md")])
    assert said.endswith("Read:\n\nnotes.md:\n```\n# Notes\n```")
    assert chat.messages(session_id)[0]["content"] == "Read:"


def test_a_blind_model_is_shown_no_image_and_goes_on_after_one(chat):
    blind = chat.new_session(model="scripted-plain")
    refused = chat.http.post(
        f"/chat/{blind}", json={"message": "Who?", "attachments": [inline(PICTURE)]}
    )
    assert refused.status_code == 422
    assert refused.json()["error"]["details"]["field"] == "attachments"
    assert chat.messages(blind) == []

    session_id = chat.new_session(model=SEEING)
    answer(chat, session_id, message="Who?", attachments=[inline(PICTURE, "cat.png")])
    chat.http.patch(f"/sessions/{session_id}", json={"model": "scripted-plain"})
    assert "[image cat.png left out]" in answer(chat, session_id)


def test_images_of_old_messages_are_left_out_before_any_message_is(chat):
    session_id = chat.new_session(model=SEEING)
    chat.http.patch(f"/sessions/{session_id}", json={"context_window": 4096})
    cats = [inline(PICTURE, f"cat{number}.png") for number in range(3)]
    answer(chat, session_id, message="Who?", attachments=cats)
    (asked, _) = chat.http.get(f"/sessions/{session_id}/context").json()["messages"]
    assert [each["tokens"] for each in asked["attachments"]] == [1000] * 3

    # The scripted model counts no images, but what another one counted is no count of its own.
    chat.http.patch(f"/sessions/{session_id}", json={"model": f"{SEEING}:latest"})
    assert LINE in answer(chat, session_id, message="And who?", attachments=cats[:1])

    context = chat.http.get(f"/sessions/{session_id}/context").json()
    old, _, new, _ = context["messages"]
    assert {each["left_out"] for each in old["attachments"]} == {"too_long"}
    assert {each["left_out"] for each in new["attachments"]} == {None}
    assert context["left_out"] == []
    assert len(chat.messages(session_id)[0]["attachments"]) == 3


@pytest.mark.parametrize(
    ("attachments", "status", "field"),
    [
        ([{"data": "%%%"}], 422, "attachments.0"),
        ([{"data": "data:text/plain,x"}], 422, "attachments.0"),
        ([{"data": "%%%"}] * 21, 422, "attachments"),
        (["sha256:" + "0" * 64], 404, "attachments.0"),
        ([inline(b"\x00\x01")], 422, "attachments.0"),
        ([inline(b"")], 422, "attachments.0"),
        ([inline(images.png(40_000, 40_000))], 422, "attachments.0"),
        ([{"id": ID, "data": "eA=="}], 422, "attachments.0"),
        ([5], 422, "attachments.0"),
        ("cat.png", 422, "attachments"),
        ([inline(b"x")] * 21, 422, "attachments"),
    ],
)
def test_what_is_no_attachment_is_refused_and_leaves_nothing(chat, attachments, status, field):
    session_id = chat.new_session(model=SEEING)
    refused = chat.http.post(
        f"/chat/{session_id}", json={"message": "Who?", "attachments": attachments}
    )
    assert refused.status_code == status, refused.text
    assert refused.json()["error"]["details"]["field"] == field
    assert chat.messages(session_id) == []
