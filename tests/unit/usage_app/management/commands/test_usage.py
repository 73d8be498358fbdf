"""``manage.py usage``: a table and a chart for people, and with ``--json`` for scripts."""

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from mochi_project.app import install_pool
from mochi_project.configuration.loading import MochiSettings
from tests.services import SharedByAll, services_of
from tests.unit.usage_app.records import record
from usage_app.budgets.observer import Budgets
from usage_app.ledger import Ledger
from usage_app.prices import PriceList
from usage_app.reports import UsageReports
from usage_app.services import build_budgets, prices_path, usage_dir


@pytest.fixture
def usage(tmp_path: Path) -> Iterator[Ledger]:
    settings = MochiSettings(data_dir=tmp_path)
    ledger, prices = Ledger(usage_dir(settings)), PriceList(prices_path(settings))
    values = {
        Ledger: ledger,
        PriceList: prices,
        UsageReports: UsageReports(ledger),
        Budgets: build_budgets(settings, ledger, prices),
    }
    install_pool(SharedByAll(services_of(values)))
    yield ledger
    install_pool(None)


def note(usage: Ledger, day: str, **more: Any) -> None:
    usage.append([record(day, **{"input": 1000, "output": 20, **more})])


def run(*arguments: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("usage", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_budgets_are_below_the_table(usage: Ledger, tmp_path: Path) -> None:
    note(usage, "2026-11-21", cost_usd="0.5")
    (tmp_path / "budgets.json").write_text('[{"period": "total", "cost_usd": 5}]')

    assert "budget of $5.00 in total for all models: $0.50 used" in run("--to", "2026-11-22")[0]


def test_usage_is_a_table_with_a_total_and_a_bar_for_each_day(usage: Ledger) -> None:
    note(usage, "2026-11-21", cost_usd="0.5")
    note(usage, "2026-11-22", cost_usd="1.25")
    note(usage, "2026-11-22", model="evil\x1b[2J", provider="ollama", cost_usd="0")
    out, err = run("--to", "2026-11-22")

    assert "\x1b" not in out
    assert "evil[2J" in out
    rows = [line.replace("│", " ").split() for line in out.splitlines()]
    assert ["total", "3", "3,000", "0", "60", "1.75"] in rows
    assert ["2026-11-21", "█" * 16, "0.5000", "USD"] in rows
    assert ["2026-11-22", "█" * 40, "1.25", "USD"] in rows
    assert err == ""


def test_days_that_cost_nothing_are_compared_by_their_tokens(usage: Ledger) -> None:
    note(usage, "2026-11-21", provider="ollama", cost_usd="0")
    note(usage, "2026-11-22", provider="ollama", cost_usd="0", input=4080, output=0)
    out, _ = run("--to", "2026-11-22")

    rows = [line.split() for line in out.splitlines()]
    assert ["2026-11-21", "█" * 10, "1,020", "tokens"] in rows


@pytest.mark.parametrize(
    ("costs", "shown"),
    [([None], "unknown"), (["0.00000012"], "0.00000012"), (["2", None], "2.00 + ?"), (["0"], "0")],
)
def test_what_is_unknown_says_so(usage: Ledger, costs: list[str | None], shown: str) -> None:
    for cost in costs:
        note(usage, "2026-11-22", cost_usd=cost)
    out, _ = run("--from", "2026-11-22", "--to", "2026-11-22", "--by", "provider")

    assert f" {shown} " in out


def test_usage_is_printed_as_json(usage: Ledger) -> None:
    note(usage, "2026-11-22", cost_usd="0.5", session_id="0123456789")
    out, _ = run("--to", "2026-11-22", "--by", "session", "--json")

    report = json.loads(out)
    assert report["groups"][0]["session_id"] == "0123456789"
    assert report["total"]["cost_usd"] == "0.5"


def test_nothing_is_said_to_be_nothing(usage: Ledger) -> None:
    assert run()[1] == "No model was called.\n"


def test_prices_that_cannot_be_used_are_pointed_out(usage: Ledger, tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text("{")
    note(usage, "2026-11-22")

    out, err = run("--to", "2026-11-22")
    assert "prices.json is not JSON: Input data was truncated." in err
    assert "unknown" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--by", "user"), "--by: must be some of day, model, .*, separated by commas"),
        (("--from", "soon"), "--from: must be a day as YYYY-MM-DD"),
        (("--from", "2026-11-02", "--to", "2026-11-01"), "before 'from'"),
    ],
)
def test_what_makes_no_sense_is_refused(usage: Ledger, arguments: Any, words: str) -> None:
    with pytest.raises(CommandError, match=words):
        run(*arguments)


def test_usage_is_that_of_an_owner_or_of_all(usage: Ledger, tmp_path: Path) -> None:
    (tmp_path / "budgets.json").write_text('[{"period": "total", "requests": 5, "owner": "*"}]')
    note(usage, "2026-11-22", owner="anna")
    note(usage, "2026-11-22", owner="bob")

    of_anna = run("--to", "2026-11-22", "--by", "owner", "--owner", "anna")[0]
    of_all = run("--to", "2026-11-22", "--by", "owner", "--all")[0]

    assert "bob" not in of_anna
    assert "models of anna: 1 request used" in of_anna
    assert all(f"models of {owner}: 1 request used" in of_all for owner in ("anna", "bob"))
