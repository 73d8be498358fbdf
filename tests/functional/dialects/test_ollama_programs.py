"""Programs that speak Ollama's protocol, as they were recorded; and what is Ollama's own."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import httpx
import ollama
import pytest

from mochi_server.testing import MODEL, MochiServer, Reply, ToolCall
from tests.functional.conftest import NO_TLS, Server, StartServer
from tests.functional.dialects.completions import listed_at_ollama, messages

TOKEN = "a-token-for-every-client"
LOADED = {"models": [{"name": "tiny:latest", "model": "tiny:latest", "size_vram": 7}]}


class Ollama(BaseHTTPRequestHandler):
    """What an Ollama server says about models that make embeddings."""

    asked: ClassVar[list[tuple[str, Any]]] = []

    def do_GET(self) -> None:
        self._say({"/api/ps": LOADED, "/api/tags": {"models": []}}.get(self.path))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.path, body))
        said = {"/api/embed": {"embeddings": [[0.5, 1.0]]}, "/api/embeddings": {"embedding": [0.5]}}
        self._say(said.get(self.path) if body["model"] == "tiny" else None)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def _say(self, answer: Any) -> None:
        data = json.dumps(answer or {"error": "model not found"}).encode()
        self.send_response(200 if answer else 404)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture(scope="module")
def before_ollama(start_once: StartServer) -> Iterator[Server]:
    """Return a server in front of an Ollama that makes embeddings, with a token."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Ollama) as upstream:
        serving = threading.Thread(target=upstream.serve_forever)
        serving.start()
        url = f"http://127.0.0.1:{upstream.server_port}"
        yield start_once(MOCHI_OLLAMA_HOST=url, MOCHI_API_TOKEN=TOKEN)
        upstream.shutdown()
        serving.join()


@pytest.fixture
def face(before_ollama: Server) -> Iterator[ollama.Client]:
    with ollama.Client(
        f"{before_ollama.url}/ollama",
        headers={"Authorization": f"Bearer {TOKEN}"},
        trust_env=False,
        verify=NO_TLS,
        timeout=60,
    ) as client:
        yield client


@contextmanager
def http(server: MochiServer | Server, **headers: str) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=f"{server.url}/ollama/",
        headers=headers,
        trust_env=False,
        verify=NO_TLS,
        timeout=60,
    ) as client:
        yield client


def test_embeddings_are_ollamas(face: ollama.Client) -> None:
    Ollama.asked.clear()
    assert face.embed("tiny", ["a", "b"], truncate=False).embeddings == [[0.5, 1.0]]
    assert face.embeddings("ollama:tiny", "a").embedding == [0.5]
    assert [path for path, _ in Ollama.asked] == ["/api/embed", "/api/embeddings"]
    assert Ollama.asked[0][1] == {"model": "tiny", "input": ["a", "b"], "truncate": False}
    assert Ollama.asked[1][1]["model"] == "tiny"
    with pytest.raises(ollama.ResponseError, match="not found") as raised:
        face.embed("huge", "a")
    assert raised.value.status_code == 404


def test_the_loaded_models_are_as_ollama_lists_them(
    face: ollama.Client, before_ollama: Server
) -> None:
    assert [model.size_vram for model in face.ps().models] == [7]
    with http(before_ollama, **{"x-api-key": TOKEN}) as client:
        assert client.get("api/ps").json() == LOADED


@pytest.mark.parametrize("path", ["api/tags", "api/version", ""])
def test_without_the_token_the_guard_says_so_in_a_sentence(
    before_ollama: Server, path: str
) -> None:
    with http(before_ollama) as client:
        refused = client.get(path)
        assert (refused.status_code, refused.json().keys()) == (401, {"error"})


def test_other_hosts_and_pages_are_refused_in_a_sentence(before_ollama: Server) -> None:
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
        with http(before_ollama, **headers) as client:
            refused = client.post("api/chat", json={"model": "x", "messages": []})
            assert refused.status_code == 403
            assert isinstance(refused.json()["error"], str)


def test_without_an_ollama_nothing_is_loaded(start: StartServer) -> None:
    server = start(MOCHI_OLLAMA_HOST="http://127.0.0.1:9")
    with http(server) as client:
        assert client.get("api/ps").json() == {"models": []}


