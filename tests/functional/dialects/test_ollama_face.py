"""Ollama's protocol below ``/ollama``, as its own package and other programs speak it."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import ollama
import pytest

from mochi_server.testing import MODEL, MochiServer, Reply, ToolCall
from scripted_app.model_cards import CARDS
from tests.functional.conftest import NO_TLS
from tests.functional.dialects.completions import (
    TOOLS,
    listed_at_ollama,
    messages,
    saved,
    wait_for_answer,
)
from tests.unit.sessions_app.attachments.images import png

HELLO = {"role": "user", "content": "Hello!"}
PLAIN = "scripted-plain:latest"
CAT = base64.b64encode(png(3, 2)).decode()
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tell the weather of a city.",
        "parameters": {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
SKILL = "---\ndescription: Takes notes.\n---\nYou take notes.\n"
NOTE = 'def note(text: str) -> str:\n    """Write a line down."""\n    return f"noted {text}"\n'


@pytest.fixture(scope="module")
def scripted_once(serve_once: Any) -> MochiServer:
    """Return a server with tools, an agent, a profile, and a name that stands for a model."""
    server: MochiServer = serve_once(
        MOCHI_DEFAULT_MODEL=MODEL, MOCHI_MODEL_ALIASES=f"big={MODEL},huge-*={MODEL}"
    )
    agent, tools = server.data_dir / "agents" / "scribe", server.data_dir / "tools"
    profiles = server.data_dir / "profiles"
    for folder in (agent, tools, profiles):
        folder.mkdir(parents=True)
    (tools / "own.py").write_text(TOOLS)
    (agent / "SKILL.md").write_text(SKILL)
    (agent / "scribe.py").write_text(NOTE)
    (agent / "__init__.py").write_text('from .scribe import note\n\n__all__ = ["note"]\n')
    profile = {"provider": "ollama", "model": MODEL, "parameters": {"context_limit": 8192}}
    (profiles / "work.json").write_text(json.dumps(profile))
    return server


@pytest.fixture
def face(scripted: MochiServer) -> Iterator[ollama.Client]:
    """Return a client of Ollama's own package."""
    with package(scripted) as client:
        yield client


def package(server: MochiServer, **headers: str) -> ollama.Client:
    host = f"{server.url}/ollama"
    return ollama.Client(host, headers=headers, trust_env=False, verify=NO_TLS, timeout=60)


def ask(
    server: MochiServer, method: str, path: str, body: Any = None, **sent: Any
) -> httpx.Response:
    url = f"{server.url}/ollama{path}"
    sent = sent or {"json": body}
    return httpx.request(method, url, **sent, trust_env=False, verify=NO_TLS, timeout=60)


def new_session(server: MochiServer) -> str:
    url = f"{server.api_url}/sessions"
    made = httpx.post(url, json={"model": MODEL}, trust_env=False, verify=NO_TLS)
    return str(made.json()["session_id"])


