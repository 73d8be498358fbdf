"""One image through every door, to every provider: what comes out is what went in."""

import base64
import hashlib
import json
import secrets
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.conftest import ROOT, Chat, Server, StartServer
from tests.functional.processes import run_process
from tests.unit.sessions_app.attachments.images import png

MODELS = [
    "scripted-vision:latest",
    "anthropic:claude-haiku-4-5",
    "openai:gpt-5.1",
    "google:gemini-2.5-flash",
    "openrouter:google/gemma-3-4b-it",
    "mine:qwen3:14b",
]
CAT = png(3, 2, padding=5000)
CAT_ID = f"sha256:{hashlib.sha256(CAT).hexdigest()}"
IN_BASE64 = base64.b64encode(CAT).decode()
DATA_URL = f"data:image/png;base64,{IN_BASE64}"

every_provider = pytest.mark.parametrize("model", MODELS, ids=lambda name: name.partition(":")[0])


@pytest.fixture(scope="module")
def server(start_once: StartServer, asked: Any) -> Server:
    return start_once(**asked.variables)


def upload(chat: Chat, data: bytes, name: str = "cat.png") -> dict[str, Any]:
    answer = chat.http.post("/attachments", files={"file": (name, data, "image/png")})
    assert answer.status_code in {200, 201}, answer.text
    return dict(answer.json())


def named(attachment: dict[str, Any]) -> dict[str, Any]:
    return {"id": attachment["id"], "name": attachment["name"]}


def strings_in(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from strings_in(each)
        case list():
            for each in value:
                yield from strings_in(each)


def images_in(body: Any) -> list[bytes]:
    """Return what a request of any vendor's protocol holds in base64."""
    found = []
    for text in strings_in(body):
        encoded = text.rpartition(";base64,")[2]
        if len(encoded) > 1000:
            found.append(base64.b64decode(encoded))
    return found


def by_reference(chat: Chat, model: str) -> None:
    attachments = [upload(chat, CAT)["id"]]
    session = chat.new_session(model=model)
    body = {"message": "What is this?", "attachments": attachments}
    chat.http.post(f"/chat/{session}", json=body).raise_for_status()


def inline(chat: Chat, model: str) -> None:
    attachments = [{"data": IN_BASE64, "name": "cat.png"}]
    body = {"model": model, "message": "What is this?", "attachments": attachments}
    chat.http.post("/chat", json=body).raise_for_status()


def chat_completions(chat: Chat, model: str) -> None:
    content = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": DATA_URL}},
    ]
    messages = [{"role": "user", "content": content}]
    url = str(chat.http.base_url).replace("/api/v1", "/v1")
    body = {"model": model, "messages": messages}
    chat.http.post(f"{url}chat/completions", json=body).raise_for_status()


def responses(chat: Chat, model: str) -> None:
    content = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": DATA_URL},
    ]
    url = str(chat.http.base_url).replace("/api/v1", "/v1")
    body = {"model": model, "input": [{"role": "user", "content": content}]}
    chat.http.post(f"{url}responses", json=body).raise_for_status()


def ai_sdk(chat: Chat, model: str) -> None:
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "file", "mediaType": "image/png", "url": DATA_URL, "filename": "cat.png"},
    ]
    messages = [{"id": "u1", "role": "user", "parts": parts}]
    body = {"id": secrets.token_hex(8), "model": model, "messages": messages}
    answer = chat.http.post("/ui/chat", json=body)
    assert '"type":"finish"' in answer.raise_for_status().text


def ag_ui(chat: Chat, model: str) -> None:
    source = {"type": "data", "value": IN_BASE64, "mimeType": "image/png"}
    content = [{"type": "text", "text": "What is this?"}, {"type": "image", "source": source}]
    body = {
        "threadId": secrets.token_hex(8),
        "runId": "run-1",
        "state": {},
        "tools": [],
        "context": [],
        "forwardedProps": {"model": model},
        "messages": [{"id": "u1", "role": "user", "content": content}],
    }
    answer = chat.http.post("/agui", json=body)
    assert '"type":"RUN_FINISHED"' in answer.raise_for_status().text


