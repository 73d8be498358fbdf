"""Models in Anthropic's shape."""

import pytest

from dialects_app.messages.models import claude_model, page_of_models
from sessions_app.errors import ValidationFailed

MODELS = [claude_model(name, 1_767_225_600, None) for name in "abcde"]


def page(limit=1000, after_id=None, before_id=None):
    found = page_of_models(MODELS, limit, after_id=after_id, before_id=before_id)
    return "".join(model.id for model in found.data), found.has_more


def test_a_model_has_the_window_and_the_time_that_are_known():
    shown = claude_model("qwen3:14b", 1_767_225_600, 40960)
    assert (shown.created_at, shown.max_input_tokens) == ("2026-01-01T00:00:00Z", 40960)


@pytest.mark.parametrize(
    ("query", "models"),
    [
        ({}, ("abcde", False)),
        ({"limit": 2}, ("ab", True)),
        ({"limit": 2, "after_id": "b"}, ("cd", True)),
        ({"limit": 2, "after_id": "d"}, ("e", False)),
        ({"limit": 2, "before_id": "d"}, ("bc", True)),
        ({"limit": 9, "before_id": "c"}, ("ab", False)),
        ({"after_id": "e"}, ("", False)),
    ],
)
def test_models_come_in_pages(query, models):
    assert page(**query) == models


def test_a_page_after_no_model_is_refused():
    with pytest.raises(ValidationFailed, match="There is no model 'x'"):
        page(after_id="x")
