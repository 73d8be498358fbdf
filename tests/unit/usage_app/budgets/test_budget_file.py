"""``budgets.json`` is read whole or not at all, and what is wrong is named."""

import json
from decimal import Decimal

import pytest

from usage_app.budgets.budget import Budget, Scope
from usage_app.budgets.budget_file import read_budgets
from usage_app.entry_faults import InvalidFileError


def test_budgets_are_read_as_they_are_written(tmp_path):
    path = tmp_path / "budgets.json"
    path.write_text(
        """[{"scope": {"model": "openai:*"}, "period": "day", "cost_usd": "5.00"},
            {"scope": {"provider": "openai"}, "period": "month", "cost_usd": 0.1,
             "action": "warn"},
            {"scope": {}, "period": "total", "tokens": 1000},
            {"period": "day", "requests": 0}]"""
    )

    assert read_budgets(path) == [
        Budget(scope=Scope(model="openai:*"), period="day", cost_usd=Decimal("5.00")),
        Budget(
            scope=Scope(provider="openai"), period="month", cost_usd=Decimal("0.1"), action="warn"
        ),
        Budget(period="total", tokens=1000),
        Budget(period="day", requests=0),
    ]


GOOD = {"period": "day", "requests": 1}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "budgets.json is not JSON: Input data was truncated."),
        ('{"a": [}', "budgets.json is not JSON: JSON is malformed"),
        ("[" * 5000, "budgets.json is not JSON: "),
        ("{}", "budgets.json must be a valid list (it is {})."),
        ("[1]", "budgets.json, entry 1: it must be an object (it is 1)."),
        ([{"requests": 1}], "budgets.json, entry 1: `period` is missing."),
        (
            [{**GOOD, "period": "week"}],
            "budgets.json, entry 1: `period` must be 'day', 'month' or 'total' (it is 'week').",
        ),
        ([GOOD, {**GOOD, "action": "stop"}], "entry 2: `action` must be 'refuse' or 'warn' (it "),
        (
            [{**GOOD, "limit": 1}],
            "entry 1: it has no `limit`; fields are `period`, `scope`, `owner`, `cost_usd`,",
        ),
        (
            [{**GOOD, "scope": {"owner": "alice"}}],
            "entry 1: `scope` has no `owner`; fields are `model`, `provider`.",
        ),
        ([{"period": "day"}], "budgets.json, entry 1: it needs one of"),
        ([GOOD, {**GOOD, "tokens": 1}], "entry 2: it needs one of"),
        (
            [{**GOOD, "requests": -1}],
            "`requests` must be greater than or equal to 0 (it is -1).",
        ),
        ([{"period": "day", "cost_usd": "NaN"}], "`cost_usd` must be a finite number"),
        (
            [{"period": "day", "cost_usd": "five"}],
            "must be a valid decimal (it is 'five').",
        ),
        ([{"period": "day", "tokens": 1.5}], "`tokens` must be a valid integer (it is 1.5)."),
        (
            [{**GOOD, "scope": {"model": ["x" * 90]}}],
            "`scope.model` must be a valid string (it",
        ),
        ([{**GOOD, "scope": {"model": "a:b", "provider": "a"}}], "both a model and a provider"),
        ([{**GOOD, "scope": {"model": ""}}], "`scope.model` must have at least 1 character"),
        ([{**GOOD, "scope": {"provider": "openai:*"}}], "patterns go to `model`"),
        ([{**GOOD, "scope": {"model": "m" * 301}}], "must have at most 300 characters"),
        ([{**GOOD, "owner": "Anna"}], "entry 1: `owner` 'Anna' is no name of an owner"),
        ([{**GOOD, "owner": ""}], "`*` is each of them."),
        ([GOOD] * 201, "must have at most 200 items"),
    ],
)
def test_a_mistake_is_named(tmp_path, content, reason):
    path = tmp_path / "budgets.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))

    with pytest.raises(InvalidFileError) as caught:
        read_budgets(path)

    assert reason in str(caught.value)


def test_what_is_no_file_is_a_mistake_and_nothing_is_none(tmp_path):
    path = tmp_path / "budgets.json"
    with pytest.raises(FileNotFoundError):
        read_budgets(path)
    path.mkdir()
    with pytest.raises(InvalidFileError, match="can't be read"):
        read_budgets(path)


def test_a_file_that_an_editor_on_windows_saved_is_read(tmp_path):
    path = tmp_path / "budgets.json"
    path.write_text(json.dumps([GOOD]), encoding="utf-8-sig")

    assert read_budgets(path) == [Budget(period="day", requests=1)]