def lines(answer: httpx.Response) -> list[Any]:
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.mark.parametrize("path", ["", "/"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_address_itself_says_that_ollama_runs(
    scripted: MochiServer, method: str, path: str
) -> None:
    answer = ask(scripted, method, path)
    assert answer.status_code == 200
    assert answer.text == ("Ollama is running" if method == "GET" else "")


def test_the_version_has_digits_and_dots(scripted: MochiServer) -> None:
    version = ask(scripted, "GET", "/api/version").json()["version"]
    assert all(part.isdigit() for part in version.split("."))


def test_models_profiles_agents_and_aliases_are_listed(
    scripted: MochiServer, face: ollama.Client
) -> None:
    names = (MODEL, PLAIN, "profile:work", "agent:scribe", "big", "anthropic:claude-haiku-4-5")
    listed = listed_at_ollama(scripted, *names)
    card = next(card for card in CARDS if card.name == MODEL)
    assert listed[MODEL]["digest"] == card.digest
    assert listed["big"]["details"]["family"] == "qwen3"
    assert face.list().models[0].model


def test_what_a_model_can_do_is_in_the_list_and_in_its_facts(scripted: MochiServer) -> None:
    abilities = listed_at_ollama(scripted, MODEL)[MODEL]["capabilities"]
    assert abilities == ["completion", "tools", "thinking"]
    for key in ("model", "name"):
        facts = ask(scripted, "POST", "/api/show", {key: MODEL}).json()
        assert facts["capabilities"] == abilities
        assert facts["model_info"]["qwen3.context_length"] == 40960
    assert ask(scripted, "POST", "/api/show", {"name": "profile:work"}).status_code == 200


def test_an_answer_is_whole_and_nothing_is_saved(
    scripted: MochiServer, face: ollama.Client
) -> None:
    before = saved(scripted)
    scripted.script(Reply(["Hel", "lo!"], reasoning="They greet."))
    answer = face.chat(MODEL, [HELLO], think=True)
    assert (answer.message.content, answer.message.thinking) == ("Hello!", "They greet.")
    assert (answer.done, answer.done_reason, answer.model) == (True, "stop", MODEL)
    assert answer.prompt_eval_count
    assert answer.eval_count
    assert saved(scripted) == before


def test_a_stream_has_the_same_text_and_one_end(scripted: MochiServer, face: ollama.Client) -> None:
    scripted.script(Reply(["Hel", "lo!"], reasoning=["They ", "greet."]))
    *pieces, last = face.chat(MODEL, [HELLO], think=True, stream=True)
    assert "".join(piece.message.content or "" for piece in pieces) == "Hello!"
    assert "".join(piece.message.thinking or "" for piece in pieces) == "They greet."
    assert not any(piece.done for piece in pieces)
    assert (last.done, last.done_reason, last.message.content) == (True, "stop", "")


@pytest.mark.parametrize("think", [True, "high", False])
def test_a_model_that_can_not_think_answers_without(
    scripted: MochiServer, face: ollama.Client, think: Any
) -> None:
    scripted.script("Hello!")
    assert face.chat(PLAIN, [HELLO], think=think).message.content == "Hello!"


def test_a_text_is_generated_of_a_prompt(scripted: MochiServer, face: ollama.Client) -> None:
    scripted.script("Hello!", Reply(["Hel", "lo!"]))
    assert face.generate(MODEL, "Hi", system="Be kind.").response == "Hello!"
    told = scripted.model_requests[-1]["messages"]
    assert [(each["role"], each["content"]) for each in told] == [
        ("system", "Be kind."),
        ("user", "Hi"),
    ]
    pieces = list(face.generate(MODEL, "Hi", stream=True))
    assert "".join(piece.response for piece in pieces) == "Hello!"
    assert [piece.done for piece in pieces][-2:] == [False, True]


@pytest.mark.parametrize("streams", [False, True])
def test_calls_without_ids_are_answered_in_their_order(
    scripted: MochiServer, face: ollama.Client, streams: bool
) -> None:
    cities = ("Zürich", "Bern")
    calls = [ToolCall("get_weather", {"city": city}) for city in cities]
    scripted.script(Reply("Let me look.", tool_calls=calls), "Sunny, and rain.")
    if streams:
        pieces = list(face.chat(MODEL, [HELLO], tools=[WEATHER], stream=True))
        [message] = [piece.message for piece in pieces if piece.message.tool_calls]
        message.content = "".join(piece.message.content or "" for piece in pieces)
    else:
        message = face.chat(MODEL, [HELLO], tools=[WEATHER]).message
    assert message.content == "Let me look."
    assert [call.function.arguments for call in message.tool_calls or ()] == [
        {"city": city} for city in cities
    ]
    results = [{"role": "tool", "content": words} for words in ("sunny", "rain")]
    answer = face.chat(MODEL, [HELLO, message, *results], tools=[WEATHER])
    assert answer.message.content == "Sunny, and rain."
    told = scripted.model_requests[-1]["messages"]
    assert [each["content"] for each in told[2:]] == ["sunny", "rain"]
    assert told[1]["tool_calls"][0]["function"]["arguments"] == {"city": "Zürich"}


def test_a_schema_shapes_the_answer(scripted: MochiServer, face: ollama.Client) -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    answer = face.chat(MODEL, [HELLO], format=schema)
    assert isinstance(json.loads(answer.message.content or "")["age"], int)
    assert scripted.model_requests[-1]["format"]["required"] == ["age"]
    assert isinstance(json.loads(face.generate(MODEL, "Hi", format="json").response), dict)


def test_an_image_reaches_a_model_that_sees(scripted: MochiServer, face: ollama.Client) -> None:
    scripted.script("A cat.", "A cat.")
    message = {"role": "user", "content": "What is it?", "images": [base64.b64decode(CAT)]}
    assert face.chat("scripted-vision", [message]).message.content == "A cat."
    assert scripted.model_requests[-1]["messages"][-1]["images"] == [CAT]
    assert face.generate("scripted-vision", "What?", images=[CAT]).response == "A cat."
    with pytest.raises(ollama.ResponseError) as refused:
        face.chat(PLAIN, [message])
    assert refused.value.status_code == 400


def test_options_are_passed_on_and_the_window_stays_the_servers(
    scripted: MochiServer, face: ollama.Client
) -> None:
    scripted.script("Hello!", "Hello!")
    face.chat(MODEL, [HELLO])
    usual = scripted.model_requests[-1]["options"]["num_ctx"]
    options = {"num_ctx": 2048, "num_gpu": 1, "temperature": 0.5, "top_k": 3, "num_predict": 50}
    face.chat(MODEL, [HELLO], options=options, keep_alive="30m")
    request = scripted.model_requests[-1]
    assert request["keep_alive"] == "30m"
    assert request["options"]["num_ctx"] == usual
    assert "num_gpu" not in request["options"]
    assert {name: request["options"][name] for name in ("temperature", "top_k", "num_predict")} == {
        "temperature": 0.5,
        "top_k": 3,
        "num_predict": 50,
    }


def test_an_answer_that_came_to_its_limit_says_so(
    scripted: MochiServer, face: ollama.Client
) -> None:
    scripted.script(" ".join(["word"] * 50))
    assert face.chat(MODEL, [HELLO], options={"num_predict": 5}).done_reason == "length"


@pytest.mark.parametrize(
    ("sent", "reason"), [({}, "load"), ({"keep_alive": 0}, "unload"), ({"keep_alive": -1}, "load")]
)
def test_a_request_without_a_prompt_calls_no_model(
    scripted: MochiServer, face: ollama.Client, sent: Any, reason: str
) -> None:
    assert face.generate(MODEL, "", **sent).done_reason == reason
    answer = face.chat(MODEL, [], **sent)
    assert (answer.done, answer.done_reason, answer.message.content) == (True, reason, "")
    assert scripted.model_requests == []


def test_an_error_before_the_first_line_has_a_status(
    scripted: MochiServer, face: ollama.Client
) -> None:
    scripted.script(Reply("Hello!", status=500, times=9))
    for streams in (True, False):
        with pytest.raises(ollama.ResponseError) as raised:
            list(face.chat(MODEL, [HELLO], stream=streams))
        assert raised.value.status_code == 502


def test_an_error_after_the_first_line_is_the_last_line(
    scripted: MochiServer, face: ollama.Client
) -> None:
    scripted.script(Reply(["Hel", "lo!"], error_line="runner died", times=2))
    answer = ask(scripted, "POST", "/api/chat", {"model": MODEL, "messages": [HELLO]})
    first, last = lines(answer)
    assert first["message"]["content"] == "Hel"
    assert last.keys() == {"error"}
    assert "runner died" in last["error"]
    said: list[str] = []
    with pytest.raises(ollama.ResponseError, match="runner died"):
        said.extend(piece.message.content or "" for piece in face.chat(MODEL, [HELLO], stream=True))
    assert said == ["Hel"]


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/api/chat", {"model": "nobody:it", "messages": [HELLO]}, 404, "model 'nobody:it' not"),
        ("/api/show", {"model": "nobody"}, 404, "model 'nobody"),
        ("/api/generate", {"model": "nobody"}, 404, "model 'nobody"),
        ("/api/chat", {"messages": [HELLO]}, 400, "'model'"),
        ("/api/chat", {"model": MODEL, "messages": [{"role": "user", "content": 5}]}, 400, "conte"),
        ("/api/chat", {"model": MODEL, "messages": [HELLO], "format": "yaml"}, 400, "format"),
        ("/api/chat", {"model": PLAIN, "messages": [HELLO], "tools": [WEATHER]}, 400, "tools"),
        ("/api/generate", {"model": MODEL, "prompt": "Hi", "raw": True}, 400, "raw"),
        ("/api/embed", {"model": "openai:gpt-5.1", "input": "Hi"}, 404, "not found"),
        ("/api/embed", {"input": "Hi"}, 404, "not found"),
        ("/nowhere", {}, 404, "nothing at this path"),
    ],
)
def test_what_can_not_be_done_is_a_sentence_and_a_status(
    scripted: MochiServer, path: str, body: Any, status: int, words: str
) -> None:
    answer = ask(scripted, "POST", path, body)
    assert answer.status_code == status
    assert answer.json().keys() == {"error"}
    assert words in answer.json()["error"]
    assert scripted.model_requests == []


