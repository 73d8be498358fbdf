"""Reports sum up the ledger, and read each line once where they can."""

from decimal import Decimal

import pytest

from sessions_app.errors import ValidationFailed
from tests.unit.usage_app.records import record
from usage_app import report as module
from usage_app.ledger import Ledger
from usage_app.record import line_of
from usage_app.report import ReportQuery
from usage_app.reports import UsageReports


class CountingLedger(Ledger):
    """Counts the lines that are read."""

    lines = 0

    def follow_month(self, month, start):
        for each in super().follow_month(month, start):
            self.lines += 1
            yield each


@pytest.fixture
def ledger(tmp_path):
    return CountingLedger(tmp_path / "usage")


@pytest.fixture
def reports(ledger):
    return UsageReports(ledger)


def wanted(*group_by, first="2026-11-01", last="2026-11-30", owner=None):
    return ReportQuery(first, last, group_by, owner)


def test_nothing_is_a_report_too(reports):
    report = reports.report(wanted("day"))

    assert report.groups == []
    assert report.total.requests == 0


@pytest.mark.parametrize(
    ("group_by", "expected"),
    [
        ((), []),
        (("day",), [(("2026-11-21",), 1), (("2026-11-22",), 3)]),
        (("model",), [(("openai:gpt-5.1",), 3), (("qwen3:14b",), 1)]),
        (("provider",), [(("ollama",), 1), (("openai",), 3)]),
        (("purpose",), [(("chat",), 3), (("summary",), 1)]),
        (("session",), [((None,), 1), (("0123456789",), 3)]),
        (
            ("model", "day"),
            [
                (("openai:gpt-5.1", "2026-11-21"), 1),
                (("openai:gpt-5.1", "2026-11-22"), 2),
                (("qwen3:14b", "2026-11-22"), 1),
            ],
        ),
    ],
)
def test_calls_are_grouped_in_the_order_that_is_asked_for(ledger, reports, group_by, expected):
    session = "0123456789"
    ledger.append(
        [
            record(session_id=session),
            record(session_id=session, provider="ollama", model="qwen3:14b"),
            record("2026-11-21", session_id=session),
            record(purpose="summary"),
        ]
    )
    report = reports.report(wanted(*group_by))

    assert [(values, sums.requests) for values, sums in report.groups] == expected
    assert report.total.requests == 4


def test_days_of_other_months_and_beside_the_wanted_ones_are_left_out(ledger, reports):
    days = ("2026-10-31", "2026-11-01", "2026-11-02", "2026-11-03", "2026-12-01")
    ledger.append([record(day) for day in days])
    report = reports.report(wanted("day", first="2026-11-01", last="2026-11-02"))

    assert [values for values, _ in report.groups] == [("2026-11-01",), ("2026-11-02",)]


def test_money_is_added_exactly_and_what_is_unknown_is_counted(ledger, reports):
    ledger.append([record(cost_usd="0.1") for _ in range(10)])
    ledger.append([record(cost_usd="0.000000001"), record(), record(cost_usd="dear")])
    ledger.append([record(status="UNAUTHORIZED", input=None, output=None)])
    total = reports.report(wanted("model")).total

    assert total.cost == Decimal("1.000000001")
    assert (total.priced, total.unpriced, total.failed) == (11, 2, 1)
    assert (total.requests, total.input, total.output) == (14, 130, 26)


def test_lines_are_read_once(ledger, reports):
    ledger.append([record() for _ in range(5)])
    reports.report(wanted("day"))
    ledger.append([record(), record("2026-12-01")])
    totals = [reports.report(wanted(by, last="2026-12-31")).total for by in ("day", "model")]

    assert [total.requests for total in totals] == [7, 7]
    assert ledger.lines == 7


def test_a_file_that_was_replaced_is_read_anew(ledger, reports, tmp_path):
    ledger.append([record() for _ in range(5)])
    reports.report(wanted("day"))
    other = Ledger(tmp_path / "other")
    other.append([record(), record()])
    (other.directory / "2026-11.jsonl").replace(ledger.directory / "2026-11.jsonl")

    assert reports.report(wanted("day")).total.requests == 2


def test_too_many_groups_are_refused(ledger, reports, monkeypatch):
    monkeypatch.setattr(module, "MOST_GROUPS", 2)
    ledger.append([record(session_id=f"{number:010}") for number in range(3)])

    with pytest.raises(ValidationFailed, match="fewer days") as refused:
        reports.report(wanted("session"))
    assert refused.value.details["field"] == "group_by"
    assert reports.report(wanted("day")).total.requests == 3


def test_a_report_of_an_owner_has_his_calls_alone(ledger, reports):
    ledger.append([record(), record(owner="anna"), record(owner="bob", session_id="0123456789")])

    assert reports.report(wanted("day", owner="anna")).total.requests == 1
    assert reports.report(wanted("session", owner="anna")).groups[0][0] == (None,)
    assert reports.report(wanted("day", owner="default")).total.requests == 1
    everyone = reports.report(wanted("owner"))
    assert [values for values, _ in everyone.groups] == [("anna",), ("bob",), ("default",)]


def test_lines_of_before_owners_are_the_default_owners(ledger, reports):
    old = line_of(record())
    assert b"owner" not in old
    ledger.directory.mkdir()
    (ledger.directory / "2026-11.jsonl").write_bytes(old)

    assert reports.report(wanted("day", owner="default")).total.requests == 1
    assert reports.report(wanted("day", owner="anna")).total.requests == 0


def test_fifty_owners_see_their_own_sums(ledger, reports):
    owners = [f"owner-{number}" for number in range(50)]
    ledger.append([record(owner=owner, output=n) for n, owner in enumerate(owners)])

    sums = [reports.report(wanted("model", owner=owner)).total.output for owner in owners]

    assert sums == list(range(50))
    assert ledger.lines == 50
