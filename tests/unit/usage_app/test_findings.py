"""What ``mochi-server doctor`` says of the ledger, of prices and of budgets."""

import json
from pathlib import Path

import pytest

from mochi_project.app import Services, build_services
from mochi_project.configuration.loading import MochiSettings
from usage_app.findings import budget_lines, budgets_finding, usage_findings
from usage_app.ledger import Ledger
from usage_app.record import UsageRecord


@pytest.fixture
def usage(tmp_path: Path) -> Services:
    return build_services(MochiSettings(data_dir=tmp_path))


def found(usage: Services) -> dict[str, tuple[str, str]]:
    return {each.check: (each.state, each.detail) for each in usage_findings(usage)}


def note(usage: Services, month: str) -> None:
    values = {"provider": "mine", "model": "m", "purpose": "chat", "status": "ok"}
    usage.get(Ledger).append([UsageRecord(v=1, t=f"{month}-01T10:00:00.000Z", ms=5, **values)])


def test_nothing_is_in_order_too(usage: Services) -> None:
    assert found(usage) == {"usage": ("ok", "no model was called yet")}


def test_it_is_said_what_there_is(usage: Services, tmp_path: Path) -> None:
    for month in ("2026-10", "2026-11"):
        note(usage, month)
    prices = {"input_per_million": 1, "output_per_million": 1}
    (tmp_path / "prices.json").write_text(json.dumps({"mine:*": prices}))

    assert found(usage) == {
        "usage": ("ok", "0.0 MB of model calls since 2026-10"),
        "prices": ("ok", "prices.json has 1, others are genai-prices'"),
    }


def test_prices_that_cannot_be_used_are_pointed_out(usage: Services, tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text('{"mine:*": 1}')

    state, detail = found(usage)["prices"]
    assert state == "note"
    assert detail.startswith("prices.json, `mine:*`: it must be an object (it is 1).")


def test_a_ledger_that_cannot_be_read_is_pointed_out(usage: Services) -> None:
    directory = usage.get(Ledger).directory
    directory.parent.mkdir(parents=True)
    directory.write_text("no directory")

    assert found(usage)["usage"][0] == "note"


@pytest.fixture
def services(tmp_path: Path) -> Services:
    return build_services(MochiSettings(data_dir=tmp_path))


def test_without_a_file_there_are_no_limits(services: Services) -> None:
    assert budgets_finding(services).detail.startswith("none in budgets.json")
    assert list(budget_lines(services, "default")) == []


def test_budgets_that_are_used_up_are_told(services: Services, tmp_path: Path) -> None:
    budgets = tmp_path / "budgets.json"
    budgets.write_text('[{"period": "total", "requests": 1}, {"period": "total", "tokens": 5}]')
    assert (budgets_finding(services).state, budgets_finding(services).detail) == (
        "ok",
        "2, none is used up",
    )
    assert list(budget_lines(services, "default")) == [
        "budget of 1 request in total for all models: 0 requests used",
        "budget of 5 tokens in total for all models: 0 tokens used",
    ]

    budgets.write_text('[{"period": "total", "requests": 0}]')

    told = budgets_finding(services)
    assert told.state == "note"
    assert "0 requests in total for all models is used up" in told.detail


def test_a_file_that_cannot_be_used_breaks_the_server(services: Services, tmp_path: Path) -> None:
    (tmp_path / "budgets.json").write_text("{}")

    told = budgets_finding(services)

    assert told.state == "broken"
    assert "Fix or remove it" in told.detail
    assert list(budget_lines(services, "default")) == [told.detail]