def test_home_assistant_lists_controls_and_answers(scripted: MochiServer) -> None:
    """Home Assistant's integration: no ids of calls, a window of its own, a schema for tasks."""
    turn_on = {
        "type": "function",
        "function": {
            "name": "HassTurnOn",
            "description": "Turns on/opens a device",
            "parameters": {"type": "object", "required": [], "properties": {"name": {}}},
        },
    }
    history: list[Any] = [
        {"role": "system", "content": "You are a voice assistant for Home Assistant."},
        {"role": "user", "content": "Turn on the light.", "tool_calls": None},
    ]
    request = {
        "model": MODEL,
        "stream": True,
        "keep_alive": "-1s",
        "options": {"num_ctx": 8192},
        "think": False,
        "tools": [turn_on],
    }
    scripted.script(ToolCall("HassTurnOn", {"name": "light"}), "It is on.", "ignored")
    with http(scripted) as client:
        assert isinstance(client.get("api/ps").json()["models"], list)
        assert listed_at_ollama(scripted, MODEL)
        first = client.post("api/chat", json={**request, "messages": history})
        *_, called, _ = map(json.loads, first.text.splitlines())
        history.append({"role": "assistant", "content": "", "tool_calls": [
            {"function": call["function"]} for call in called["message"]["tool_calls"]
        ]})  # fmt: skip
        history.append({"role": "tool", "content": '{"success": true}'})
        second = client.post("api/chat", json={**request, "messages": history})
        pieces = [json.loads(line) for line in second.text.splitlines()]
        assert "".join(piece["message"]["content"] for piece in pieces) == "It is on."
        window = scripted.model_requests[-1]["options"]["num_ctx"]
        scripted.reset()
        task = {"model": MODEL, "messages": history[:2], "stream": True, "think": False}
        schema = {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}
        shaped = client.post("api/chat", json={**task, "format": schema})
        text = "".join(json.loads(line)["message"]["content"] for line in shaped.text.splitlines())
        assert isinstance(json.loads(text)["on"], bool)
        assert scripted.model_requests[-1]["options"]["num_ctx"] == window
        assert client.post("api/pull", json={"model": "nowhere"}).status_code == 403


def test_open_webui_verifies_lists_chats_and_unloads(scripted: MochiServer) -> None:
    """Open WebUI's connection to Ollama: names get ``:latest``, and unloading is a request."""
    scripted.script(Reply(["Hel", "lo!"]), "A title", "Hello!")
    with http(scripted, **{"User-Agent": "Open WebUI", "Authorization": "Bearer none"}) as client:
        version = client.get("api/version").json()["version"]
        assert tuple(map(int, version.split("."))) > (0, 1)
        assert listed_at_ollama(scripted, MODEL, "scripted-plain:latest")
        assert isinstance(client.get("api/ps").json()["models"], list)
        body = {
            "model": "scripted-plain:latest",
            "messages": [{"role": "user", "content": "Hello!", "images": []}],
            "options": {"num_ctx": 2048},
            "stream": True,
        }
        pieces = [json.loads(each) for each in client.post("api/chat", json=body).text.splitlines()]
        assert "".join(piece["message"]["content"] for piece in pieces) == "Hello!"
        assert pieces[-1]["eval_count"] > 0
        title = client.post("api/chat", json={**body, "stream": False}).json()
        assert title["message"]["content"] == "A title"
        unloaded = client.post(
            "api/generate", json={"model": MODEL, "prompt": "", "keep_alive": 0, "stream": False}
        )
        assert unloaded.json()["done_reason"] == "unload"
        through = client.post("v1/chat/completions", json={"model": MODEL,
            "messages": [{"role": "user", "content": "Hi"}]
        })  # fmt: skip
        assert through.json()["choices"][0]["message"]["content"] == "Hello!"
    assert len(scripted.model_requests) == 3


def test_chats_of_open_webui_are_saved_where_the_server_is_told_to(serve_once: Any) -> None:
    server: MochiServer = serve_once(MOCHI_CLIENT_SESSIONS="openwebui")
    server.script("One.", "Two.")
    history = [{"role": "user", "content": "First."}]
    with http(server, **{"X-OpenWebUI-Chat-Id": "chat-1"}) as client:
        for words in ("One.", "Two."):
            answer = client.post("api/chat", json={"model": MODEL, "messages": history})
            assert words in answer.text
            session_id = answer.headers["x-mochi-session-id"]
            history += [{"role": "assistant", "content": words}, {"role": "user", "content": "On."}]
    assert [each["content"] for each in messages(server, session_id)] == [
        "First.",
        "One.",
        "On.",
        "Two.",
    ]


def test_litellm_gets_what_it_reads(scripted: MochiServer) -> None:
    """litellm: facts of a model by ``name``, and bodies without a ``Content-Type``."""
    scripted.script("Hello!", "Hello!")
    with http(scripted) as client:
        facts = client.post("api/show", json={"name": MODEL}).json()
        assert "tools" in facts["capabilities"]
        assert facts["template"] == ""
        body: Any = {
            "model": MODEL,
            "messages": [{"role": "user", "content": "Hi"}],
            "options": {"temperature": 0},
            "stream": False,
        }
        for more in ({"think": False}, {"format": "json"}):
            answer = client.post("api/chat", content=json.dumps({**body, **more})).json()
            assert answer["message"]["content"]
            assert answer["done_reason"] == "stop"
