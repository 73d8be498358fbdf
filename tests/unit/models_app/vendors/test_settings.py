"""What becomes of options and thinking."""

from typing import Any

import pytest

from models_app.language_model import ModelRequest
from models_app.vendors.registry import make_vendor

EVERY = ("anthropic", "google", "openai", "openrouter", "mine")


def settings(name: str, think: Any = None, **options: Any) -> dict[str, Any]:
    vendor = make_vendor(name, base_url="http://localhost/v1", key_variable=None)
    return vendor.settings(ModelRequest(model="m", messages=[], think=think, options=options))


@pytest.mark.parametrize("name", EVERY)
def test_nothing_said_is_nothing_sent(name: str) -> None:
    assert settings(name) == {}


@pytest.mark.parametrize("name", EVERY)
def test_how_long_a_model_stays_loaded_is_for_ollama_alone(name: str) -> None:
    assert settings(name, keep_alive="30m") == {}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"num_predict": 10}, 10),
        ({"num_predict": -1}, None),
        ({"num_predict": -2}, None),
        ({"max_tokens": 20, "num_predict": 10}, 20),
        ({"max_tokens": None, "num_predict": 10}, 10),
        ({"max_tokens": "20"}, None),
    ],
)
def test_the_longest_answer_has_two_names(options: dict[str, Any], expected: int | None) -> None:
    assert settings("openai", **options).get("max_tokens") == expected


@pytest.mark.parametrize(
    ("stop", "expected"), [("END", ["END"]), (["A", "", "B"], ["A", "B"]), ("", None), ([], None)]
)
def test_a_stop_is_a_text_or_a_list(stop: Any, expected: Any) -> None:
    assert settings("google", stop=stop).get("stop_sequences") == expected


def test_samplers_of_local_servers_are_sent_to_those_alone() -> None:
    options = {"top_k": 5, "min_p": 0.1, "repeat_penalty": 1.1}

    assert settings("mine", **options) == {"extra_body": options}
    assert settings("openai", **options) == {}
    assert settings("google", **options) == {"top_k": 5}


@pytest.mark.parametrize("name", EVERY[:4])
@pytest.mark.parametrize("think", [True, False, "low", "high"])
def test_thinking_is_passed_on_for_the_library_to_translate(name: str, think: Any) -> None:
    assert settings(name, think) == {"thinking": think}


@pytest.mark.parametrize(
    ("think", "options", "expected"),
    [
        (True, {}, {"openai_reasoning_effort": "medium"}),
        ("high", {}, {"openai_reasoning_effort": "high"}),
        (False, {}, {}),
        (None, {"reasoning_effort": "low"}, {"openai_reasoning_effort": "low"}),
    ],
)
def test_compatible_servers_hear_of_thinking_only_when_it_is_wanted(
    think: Any, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert settings("mine", think, **options) == expected


@pytest.mark.parametrize(
    ("think", "effort", "expected"),
    [
        (True, "low", "low"),
        (None, "high", "high"),
        (None, "none", False),
        (False, "high", False),
        ("high", "low", "high"),
        (True, "enormous", True),
    ],
)
def test_effort_is_the_strength_of_a_plain_yes(think: Any, effort: str, expected: Any) -> None:
    assert settings("openai", think, reasoning_effort=effort) == {"thinking": expected}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "anthropic",
            {"thinking": True, "anthropic_thinking": {"type": "enabled", "budget_tokens": 2000}},
        ),
        ("google", {"google_thinking_config": {"include_thoughts": True, "thinking_budget": 2000}}),
        ("openrouter", {"openrouter_reasoning": {"enabled": True, "max_tokens": 2000}}),
        ("openai", {"thinking": True}),
    ],
)
def test_a_budget_is_told_to_those_who_know_one(name: str, expected: dict[str, Any]) -> None:
    assert settings(name, True, thinking_budget=2000) == expected
    assert settings(name, False, thinking_budget=2000) == {"thinking": False}
