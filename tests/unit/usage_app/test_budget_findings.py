"""The doctor says which budgets are used up, and what is wrong with their file."""

from pathlib import Path

import pytest

from mochi_project.app import Services, build_services
from mochi_project.configuration.config import MochiSettings
from usage_app.budget_findings import budget_lines, budgets_finding


@pytest.fixture
def services(tmp_path: Path) -> Services:
    return build_services(MochiSettings(data_dir=tmp_path))


def test_without_a_file_there_are_no_limits(services: Services) -> None:
    assert budgets_finding(services).detail.startswith("none in budgets.json")
    assert list(budget_lines(services)) == []


def test_budgets_that_are_used_up_are_told(services: Services, tmp_path: Path) -> None:
    budgets = tmp_path / "budgets.json"
    budgets.write_text('[{"period": "total", "requests": 1}, {"period": "total", "tokens": 5}]')
    assert (budgets_finding(services).state, budgets_finding(services).detail) == (
        "ok",
        "2, none is used up",
    )
    assert list(budget_lines(services)) == [
        "budget of 1 request in total for all models: 0 requests used",
        "budget of 5 tokens in total for all models: 0 tokens used",
    ]

    budgets.write_text('[{"period": "total", "requests": 0}]')

    found = budgets_finding(services)
    assert found.state == "note"
    assert "0 requests in total for all models is used up" in found.detail


def test_a_file_that_cannot_be_used_breaks_the_server(services: Services, tmp_path: Path) -> None:
    (tmp_path / "budgets.json").write_text("{}")

    found = budgets_finding(services)

    assert found.state == "broken"
    assert "Fix or remove it" in found.detail
    assert list(budget_lines(services)) == [found.detail]
