import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

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
            assert content["schema"]["$ref"].endswith("/ErrorResponse"), f"{route} {status}"
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


def test_a_token_may_be_sent_but_health_asks_for_none(
    schema: dict[str, Any], operations: dict[str, dict[str, Any]]
) -> None:
    assert schema["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    assert schema["security"] == [{}, {"bearer": []}]
    assert operations["GET /api/v1/health"]["security"] == []
    assert "401" not in operations["GET /api/v1/health"]["responses"]
    assert "401" in operations["GET /api/v1/sessions"]["responses"]


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
