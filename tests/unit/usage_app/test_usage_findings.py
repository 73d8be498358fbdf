"""What ``mochi-server doctor`` says of the ledger and of prices."""

import json
from pathlib import Path

import pytest

from mochi_project.configuration.config import MochiSettings
from usage_app.record import UsageRecord
from usage_app.usage import Usage, build_usage
from usage_app.usage_findings import usage_findings


@pytest.fixture
def usage(tmp_path: Path) -> Usage:
    return build_usage(MochiSettings(data_dir=tmp_path))


def found(usage: Usage) -> dict[str, tuple[str, str]]:
    return {each.check: (each.state, each.detail) for each in usage_findings(usage)}


def note(usage: Usage, month: str) -> None:
    values = {"provider": "mine", "model": "m", "purpose": "chat", "status": "ok"}
    usage.ledger.append([UsageRecord(v=1, t=f"{month}-01T10:00:00.000Z", ms=5, **values)])


def test_nothing_is_in_order_too(usage: Usage) -> None:
    assert found(usage) == {"usage": ("ok", "no model was called yet")}


def test_it_is_said_what_there_is(usage: Usage, tmp_path: Path) -> None:
    for month in ("2026-10", "2026-11"):
        note(usage, month)
    prices = {"input_per_million": 1, "output_per_million": 1}
    (tmp_path / "prices.json").write_text(json.dumps({"mine:*": prices}))

    assert found(usage) == {
        "usage": ("ok", "0.0 MB of model calls since 2026-10"),
        "prices": ("ok", "prices.json has 1, others are genai-prices'"),
    }


def test_prices_that_cannot_be_used_are_pointed_out(usage: Usage, tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text('{"mine:*": 1}')

    state, detail = found(usage)["prices"]
    assert state == "note"
    assert detail.startswith("prices.json, `mine:*`: it is an object (it is 1).")


def test_a_ledger_that_cannot_be_read_is_pointed_out(usage: Usage) -> None:
    usage.ledger.directory.parent.mkdir(parents=True)
    usage.ledger.directory.write_text("no directory")

    assert found(usage)["usage"][0] == "note"
