"""Images and files in both protocols, as the official package sends them, on a real server."""

import base64
import hashlib

import httpx
import openai
import pytest

from mochi_server.testing import Reply, ToolCall
from tests.functional.conftest import NO_TLS
from tests.functional.dialects.completions import HELLO, native
from tests.functional.dialects.responding import WEATHER, session_of, sessions
from tests.unit.sessions_app.attachments.images import png

CAT = png(3, 2)
CAT_ID = f"sha256:{hashlib.sha256(CAT).hexdigest()}"
DATA_URL = f"data:image/png;base64,{base64.b64encode(CAT).decode()}"
IN_CHAT = {"type": "image_url", "image_url": {"url": DATA_URL}}
IN_RESPONSES = {"type": "input_image", "image_url": DATA_URL, "detail": "auto"}
ADDRESS = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}

MODEL = "scripted-vision:latest"
BLIND = "qwen3:14b"


def complete(client, *messages, model=MODEL, **fields):
    return client.chat.completions.create(model=model, messages=messages, **fields)


def respond(client, said, model=MODEL, **fields):
    return client.responses.create(model=model, input=said, **fields)


def user(*parts):
    return {"role": "user", "content": list(parts)}


def images_of_model(server):
    """Return the images that the model was sent last, message by message."""
    return [
        [base64.b64decode(image) for image in message.get("images") or ()]
        for message in server.model_requests[-1]["messages"]
        if message["role"] != "system"
    ]


def stored(server):
    folder = server.data_dir / "attachments"
    return sorted(path.name for path in folder.glob("??/*"))


def test_a_completion_shows_the_model_the_very_bytes(scripted, client):
    complete(client, user({"type": "text", "text": "What is it?"}, IN_CHAT))
    assert images_of_model(scripted) == [[CAT]]


def test_a_history_that_is_sent_again_is_stored_once(scripted, client):
    before = len(native(scripted, "/sessions")["sessions"])
    history = [user(IN_CHAT), {"role": "assistant", "content": "A cat."}]
    for _ in range(3):
        complete(client, *history, HELLO)
        history += [HELLO, {"role": "assistant", "content": "Yes."}]
    assert stored(scripted).count(CAT_ID.removeprefix("sha256:")) == 1
    assert images_of_model(scripted)[0] == [CAT]
    assert len(native(scripted, "/sessions")["sessions"]) == before


def test_a_session_is_continued_without_saying_its_images_twice(scripted, client):
    question = user({"type": "text", "text": "What is it?"}, IN_CHAT)
    scripted.script(Reply("A cat."))
    before = set(sessions(scripted))
    complete(client, question, store=True)
    [session_id] = set(sessions(scripted)) - before
    answer = {"role": "assistant", "content": "A cat."}
    complete(client, question, answer, HELLO, extra_headers={"x-mochi-session-id": session_id})
    messages = native(scripted, f"/sessions/{session_id}/messages")["messages"]
    said = [message for message in messages if message["role"] == "user"]
    assert [len(message.get("attachments") or ()) for message in said] == [1, 0]
    assert images_of_model(scripted) == [[CAT], [], []]
    file = scripted.data_dir / "chat_sessions" / f"{session_id}.json"
    assert CAT_ID in file.read_text()
    assert DATA_URL[30:] not in file.read_text()


def test_a_response_takes_images_by_their_bytes_and_by_their_id(scripted, client):
    by_bytes = respond(client, [user({"type": "input_text", "text": "What?"}, IN_RESPONSES)])
    assert images_of_model(scripted) == [[CAT]]
    [shown] = client.responses.input_items.list(by_bytes.id).data
    assert [part.type for part in shown.content] == ["input_text", "input_image"]
    assert shown.content[1].file_id == CAT_ID
    respond(client, [user({"type": "input_image", "file_id": CAT_ID, "detail": "auto"})])
    assert images_of_model(scripted) == [[CAT]]
    respond(client, "And now?", previous_response_id=by_bytes.id)
    assert images_of_model(scripted) == [[CAT], [], []]
    respond(client, [{"type": "item_reference", "id": shown.id}])
    assert images_of_model(scripted) == [[CAT]]