def test_models_are_managed_elsewhere(scripted: MochiServer, face: ollama.Client) -> None:
    for manage in (face.pull, face.push, face.delete):
        with pytest.raises(ollama.ResponseError, match="does not manage models") as refused:
            manage("qwen3:8b")
        assert refused.value.status_code == 403
    answer = ask(scripted, "POST", "/api/pull", {"name": "qwen3:8b"})
    assert answer.json()["error"].endswith("Run: ollama pull qwen3:8b")
    for path in ("create", "copy", "blobs/sha256:00"):
        assert ask(scripted, "POST", f"/api/{path}", {"model": "x"}).status_code == 403
    octets = {"content-type": "application/octet-stream"}
    blob = ask(scripted, "POST", "/api/blobs/sha256:00", content=b"GGUF" * 9, headers=octets)
    assert blob.status_code == 403


def test_curl_may_declare_a_body_as_a_form(scripted: MochiServer) -> None:
    sent = json.dumps({"model": MODEL, "messages": [HELLO], "stream": False})
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert ask(scripted, "POST", "/api/chat", content=sent, headers=form).status_code == 200


@pytest.mark.parametrize("name", ["agent:scribe", "agent:scribe:latest"])
def test_an_agent_is_a_model_and_runs_its_own_tools(
    scripted: MochiServer, face: ollama.Client, name: str
) -> None:
    scripted.script("1. Note it.", ToolCall("note", {"text": "milk"}), "Noted.")
    answer = face.chat(name, [HELLO], think=True)
    assert answer.message.content == "Noted."
    assert answer.message.tool_calls is None
    assert answer.model == name


