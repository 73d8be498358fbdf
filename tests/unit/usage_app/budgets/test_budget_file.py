"""``budgets.json`` is read whole or not at all, and what is wrong is named."""

import json
from decimal import Decimal

import pytest

from usage_app.budgets.budget import Budget, Scope
from usage_app.budgets.budget_file import InvalidBudgetsError, read_budgets


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
        ("", "not what it should be"),
        ("{}", "Expected `array`"),
        ([{"requests": 1}], "missing required field `period`"),
        ([{**GOOD, "period": "week"}], "Invalid enum value 'week'"),
        ([{**GOOD, "action": "stop"}], "Invalid enum value 'stop'"),
        ([{**GOOD, "limit": 1}], "unknown field `limit`"),
        ([{**GOOD, "scope": {"owner": "alice"}}], "unknown field `owner`"),
        ([{"period": "day"}], "`$[0]` needs one of"),
        ([GOOD, {**GOOD, "tokens": 1}], "`$[1]` needs one of"),
        ([{**GOOD, "requests": -1}], "makes no sense"),
        ([{"period": "day", "cost_usd": "NaN"}], "makes no sense"),
        ([{"period": "day", "cost_usd": "five"}], "not what it should be"),
        ([{**GOOD, "scope": {"model": "a:b", "provider": "a"}}], "both a model and a provider"),
        ([{**GOOD, "scope": {"model": ""}}], "names nothing"),
        ([{**GOOD, "scope": {"provider": "openai:*"}}], "patterns go to `model`"),
        ([{**GOOD, "scope": {"model": "m" * 301}}], "too long"),
        ([GOOD] * 201, "more than 200"),
    ],
)
def test_a_mistake_is_named(tmp_path, content, reason):
    path = tmp_path / "budgets.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))

    with pytest.raises(InvalidBudgetsError) as caught:
        read_budgets(path)

    assert reason in str(caught.value)


def test_what_is_no_file_is_a_mistake_and_nothing_is_none(tmp_path):
    path = tmp_path / "budgets.json"
    with pytest.raises(FileNotFoundError):
        read_budgets(path)
    path.mkdir()
    with pytest.raises(InvalidBudgetsError, match="can't be read"):
        read_budgets(path)
