"""The official package at ``/v1``: models, errors, and the headers of every answer."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest
from openai.types import Model

from tests.functional.conftest import MODEL, NO_TLS, Server

TOKEN = "a-token-for-every-client"
SLASHED = "hf.co/user/model:Q4_K_M"
PROFILES = {
    "coder": {"provider": "ollama", "model": MODEL, "parameters": {"context_limit": 8192}},
    "untagged": {"provider": "ollama", "model": "scripted-vision"},
    "keyless": {"provider": "openai", "model": "gpt-5.1", "api_key_env": "NOBODY_HAS_SET_THIS"},
}
SKILL = "---\ndescription: Takes notes.\n---\nYou take notes.\n"
TOOLS = '''
def note(text: str) -> str:
    """Write a line down."""
    return text
'''


@pytest.fixture(scope="module")
def server(start_once: Callable[..., Server]) -> Server:
    server = start_once(MOCHI_API_TOKEN=TOKEN, MOCHI_DEFAULT_MODEL=MODEL)
    folder = server.data_dir / "profiles"
    folder.mkdir()
    for name, profile in PROFILES.items():
        (folder / f"{name}.json").write_text(json.dumps(profile))
    for name, skill in {"scribe": SKILL, "broken": "no front matter"}.items():
        agent = server.data_dir / "agents" / name
        agent.mkdir(parents=True)
        (agent / "SKILL.md").write_text(skill)
        (agent / f"{name}.py").write_text(TOOLS)
        (agent / "__init__.py").write_text(f"from .{name} import note\n__all__ = ['note']\n")
    return server


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    """Return a client that repeats nothing, and sends the token as a key."""
    with httpx.Client(
        base_url=server.url,
        headers={"x-api-key": TOKEN},
        timeout=30,
        trust_env=False,
        verify=NO_TLS,
    ) as client:
        yield client


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[openai.OpenAI]:
    with sdk(server) as client:
        yield client


@contextmanager
def sdk(
    server: Server,
    api_key: str = TOKEN,
    on_request: Callable[[httpx.Request], None] | None = None,
    **options: Any,
) -> Iterator[openai.OpenAI]:
    hooks = {"request": [on_request] if on_request else []}
    transport = httpx.Client(trust_env=False, verify=NO_TLS, timeout=30, event_hooks=hooks)
    with openai.OpenAI(
        base_url=f"{server.url}/v1", api_key=api_key, http_client=transport, **options
    ) as client:
        yield client


def listed(client: openai.OpenAI, **query: str) -> list[Model]:
    """List the models; what was left out because the machine is slow is asked for again."""
    while True:
        answer = client.models.with_raw_response.list(extra_query=query)
        if "x-mochi-warning" not in answer.headers:
            return list(answer.parse())


def error_of(answer: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code", "mochi_code", "details"}
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert answer.headers["x-request-id"]
    assert error["message"]
    return error


def test_models_profiles_and_agents_are_models(client: openai.OpenAI) -> None:
    models = {model.id: model for model in listed(client)}

    assert next(iter(models)) == MODEL
    assert {MODEL, "profile:coder", "agent:scribe"} <= models.keys()
    assert "agent:broken" not in models
    assert {model.object for model in models.values()} == {"model"}
    assert models[MODEL].owned_by == "ollama"
    assert models[MODEL].context_length == 40960
    assert "tools" in models[MODEL].capabilities
    assert models[MODEL].architecture == {"input_modalities": ["text"]}
    assert models["profile:coder"].context_length == 8192
    assert models["agent:scribe"].owned_by == "agent"


def test_the_list_does_not_change_from_request_to_request(client: openai.OpenAI) -> None:
    first, second = ([model.to_dict() for model in listed(client)] for _ in range(2))

    assert first == second


def test_the_list_says_of_each_model_what_a_look_at_it_says(client: openai.OpenAI) -> None:
    models = [each for each in listed(client) if each.id != "profile:keyless"]

    assert [each.to_dict() for each in models] == [
        client.models.retrieve(each.id).to_dict() for each in models
    ]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("profile", ["profile:coder", "profile:keyless", "profile:untagged"]),
        ("agent", ["agent:scribe"]),
    ],
)
def test_one_kind_of_models_is_listed(client: openai.OpenAI, kind: str, names: list[str]) -> None:
    assert [model.id for model in listed(client, kind=kind)] == names


@pytest.mark.parametrize("name", [MODEL, f"ollama:{MODEL}", "profile:coder", "agent:scribe"])
def test_a_model_is_got_by_the_name_that_is_asked_for(client: openai.OpenAI, name: str) -> None:
    model = client.models.retrieve(name)

    assert (model.id, model.object) == (name, "model")


@pytest.mark.parametrize(
    "name", [SLASHED, SLASHED.replace("/", "%2F"), SLASHED.replace(":", "%3A")]
)
def test_slashes_and_colons_of_names_may_be_encoded(http: httpx.Client, name: str) -> None:
    answer = http.get(f"/v1/models/{name}")

    assert answer.status_code == 404
    assert f"'{SLASHED}'" in error_of(answer)["message"]


def test_an_unknown_model_is_not_found_and_not_asked_for_again(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve(SLASHED)

    error = caught.value
    assert (error.code, error.param, error.type) == (
        "model_not_found",
        "model",
        "invalid_request_error",
    )
    assert SLASHED in error.message
    assert error.request_id
    assert error.response.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("name", ["profile:none", "profile:../x", "agent:none", "agent:../x", "-"])
def test_a_name_that_nothing_can_have_is_an_unknown_model(client: openai.OpenAI, name: str) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve(name)

    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


def test_an_unknown_kind_names_the_parameter(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.models.list(extra_query={"kind": "person"})

    assert caught.value.param == "kind"
    assert caught.value.body["mochi_code"] == "VALIDATION_ERROR"


@pytest.mark.parametrize("key", ["wrong", TOKEN[:-1], f"{TOKEN}x", "sk-" + "a" * 4000])
def test_a_wrong_key_is_an_authentication_error(server: Server, key: str) -> None:
    with sdk(server, api_key=key) as client, pytest.raises(openai.AuthenticationError) as caught:
        client.models.list()

    assert (caught.value.code, caught.value.type) == ("invalid_api_key", "authentication_error")
    assert TOKEN not in caught.value.response.text
    assert caught.value.request_id


@pytest.mark.parametrize("name", ["x-api-key", "api-key"])
def test_the_token_comes_as_a_key_beside_the_packages_dummy(server: Server, name: str) -> None:
    with sdk(server, api_key="dummy", default_headers={name: TOKEN}) as client:
        assert client.models.retrieve(MODEL).id == MODEL


def test_a_key_that_comes_twice_is_refused(server: Server) -> None:
    sent = [("x-api-key", TOKEN), ("x-api-key", TOKEN)]

    answer = httpx.get(f"{server.url}/v1/models", headers=sent, trust_env=False, verify=NO_TLS)

    assert (answer.status_code, error_of(answer)["mochi_code"]) == (400, "BAD_REQUEST")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1", 404, "unknown_url"),
        ("GET", "/v1/", 404, "unknown_url"),
        ("GET", "/v1/no/such/route", 404, "unknown_url"),
        ("POST", "/v1/embeddings", 404, "unknown_url"),
        ("POST", "/v1/models", 405, "method_not_supported"),
        ("DELETE", f"/v1/models/{MODEL}", 405, "method_not_supported"),
        ("PUT", "/v1/models", 405, "method_not_supported"),
        ("OPTIONS", "/v1/models", 405, "method_not_supported"),
    ],
)
def test_unknown_paths_and_wrong_methods_have_openais_shape(
    http: httpx.Client, method: str, path: str, status: int, code: str
) -> None:
    answer = http.request(method, path)
    error = error_of(answer)

    assert (answer.status_code, error["code"]) == (status, code)
    assert error["type"] == "invalid_request_error"
    assert answer.headers["x-should-retry"] == "false"
    assert (status == 405) == ("allow" in answer.headers)


def test_outside_of_v1_errors_have_the_servers_own_shape(http: httpx.Client) -> None:
    for path in ("/v10/models", "/api/v1/no/such", "/no-such"):
        answer = http.get(path)
        assert set(answer.json()["error"]) == {"code", "message", "details"}
        assert "x-request-id" not in answer.headers


@pytest.mark.parametrize("path", ["/v1/models", f"/v1/models/{MODEL}", "/v1/no/such"])
def test_a_head_is_answered_as_a_get_without_its_body(http: httpx.Client, path: str) -> None:
    whole, head = http.get(path), http.head(path)

    assert head.status_code == whole.status_code
    assert head.headers["content-length"] == whole.headers["content-length"]
    assert head.headers["x-request-id"]
    assert head.content == b""


def test_the_id_of_a_request_is_the_clients_or_a_new_one(http: httpx.Client) -> None:
    given = http.get("/v1/models", headers={"x-request-id": "trace-1"})
    odd = http.get("/v1/models", headers={"x-request-id": "a b"})
    others = {http.get("/v1/models").headers["x-request-id"] for _ in range(3)}

    assert given.headers["x-request-id"] == "trace-1"
    assert odd.headers["x-request-id"].startswith("req_")
    assert len(others) == 3


def test_streams_bear_the_id_of_their_request(http: httpx.Client) -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "stream": True}

    with http.stream(
        "POST", "/v1/chat/completions", json=body, headers={"x-request-id": "trace-2"}
    ) as answer:
        assert answer.headers["x-request-id"] == "trace-2"
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.read().endswith(b"data: [DONE]\n\n")


def test_a_busy_session_says_when_to_come_back(
    server: Server, http: httpx.Client, script: Callable[..., str]
) -> None:
    chat = server.chat(headers={"x-api-key": TOKEN})
    session_id = chat.new_session()
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}

    with chat.stream(session_id, message=script(stall_seconds=3000)) as events:
        assert next(events).name == "turn_started"
        answer = http.post(
            "/v1/chat/completions", json=body, headers={"x-mochi-session-id": session_id}
        )

    error = error_of(answer)
    assert (answer.status_code, error["mochi_code"]) == (409, "SESSION_BUSY")
    assert answer.headers["retry-after"] == "1"
    assert "x-should-retry" not in answer.headers
    assert error["details"]["retryable"] is True


def test_a_page_of_an_allowed_origin_may_send_what_the_package_sends(http: httpx.Client) -> None:
    asked = "authorization,x-stainless-lang,openai-organization"
    preflight = http.options(
        "/v1/models",
        headers={
            "origin": "http://localhost:5173",
            "access-control-request-method": "GET",
            "access-control-request-headers": asked,
        },
    )
    answer = http.get("/v1/models", headers={"origin": "http://localhost:5173"})

    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-headers"] == asked
    assert "x-request-id" in answer.headers["access-control-expose-headers"]
    assert "x-mochi-session-id" in answer.headers["access-control-expose-headers"]


def test_a_page_of_another_origin_is_refused_in_openais_shape(http: httpx.Client) -> None:
    answer = http.get("/v1/models", headers={"origin": "https://evil.example"})

    assert (answer.status_code, error_of(answer)["type"]) == (403, "permission_error")
    assert "access-control-allow-origin" not in answer.headers


def test_header_names_that_proxies_confuse_are_no_keys(server: Server) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    for line in (f"x_api_key: {TOKEN}", f"x-api-key : {TOKEN}", f"X-Api-Key:\n {TOKEN}"):
        with socket.create_connection((host, int(port)), timeout=30) as raw:
            raw.sendall(f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\n{line}\r\n\r\n".encode())
            status = raw.recv(65536).split(b" ", 2)[1]
        assert status in {b"400", b"401"}


def test_an_error_that_would_come_again_is_not_asked_for_again(server: Server) -> None:
    asked: list[httpx.Request] = []
    with sdk(server, max_retries=2, on_request=asked.append) as client:
        with pytest.raises(openai.InternalServerError) as caught:
            client.models.retrieve("profile:keyless")

        assert caught.value.body["mochi_code"] == "UNAUTHORIZED"
    assert len(asked) == 1


@pytest.mark.parametrize(("size", "status"), [(5 * 1024 * 1024, 200), (16 * 1024 * 1024 + 1, 413)])
def test_a_body_may_hold_a_whole_history(http: httpx.Client, size: int, status: int) -> None:
    body = b'{"what nobody reads": "%s"}' % (b"x" * size)

    answer = http.post(
        "/v1/conversations", content=body, headers={"content-type": "application/json"}
    )

    assert answer.status_code == status
    if status == 413:
        assert error_of(answer)["mochi_code"] == "PAYLOAD_TOO_LARGE"


def test_the_routes_are_in_the_one_document(http: httpx.Client) -> None:
    document = http.get("/api/v1/openapi.json").json()

    listing = document["paths"]["/v1/models"]["get"]
    assert (listing["operationId"], listing["tags"]) == ("openai_list_models", ["OpenAI"])
    assert document["paths"]["/v1/models/{model_name}"]["get"]["tags"] == ["OpenAI"]
    assert "example" in listing["responses"]["200"]["content"]["application/json"]
