"""Budgets cover models, begin anew by the clock of UTC, and have one limit."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from usage_app.budgets.budget import Budget, Scope, key_of, reset_after


@pytest.mark.parametrize(
    ("scope", "covered", "not_covered"),
    [
        (Scope(), ["openai:gpt-5.1", "ollama:qwen3:14b"], []),
        (Scope(provider="openai"), ["openai:gpt-5.1"], ["ollama:openai", "openrouter:openai/x"]),
        (Scope(model="openai:*"), ["openai:gpt-5.1"], ["openrouter:openai/gpt-5.1"]),
        (Scope(model="openai:gpt-5.1"), ["openai:gpt-5.1"], ["openai:gpt-5.1-mini"]),
        (Scope(model="*mini"), ["openai:gpt-5.1-mini"], ["openai:gpt-5.1"]),
        (Scope(model="mine:[a]?"), ["mine:[a]?"], ["mine:ab"]),
        (Scope(model="qwen3:14b"), ["ollama:qwen3:14b"], ["ollama:qwen3:8b", "openai:qwen3:14b"]),
        (Scope(model="ollama:llama3.2"), ["ollama:llama3.2:latest"], ["ollama:llama3.2:1b"]),
        (Scope(model="llama3.2"), ["ollama:llama3.2:latest", "ollama:llama3.2"], []),
    ],
)
def test_a_scope_covers_all_models_or_those_of_a_provider_or_of_a_pattern(
    scope, covered, not_covered
):
    def covers(name):
        provider, _, model = name.partition(":")
        return scope.covers(provider, model)

    assert [name for name in [*covered, *not_covered] if covers(name)] == covered


@pytest.mark.parametrize(
    ("period", "now", "end"),
    [
        ("day", "2026-11-22T23:59:59.999999+00:00", "2026-11-23T00:00:00Z"),
        ("day", "2026-12-31T00:00:00+00:00", "2027-01-01T00:00:00Z"),
        ("month", "2026-11-22T12:00:00+00:00", "2026-12-01T00:00:00Z"),
        ("month", "2027-01-31T12:00:00+00:00", "2027-02-01T00:00:00Z"),
        ("month", "2026-12-01T00:00:00+00:00", "2027-01-01T00:00:00Z"),
        ("total", "2026-12-01T00:00:00+00:00", None),
    ],
)
def test_periods_end_by_the_clock_of_utc(period, now, end):
    assert reset_after(period, datetime.fromisoformat(now)) == end


def test_a_clock_of_another_zone_tells_the_same_end():
    here = datetime(2026, 11, 23, 0, 30, tzinfo=timezone(timedelta(hours=2)))
    assert reset_after("day", here) == reset_after("day", here.astimezone(UTC))


def test_times_of_one_period_have_one_key():
    assert key_of("day", "2026-11-22T23:59:59.999Z") == "2026-11-22"
    assert key_of("month", "2026-11-22T23:59:59.999Z") == "2026-11"
    assert key_of("total", "2026-11-22T23:59:59.999Z") == key_of("total", "2027-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"cost_usd": "5"}, "$5.00 a day for all models"),
        ({"cost_usd": "0.005", "scope": {"provider": "openai"}}, "$0.005 a day for openai"),
        ({"tokens": 1_000_000, "period": "month"}, "1,000,000 tokens a month for all models"),
        ({"requests": 3, "period": "total"}, "3 requests in total for all models"),
    ],
)
def test_a_budget_is_said_in_words(limit, words):
    assert str(Budget.model_validate({"period": "day", **limit})) == words