@every_provider
@pytest.mark.parametrize(
    "send",
    [by_reference, inline, chat_completions, responses, ai_sdk, ag_ui],
    ids=lambda send: send.__name__,
)
def test_the_provider_gets_the_bytes_that_were_sent(
    chat: Chat, asked: Any, model: str, send: Callable[[Chat, str], None]
) -> None:
    before = len(asked.requests)
    send(chat, model)
    sent = [images for body in asked.requests[before:] if (images := images_in(body))]
    assert sent == [[CAT]]


def test_a_session_with_ten_mebibytes_has_a_small_file(chat: Chat, server: Server) -> None:
    large = upload(chat, png(800, 600, padding=10 << 20))
    session = chat.new_session(model=MODELS[0])
    body = {"message": "What is this?", "attachments": [named(large)]}
    chat.http.post(f"/chat/{session}", json=body).raise_for_status()
    assert (server.data_dir / "chat_sessions" / f"{session}.json").stat().st_size < 5000
    assert chat.messages(session)[0]["attachments"][0] == large


def test_forks_share_one_file(chat: Chat, server: Server) -> None:
    data = png(7, 7, padding=3000)
    image = upload(chat, data)
    session = chat.new_session(model=MODELS[0])
    body = {"message": "What is this?", "attachments": [named(image)]}
    chat.http.post(f"/chat/{session}", json=body).raise_for_status()
    files = sorted((server.data_dir / "attachments").glob("??/*"))
    forks = [
        chat.http.post(f"/sessions/{session}/fork", json={}).json()["session_id"] for _ in range(5)
    ]
    chat.http.delete(f"/sessions/{session}").raise_for_status()
    assert sorted((server.data_dir / "attachments").glob("??/*")) == files
    for fork in forks:
        assert chat.messages(fork)[0]["attachments"] == [image]
    assert chat.http.get(f"/attachments/{image['id']}").content == data


@pytest.mark.parametrize(
    "page",
    [b"<!doctype html><script>alert(1)</script>", b"<svg xmlns='http://www.w3.org/2000/svg'/>"],
    ids=["html", "svg"],
)
def test_a_page_that_is_called_a_picture_is_downloaded_and_never_shown(
    chat: Chat, page: bytes
) -> None:
    kept = upload(chat, page, "cute.png")
    assert kept["media_type"] == "text/plain"
    answer = chat.http.get(f"/attachments/{kept['id']}")
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]


def test_a_session_moves_to_another_server_with_its_image(
    chat: Chat, server: Server, tmp_path: Path
) -> None:
    image = upload(chat, CAT)
    session = chat.new_session(model=MODELS[0])
    body = {"message": "What is this?", "attachments": [named(image)]}
    chat.http.post(f"/chat/{session}", json=body).raise_for_status()
    answer = chat.http.get(f"/sessions/{session}/export", params={"format": "zip"})
    (tmp_path / "cat.zip").write_bytes(answer.content)
    (tmp_path / "there").mkdir()
    report = json.loads(command(tmp_path / "there", "sessions", "import", "../cat.zip", "--json"))
    assert report["sessions"][0]["outcome"] == "imported"
    ours = server.data_dir / "chat_sessions" / f"{session}.json"
    assert (tmp_path / "there" / "chat_sessions" / ours.name).read_bytes() == ours.read_bytes()
    again = tmp_path / "again.zip"
    command(tmp_path / "there", "sessions", "export", session, "--with-attachments",
            "--output", str(again))  # fmt: skip
    with zipfile.ZipFile(again) as file:
        assert CAT in [file.read(name) for name in file.namelist()]
    assert again.read_bytes() == answer.content


def command(folder: Path, *words: str) -> str:
    ended = run_process(
        [sys.executable, "-m", "mochi_server", *words],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "MOCHI_DATA_DIR": str(folder)},
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