def test_a_text_file_is_read_by_the_model(scripted, client):
    data = base64.b64encode(b"The cat is grey.").decode()
    part = {"type": "input_file", "file_data": data, "filename": "cat.txt"}
    respond(client, [user({"type": "input_text", "text": "What colour?"}, part)])
    sent = scripted.model_requests[-1]["messages"][-1]["content"]
    assert "cat.txt" in sent
    assert "The cat is grey." in sent


def test_an_upload_is_named_by_its_id(scripted, client):
    dog = png(5, 4)
    upload = httpx.post(
        f"{scripted.api_url}/attachments?name=dog.png",
        content=dog,
        headers={"content-type": "image/png"},
        trust_env=False,
        verify=NO_TLS,
        timeout=30,
    )
    assert upload.status_code == 201
    part = {"type": "file", "file": {"file_id": upload.json()["id"]}}
    complete(client, user(part))
    assert images_of_model(scripted) == [[dog]]


def test_an_output_of_a_clients_tool_can_be_an_image(scripted, client):
    scripted.script(Reply(tool_calls=[ToolCall("get_weather", {"city": "Paris"})]))
    asked = respond(client, "Look out.", tools=[WEATHER])
    [call] = asked.output
    output = {"type": "function_call_output", "call_id": call.call_id, "output": [IN_RESPONSES]}
    answered = respond(client, [output], previous_response_id=asked.id, tools=[WEATHER])
    assert CAT in [image for images in images_of_model(scripted) for image in images]
    items = client.responses.input_items.list(answered.id).data
    [shown] = [item for item in items if item.type == "function_call_output"]
    assert [part.file_id for part in shown.output] == [CAT_ID]


def test_a_conversation_keeps_images_as_parts(scripted, client):
    made = client.conversations.create(items=[user(IN_RESPONSES)])
    client.conversations.items.create(made.id, items=[user(IN_RESPONSES)])
    items = client.conversations.items.list(made.id, order="asc").data
    assert [[part.file_id for part in item.content] for item in items] == [[CAT_ID], [CAT_ID]]
    respond(client, "What do you see?", conversation=made.id)
    assert images_of_model(scripted) == [[CAT], [CAT], []]


@pytest.mark.parametrize(
    ("part", "code", "param"),
    [
        (ADDRESS, "invalid_image_url", "image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}},
         "invalid_base64_image", "image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,PHN2Zy8+"}},
         "unsupported_image_media_type", "image_url.url"),
        ({"type": "file", "file": {"file_id": f"sha256:{'0' * 64}"}},
         "attachment_not_found", "file.file_id"),
    ],
)  # fmt: skip
def test_what_is_not_taken_is_refused_in_openais_shape_and_nothing_is_saved(
    scripted, client, part, code, param
):
    before = sessions(scripted)
    with pytest.raises(openai.APIStatusError) as refusal:
        complete(client, user(part), store=True)
    assert (refusal.value.code, refusal.value.param) == (code, f"messages[0].content[0].{param}")
    assert refusal.value.status_code in (400, 404)
    assert sessions(scripted) == before
    assert scripted.model_requests == []


def test_a_session_file_holds_no_bytes(scripted, client):
    scripted.script(Reply("A cat."))
    large = png(padding=300_000)
    url = f"data:image/png;base64,{base64.b64encode(large).decode()}"
    made = respond(client, [user({"type": "input_image", "image_url": url, "detail": "auto"})])
    assert images_of_model(scripted) == [[large]]
    file = scripted.data_dir / "chat_sessions" / f"{session_of(made)}.json"
    assert file.stat().st_size < 5_000


def test_a_blind_model_is_shown_no_new_images_and_told_of_old_ones(scripted, client):
    for ask, parts, param in [
        (complete, user(IN_CHAT), "messages[0]"),
        (respond, [user(IN_RESPONSES)], "input"),
    ]:
        with pytest.raises(openai.BadRequestError) as refusal:
            ask(client, parts, model=BLIND)
        assert refusal.value.param == param
    assert scripted.model_requests == []
    complete(client, user(IN_CHAT), {"role": "assistant", "content": "A cat."}, HELLO, model=BLIND)
    first, *_ = [each for each in scripted.model_requests[-1]["messages"] if each["role"] == "user"]
    assert "image.png" in first["content"]
    assert not first.get("images")
