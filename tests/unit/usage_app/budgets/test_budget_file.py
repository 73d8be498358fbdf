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
        ("{}", "budgets.json is not a list of budgets"),
        ("[1]", "budgets.json, entry 1: it is an object (it is 1)."),
        ([{"requests": 1}], "budgets.json, entry 1: `period` is missing."),
        (
            [{**GOOD, "period": "week"}],
            "budgets.json, entry 1: `period` is `day`, `month` or `total` (it is 'week').",
        ),
        ([GOOD, {**GOOD, "action": "stop"}], "entry 2: `action` is `refuse` or `warn` (it is 's"),
        (
            [{**GOOD, "limit": 1}],
            "entry 1: there is no `limit`; fields are `period`, `scope`, `owner`, `cost_usd`,",
        ),
        (
            [{**GOOD, "scope": {"owner": "alice"}}],
            "entry 1: `scope`: there is no `owner`; fields are `model` and `provider`.",
        ),
        ([{"period": "day"}], "budgets.json, entry 1: it needs one of"),
        ([GOOD, {**GOOD, "tokens": 1}], "entry 2: it needs one of"),
        ([{**GOOD, "requests": -1}], "entry 1: `requests` is from 0 to 1,000,"),
        ([{"period": "day", "cost_usd": "NaN"}], "`cost_usd` is from 0 to "),
        ([{"period": "day", "cost_usd": "five"}], "`cost_usd` is a number (it is 'five')."),
        ([{"period": "day", "tokens": 1.5}], "`tokens` is a whole number (it is 1.5)."),
        ([{**GOOD, "scope": {"model": ["x" * 90]}}], "`scope`: `model` is a text (it is ['xxx"),
        ([{**GOOD, "scope": {"model": "a:b", "provider": "a"}}], "both a model and a provider"),
        ([{**GOOD, "scope": {"model": ""}}], "names nothing"),
        ([{**GOOD, "scope": {"provider": "openai:*"}}], "patterns go to `model`"),
        ([{**GOOD, "scope": {"model": "m" * 301}}], "too long"),
        ([{**GOOD, "owner": "Anna"}], "entry 1: it is of an owner: 'Anna' is no name of an owner"),
        ([{**GOOD, "owner": ""}], "`*` is each of them."),
        ([GOOD] * 201, "more than 200"),
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
