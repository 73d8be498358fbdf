import json
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any, get_args

import pytest
from django.core.management import call_command
from jsonschema import Draft202012Validator

from chat.context.strategy import STRATEGIES
from sessions_app.session import ContextStrategy

pytestmark = pytest.mark.conformance

HTTP_METHODS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    out = StringIO()
    call_command("export_openapi", stdout=out)
    return dict(json.loads(out.getvalue()))


@pytest.fixture(scope="module")
def operations(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    }


def resolve(schema: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in value:
        target = schema
        for key in value["$ref"].removeprefix("#/").split("/"):
            target = target[key]
        value = target
    return value


def has_example(schema: dict[str, Any], content: dict[str, Any]) -> bool:
    declared = content.get("schema", {})
    described = [resolve(schema, choice) for choice in (declared, *declared.get("anyOf", []))]
    return any(key in holder for holder in (content, *described) for key in ("example", "examples"))


def examples_of(schema: dict[str, Any], content: dict[str, Any]) -> Iterator[Any]:
    described = resolve(schema, content.get("schema", {}))
    yield from (example["value"] for example in content.get("examples", {}).values())
    yield from described.get("examples", [])
    yield from (holder["example"] for holder in (content, described) if "example" in holder)


def test_the_schema_is_the_same_every_time(schema: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "openapi.json"
    call_command("export_openapi", "--output", str(file), "--indent", "1")
    assert json.loads(file.read_text()) == schema


def test_every_operation_has_a_summary_and_an_id_of_its_own(
    operations: dict[str, dict[str, Any]],
) -> None:
    ids = [operation["operationId"] for operation in operations.values()]
    assert len(set(ids)) == len(ids)
    for route, operation in operations.items():
        assert operation["summary"], route
        assert re.fullmatch(r"[a-z][a-z0-9_]*", operation["operationId"]), route
        assert "_api_" not in operation["operationId"], f"{route}: give it an operation_id"


def test_every_operation_declares_its_errors_as_the_envelope(
    schema: dict[str, Any], operations: dict[str, dict[str, Any]]
) -> None:
    for route, operation in operations.items():
        errors = {s: r for s, r in operation["responses"].items() if int(s) >= 400}
        assert any(status.startswith("4") for status in errors), route
        for status, answer in errors.items():
            content = resolve(schema, answer)["content"]["application/json"]
            shape = "OpenAIError" if " /v1/" in route else "ErrorResponse"
            if " /v1/messages" in route:
                shape = "OpenAIAnthropicError"
            assert content["schema"]["$ref"].endswith(f"/{shape}"), f"{route} {status}"
            assert has_example(schema, content), f"{route} {status}"


def test_every_body_and_every_answer_has_an_example(
    schema: dict[str, Any], operations: dict[str, dict[str, Any]]
) -> None:
    missing = []
    for route, operation in operations.items():
        contents = dict(operation.get("requestBody", {}).get("content", {}))
        for status, answer in operation["responses"].items():
            contents |= {f"{status} {k}": v for k, v in answer.get("content", {}).items()}
        missing += [
            f"{route}: {kind}" for kind, c in contents.items() if not has_example(schema, c)
        ]
    assert missing == []


def test_examples_of_answers_fit_their_schemas(
    schema: dict[str, Any], operations: dict[str, dict[str, Any]]
) -> None:
    wrong = []
    for route, operation in operations.items():
        for status, answer in operation["responses"].items():
            content = resolve(schema, answer).get("content", {}).get("application/json", {})
            rules = {"components": schema["components"], **content.get("schema", {})}
            for example in examples_of(schema, content):
                faults = Draft202012Validator(rules).iter_errors(example)
                wrong += [f"{route} {status}: {fault.message}" for fault in faults]
    assert wrong == []


def test_a_token_may_be_sent_but_health_asks_for_none(
    schema: dict[str, Any], operations: dict[str, dict[str, Any]]
) -> None:
    assert schema["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    assert schema["security"] == [{}, {"bearer": []}]
    assert "security" not in operations["GET /api/v1/health"]  # so those of the whole schema hold
    assert "401" not in operations["GET /api/v1/health"]["responses"]
    assert "401" in operations["GET /api/v1/sessions"]["responses"]


def test_every_operation_names_the_scope_that_a_key_needs_for_it(
    operations: dict[str, dict[str, Any]],
) -> None:
    scopes = {name: operation["x-mochi-scope"] for name, operation in operations.items()}

    assert {name for name, scope in scopes.items() if scope == "none"} == {
        "GET /api/v1/health",
        "GET /api/v1/health/ready",
    }
    assert scopes["PATCH /api/v1/sessions/{session_id}"] == "write"
    assert scopes["POST /v1/chat/completions"] == "chat"


def test_every_reference_leads_somewhere(schema: dict[str, Any]) -> None:
    for reference in set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(schema))):
        assert resolve(schema, {"$ref": reference})


def test_the_routes_of_every_app_are_there(operations: dict[str, dict[str, Any]]) -> None:
    for route in (
        "GET /api/v1/health",
        "POST /api/v1/sessions",
        "POST /api/v1/chat/{session_id}/stream",
        "GET /api/v1/system-prompts/{filename}",
        "GET /api/v1/models",
    ):
        assert route in operations
    assert {route.split()[0].lower() for route in operations} <= HTTP_METHODS


def parameter(operation: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (item for item in operation["parameters"] if item["name"] == name)
    return dict(found["schema"])


def accepts(schema: dict[str, Any], name: str, body: dict[str, Any]) -> bool:
    reference = {"$ref": f"#/components/schemas/{name}"}
    document = {"components": schema["components"], **reference}
    return Draft202012Validator(document).is_valid(body)


@pytest.mark.parametrize(
    ("route", "name", "good", "bad"),
    [
        ("GET /api/v1/sessions/{session_id}", "session_id", "0123456789", "0123456789a"),
        ("GET /api/v1/system-prompts/{filename}", "filename", "a.b.md", "a.exe"),
        ("GET /api/v1/system-prompts/{filename}", "filename", "a.md", f"{'a' * 98}.md"),
        ("GET /api/v1/profiles/{name}", "name", "work", "../work"),
        ("POST /api/v1/mcp/servers/{name}/restart", "name", "time", "a b"),
        ("GET /api/v1/agents/{agent_name}", "agent_name", "coder", ".coder"),
        ("GET /api/v1/models/{model_name}", "model_name", "hf.co/a/b:c", "x" * 301),
        ("GET /api/v1/chat/{session_id}/stream", "after", "0199f3a2b4c51f2e3d4c:12", "12"),
        ("GET /api/v1/chat/{session_id}/stream", "Last-Event-ID", "0199f3a2b4c51f2e3d4c:1", ":"),
    ],
)
def test_what_is_enforced_of_a_parameter_is_said(
    operations: dict[str, dict[str, Any]], route: str, name: str, good: str, bad: str
) -> None:
    rules = Draft202012Validator(parameter(operations[route], name))
    assert rules.is_valid(good)
    assert not rules.is_valid(bad)


@pytest.mark.parametrize(
    ("body", "good", "bad"),
    [
        ("ChatIn", {"message": "Hello"}, {"message": " \n\t"}),
        ("OpenChatIn", {"session_id": "0123456789"}, {"session_id": None, "model": "m"}),
        ("OpenChatIn", {"model": "m", "message": "Hello"}, {"model": "x" * 301, "message": "Hi"}),
        ("OpenChatIn", {"message": "Hello"}, {"model": "m"}),
        ("ConfirmToolIn", {"confirmation_id": f"conf_{'0' * 32}", "approved": True}, {}),
        ("SessionCreateIn", {"model": "m", "context_strategy": "none"}, {"model": ""}),
        ("SessionUpdateIn", {"context_strategy": None}, {"context_strategy": "magic"}),
        ("SessionUpdateIn", {"options": {"seed": 1, "stop": "x"}}, {"options": {"seed": "x"}}),
        ("SessionUpdateIn", {"options": {"seed": 1}}, {"options": {"mine": 1}}),
        ("SessionCreateIn", {"model": "m"}, {"model": "m", "system_prompt": "x" * 10_000}),
        ("SessionUpdateIn", {"options": None}, {"options": {"num_ctx": 4096}}),
        ("SystemPromptIn", {"source_file": "a.md"}, {"content": None}),
        ("ForkIn", {"message_index": None}, {"message_index": -1}),
        ("PromptCreateIn", {"filename": "a.md", "content": "x"}, {"filename": "a", "content": "x"}),
        ("PromptUpdateIn", {"content": "x"}, {"content": " "}),
        (
            "ProfileCreateIn",
            {"name": "a", "provider": "openai", "model": "m", "parameters": {"top_p": 0.5}},
            {"name": "a", "provider": "openai", "model": "m", "parameters": {"top_p": 2}},
        ),
        (
            "ProfileUpdateIn",
            {"provider": "openai", "model": "m", "api_key_env": "MY_KEY"},
            {"provider": "openai", "model": "m", "api_key_env": "not a name"},
        ),
    ],
)
def test_what_is_enforced_of_a_body_is_said(
    schema: dict[str, Any], body: str, good: dict[str, Any], bad: dict[str, Any]
) -> None:
    assert accepts(schema, body, good)
    assert not accepts(schema, body, bad)


def optional_fields(schema: dict[str, Any], body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a body, and of what is in it, that may be left out."""
    seen: list[dict[str, Any]] = []

    def walk(part: dict[str, Any], place: str) -> Iterator[tuple[str, Any]]:
        part = resolve(schema, part)
        if part in seen:
            return
        seen.append(part)
        place = part.get("title", place)
        for inner in (*part.get("anyOf", ()), *part.get("oneOf", ()), part.get("items", {})):
            yield from walk(inner, place)
        for name, field in part.get("properties", {}).items():
            if name not in part.get("required", ()) and "type" in part:
                yield f"{place}.{name}", field
            yield from walk(field, f"{place}.{name}")

    yield from walk(body, "")


def test_null_is_taken_for_what_may_be_left_out_as_many_client_libraries_send_it(
    schema: dict[str, Any], operations: dict[str, dict[str, Any]]
) -> None:
    refused = set()
    for operation in operations.values():
        for content in operation.get("requestBody", {}).get("content", {}).values():
            for place, field in optional_fields(schema, content.get("schema", {})):
                document = {"components": schema["components"], **field}
                if not Draft202012Validator(document).is_valid(None):
                    refused.add(place)
    changes = {f"SessionUpdateIn.{name}" for name in ("model", "pinned", "archived")}
    assert refused == changes  # of which null would be a value


def unbounded(schema: dict[str, Any], body: dict[str, Any]) -> Iterator[str]:
    """Yield the lists and the maps of a body that have no length."""
    seen: list[dict[str, Any]] = []

    def walk(part: Any, place: str) -> Iterator[str]:
        part = resolve(schema, part)
        if part in seen:
            return
        seen.append(part)
        place = part.get("title", place)
        if part.get("type") == "array" and "maxItems" not in part:
            yield place
        names_its_fields = part.get("properties") or part.get("additionalProperties") is False
        if part.get("type") == "object" and not names_its_fields and "maxProperties" not in part:
            yield place
        for inner in (*part.get("anyOf", ()), *part.get("oneOf", ()), part.get("items", {})):
            yield from walk(inner, place)
        for name, field in part.get("properties", {}).items():
            yield from walk(field, f"{place}.{name}")

    yield from walk(body, "")


CONVERSATIONS = {
    *("AgUiRunIn.messages", "AgUiMessageIn.toolCalls", "UIChatIn.messages", "UIMessageIn.parts"),
    *("OpenAICompletionIn.messages", "OpenAIMessagesIn.messages", "OpenAICountTokensIn.messages"),
    *("OpenAIChatCompletionsMessageIn.content", "OpenAIChatCompletionsMessageIn.tool_calls"),
    "OpenAIMessagesMessageIn.content",
    *("OpenAIResponseIn.input", "OpenAIItemsIn.items", "OpenAIConversationIn.items"),
}


def test_every_list_and_map_of_a_body_has_a_length_but_those_of_conversations(
    schema: dict[str, Any], operations: dict[str, dict[str, Any]]
) -> None:
    without = {
        place
        for operation in operations.values()
        if (body := operation.get("requestBody", {}).get("content", {}).get("application/json"))
        for place in unbounded(schema, body["schema"])
    }
    assert {place for place in without if not place.startswith(tuple(CONVERSATIONS))} == set()


def test_a_body_is_required_where_the_request_means_nothing_without_it(
    operations: dict[str, dict[str, Any]],
) -> None:
    optional = {
        route
        for route, operation in operations.items()
        if "requestBody" in operation and not operation["requestBody"].get("required", False)
    }
    assert optional == {
        "POST /api/v1/mcp/servers/{name}/prompts/{prompt}",
        "POST /api/v1/chat/{session_id}",
        "POST /api/v1/chat/{session_id}/stream",
        "POST /api/v1/sessions",
        "POST /api/v1/sessions/{session_id}/fork",
        "POST /api/v1/sessions/{session_id}/summarize",
        "POST /v1/conversations",
        "POST /v1/responses",
        "POST /v1/responses/compact",
        "POST /v1/responses/input_tokens",
    }


def test_the_named_strategies_are_those_that_there_are() -> None:
    assert set(get_args(ContextStrategy)) == set(STRATEGIES)


def test_every_tag_is_explained_and_the_server_is_named(
    schema: dict[str, Any], operations: dict[str, dict[str, Any]]
) -> None:
    explained = {tag["name"] for tag in schema["tags"] if tag["description"]}
    assert {tag for operation in operations.values() for tag in operation["tags"]} <= explained
    assert [server["url"] for server in schema["servers"]] == ["/"]


def test_streams_name_the_union_of_their_events(operations: dict[str, dict[str, Any]]) -> None:
    for route in ("POST /api/v1/chat/stream", "GET /api/v1/chat/{session_id}/stream"):
        content = operations[route]["responses"]["200"]["content"]["text/event-stream"]
        assert content["x-event-schema"]["$ref"].endswith("/TurnEvent")
        assert content["itemSchema"]["$ref"].endswith("/TurnEventFrame")
