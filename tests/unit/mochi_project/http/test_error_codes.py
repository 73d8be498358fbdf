from typing import Any

import pytest

from mochi_project.api import api
from mochi_project.errors.statuses import statuses
from mochi_project.http.error_codes import codes_of, describe_errors


@pytest.fixture(scope="module")
def paths() -> dict[str, Any]:
    return dict(api.get_openapi_schema()["paths"])


def operations(paths: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method} {path}", operation)
        for path, methods in paths.items()
        for method, operation in methods.items()
    ]


def test_every_error_status_of_every_operation_names_its_codes(paths: dict[str, Any]) -> None:
    for name, operation in operations(paths):
        declared = {str(status) for status in operation["responses"] if int(status) >= 400}
        assert operation["x-error-codes"].keys() == declared, name
        for status, codes in operation["x-error-codes"].items():
            assert codes, f"{name} {status}"
            assert codes == list(dict.fromkeys(codes)), f"{name} {status}"


def test_an_error_is_described_by_its_codes_and_shown_once(paths: dict[str, Any]) -> None:
    for name, operation in operations(paths):
        for status, codes in operation["x-error-codes"].items():
            answer = operation["responses"][int(status)]
            if "$ref" in answer or "text/plain" in answer["content"]:
                continue
            assert all(f"`{code}`" in answer["description"] for code in codes), f"{name} {status}"
            assert "examples" not in answer.get("content", {}).get("application/json", {}), name


def test_a_status_shows_what_its_operation_is_about(paths: dict[str, Any]) -> None:
    codes = paths["/api/v1/chat/{session_id}/confirm-tool"]["post"]["x-error-codes"]
    assert codes["404"] == ["CONFIRMATION_NOT_FOUND", "SESSION_NOT_FOUND"]
    assert codes["409"] == ["CONFIRMATION_ALREADY_DECIDED"]
    assert paths["/api/v1/system-prompts"]["post"]["x-error-codes"]["409"] == ["PROMPT_EXISTS"]


def test_codes_of_statuses_that_are_not_declared_are_not_said() -> None:
    operation: dict[str, Any] = {"responses": {200: {}, 404: {"content": {}}}}
    describe_errors("/api/v1/sessions/{session_id}", "get", operation)
    assert operation["x-error-codes"] == {"404": ["SESSION_NOT_FOUND"]}


def test_no_operation_names_a_code_that_has_no_status(paths: dict[str, Any]) -> None:
    for path, methods in paths.items():
        for method in methods:
            assert set(codes_of(path, method)) <= statuses().keys()