@pytest.mark.parametrize(
    "name",
    ["profile:work", "profile:work:latest", "scripted-plain", PLAIN, "big:latest", "huge-one"],
)
def test_names_have_tags_or_not_and_answers_have_the_name_of_the_request(
    scripted: MochiServer, face: ollama.Client, name: str
) -> None:
    scripted.script("Hello!")
    answer = face.chat(name, [HELLO])
    assert (answer.message.content, answer.model) == ("Hello!", name)


def test_tools_of_this_server_run_inside_where_a_header_names_them(scripted: MochiServer) -> None:
    scripted.script(Reply("Let me see.", tool_calls=[ToolCall("add", {"a": 1, "b": 2})]), "Three.")
    with package(scripted, **{"X-Mochi-Tools": "add"}) as face:
        message = face.chat(MODEL, [HELLO]).message
    assert (message.content, message.tool_calls) == ("Let me see.\n\nThree.", None)


def test_a_session_goes_on_with_what_follows_its_last_answer(scripted: MochiServer) -> None:
    session_id = new_session(scripted)
    scripted.script("One.", "Two.")
    history = [HELLO, {"role": "assistant", "content": "One."}, {"role": "user", "content": "Go."}]
    with package(scripted, **{"X-Mochi-Session-Id": session_id}) as face:
        assert face.chat(MODEL, [HELLO]).message.content == "One."
        assert face.chat(MODEL, history).message.content == "Two."
    kept = [each["content"] for each in messages(scripted, session_id)]
    assert kept == ["Hello!", "One.", "Go.", "Two."]


def test_a_key_starts_one_turn_for_equal_requests_and_refuses_others(
    scripted: MochiServer,
) -> None:
    scripted.script("One.", "Two.")
    with package(scripted, **{"Idempotency-Key": "turn-1"}) as face:
        options = {"temperature": 0.5, "top_k": 3, "min_p": 0.1}
        answers = [face.chat(MODEL, [HELLO], options=options).message.content for _ in range(2)]
        with pytest.raises(ollama.ResponseError) as refused:
            face.chat(MODEL, [HELLO], options={"temperature": 1.0})
    assert answers == ["One.", "One."]
    assert refused.value.status_code == 400
    assert len(scripted.model_requests) == 1


def test_openai_s_protocols_are_there_too(scripted: MochiServer) -> None:
    scripted.script("Hello!")
    body = {"model": MODEL, "messages": [HELLO]}
    answer = ask(scripted, "POST", "/v1/chat/completions", body).json()
    assert answer["choices"][0]["message"]["content"] == "Hello!"
    assert ask(scripted, "GET", "/v1/models").json()["data"]
    assert ask(scripted, "GET", "/v1/nowhere").json()["error"]["code"] == "unknown_url"


def test_a_client_that_leaves_stops_its_model(scripted: MochiServer) -> None:
    session_id = new_session(scripted)
    scripted.script(Reply(["Hel", "lo!"], stall_seconds=300, stall_after=1))
    body = {"model": MODEL, "messages": [HELLO]}
    headers = {"X-Mochi-Session-Id": session_id}
    with httpx.Client(trust_env=False, verify=NO_TLS, timeout=60) as client:
        url = f"{scripted.url}/ollama/api/chat"
        with client.stream("POST", url, json=body, headers=headers) as answer:
            next(answer.iter_lines())
    assert wait_for_answer(scripted, session_id)["cancelled"]
