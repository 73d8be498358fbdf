"""Which paths have which format of errors."""

from collections.abc import Container

import pytest

from dialects_app.messages.errors import error_answer as anthropic_answer
from dialects_app.shared.errors import error_answer
from mochi_project.errors.formats import error_format


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/models", "/v1/no/such"])
def test_paths_below_v1_speak_openai(path: str) -> None:
    assert error_format(path) is error_answer


@pytest.mark.parametrize("path", ["", "/", "/v10", "/v1x/models", "/api/v1/models", "v1/models"])
def test_other_paths_do_not(path: str) -> None:
    assert error_format(path) is None


@pytest.mark.parametrize(
    ("path", "headers"), [("/v1/messages", ()), ("/v1/models", {"anthropic-version"})]
)
def test_clients_of_anthropic_have_its_errors(path: str, headers: Container[str]) -> None:
    assert error_format(path, headers) is anthropic_answer
