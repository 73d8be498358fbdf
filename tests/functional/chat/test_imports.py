"""Exports of other programs come in over HTTP, and all sessions go out, over real sockets."""

import io
import json
import zipfile

import httpx
import pytest

from tests.unit.sessions_app.attachments import images
from tests.unit.transfer_app.formats.exports import FOLDER

CAT = images.png()
MOST = 300_000


@pytest.fixture(scope="module")
def server(start_once):
    return start_once(MOCHI_MAX_IMPORT_BYTES=str(MOST))


@pytest.fixture(scope="module")
def export() -> bytes:
    """ChatGPT's zip file with an image, as it comes by mail."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.write(FOLDER / "chatgpt.json", "conversations.json")
        file.writestr("file-Cat1-cat.png", CAT)
        file.writestr("chat.html", "<html>")
    return out.getvalue()


def take_in(chat, data, **params):
    reply = chat.http.post("/import", content=data, params=params, timeout=60)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_conversation_comes_in_with_its_images_and_goes_on_here(chat, export):
    tried = take_in(chat, export, dry_run=True, model="scripted-vision")
    assert (tried["imported"], tried["broken"]) == (1, 1)
    session_id = tried["sessions"][0]["session_id"]
    assert chat.http.get(f"/sessions/{session_id}").status_code == 404

    done = take_in(chat, export, model="scripted-vision")
    assert (done["imported"], done["attachments_added"]) == (1, 1)
    session = chat.http.get(f"/sessions/{session_id}").json()
    assert (session["title"], session["archived"]) == ("Cats and numbers", True)
    (cat,) = session["messages"][1]["attachments"]
    assert chat.http.get(f"/attachments/{cat['id']}").content == CAT

    reply = chat.http.post(f"/chat/{session_id}", json={"message": "And 4 years?"})
    assert reply.status_code == 200, reply.text
    again = take_in(chat, export, model="scripted-vision")
    assert (again["imported"], again["same"]) == (0, 1)


def test_a_form_with_an_export_is_taken_in(chat):
    reply = chat.http.post(
        "/import",
        params={"branches": True},
        files={"file": ("librechat.json", (FOLDER / "librechat.json").read_bytes())},
    )
    assert (reply.json()["imported"], reply.json()["branches"]) == (2, 1)
    shown, other = (each["session_id"] for each in reply.json()["sessions"])
    fork = chat.http.get(f"/sessions/{other}").json()
    assert fork["forked_from"] == {"session_id": shown, "message_index": 1}


def test_a_file_beyond_the_bound_is_refused_and_the_setting_named(chat):
    reply = chat.http.post("/import", content=b"[" + b" " * (MOST + 100_000))
    assert reply.status_code == 413
    assert reply.json()["error"]["code"] == "PAYLOAD_TOO_LARGE"
    assert "MOCHI_MAX_IMPORT_BYTES" in reply.json()["error"]["message"]
    assert reply.json()["error"]["details"]["max_bytes"] == MOST


@pytest.mark.parametrize(
    ("data", "headers"),
    [(b"PK\x03\x04", {}), (b"x", {"content-type": "multipart/form-data; boundary=y"})],
)
def test_what_can_not_be_read_at_all_is_refused(chat, data, headers):
    reply = chat.http.post("/import", content=data, headers=headers)
    assert reply.status_code == 422
    assert reply.json()["error"]["code"] == "VALIDATION_ERROR"


def test_all_sessions_go_out_and_are_known_again(chat, server, export):
    take_in(chat, export, model="scripted-vision")
    lines = chat.http.get("/export").text.splitlines()
    files = {
        path.stem: json.loads(path.read_bytes())
        for path in (server.data_dir / "chat_sessions").glob("*.json")
    }
    assert {json.loads(line)["metadata"]["session_id"]: json.loads(line) for line in lines} == files
    packed = chat.http.get("/export", params={"format": "zip"}).content
    told = take_in(chat, packed)
    assert (told["same"], told["imported"], told["different"]) == (len(files), 0, 0)


def test_who_leaves_in_the_middle_of_an_upload_leaves_nothing(chat, server):
    def half():
        yield b'[{"uuid": "1", "chat_messages": ['
        raise RuntimeError("The client leaves.")

    with httpx.Client(base_url=chat.http.base_url) as client, pytest.raises(RuntimeError):
        client.post("/import", content=half())
    reply = chat.http.post("/import", content=b"[]")
    while reply.status_code == 503:  # until the server has seen that it left
        assert reply.json()["error"]["code"] == "IMPORT_RUNNING"
        assert reply.headers["retry-after"] == "5"
        reply = chat.http.post("/import", content=b"[]")
    assert reply.json()["imported"] == 0
