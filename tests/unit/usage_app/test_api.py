"""The /usage route: its shape, its days and its refusals."""

from datetime import UTC, datetime

import pytest
from django.test import AsyncClient

from mochi_project import urls  # noqa: F401 - so that no request imports it on the loop
from mochi_project.api import api
from mochi_project.principal import acting_for
from tests.services import SharedByAll, services_of
from tests.unit.usage_app.records import record
from usage_app.ledger import Ledger
from usage_app.reports import UsageReports
from usage_app.schemas import UsageReportOut

URL = "/api/v1/usage"


@pytest.fixture
def client(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "usage")
    ledger.append(
        [
            record(cost_usd="0.0058", session_id="0123456789"),
            record("2026-11-02", cost_usd="0.1"),
            record("2026-10-02", provider="mine"),
        ]
    )
    services = services_of({UsageReports: UsageReports(ledger)})
    monkeypatch.setattr("mochi_project.app._pool", SharedByAll(services))
    return AsyncClient()


SUMS = {
    "requests": 1,
    "failed_requests": 0,
    "input_tokens": 10,
    "output_tokens": 2,
    "cached_tokens": 0,
    "cache_write_tokens": 0,
    "reasoning_tokens": 0,
    "images": 0,
    "cost_usd": "0.0058",
    "cost_known": True,
    "unpriced_requests": 0,
    "estimated_requests": 0,
}


async def test_a_report_has_exactly_the_documented_fields(client):
    answer = await client.get(URL, {"from": "2026-11-22", "to": "2026-11-22"})

    assert answer.status_code == 200
    assert answer.json() == {
        "from": "2026-11-22",
        "to": "2026-11-22",
        "groups": [{"day": "2026-11-22", "model": "openai:gpt-5.1", **SUMS}],
        "total": SUMS,
    }
    UsageReportOut.model_validate(answer.json())


async def test_a_report_by_session_names_it(client):
    report = (await client.get(URL, {"to": "2026-11-22", "group_by": "session"})).json()

    assert [group["session_id"] for group in report["groups"]] == [None, "0123456789"]


async def test_the_first_day_is_that_of_the_month_of_the_last(client):
    report = (await client.get(URL, {"to": "2026-11-22"})).json()

    assert report["from"] == "2026-11-01"
    assert report["total"]["cost_usd"] == "0.1058"


async def test_the_last_day_is_today(client):
    before = datetime.now(UTC).date().isoformat()
    report = (await client.get(URL)).json()

    assert before <= report["to"] <= datetime.now(UTC).date().isoformat()


async def test_what_nobody_knows_is_null_and_not_zero(client):
    query = {"from": "2026-10-01", "to": "2026-10-31"}
    total = (await client.get(URL, query)).json()["total"]

    assert total["cost_usd"] is None
    assert total["cost_known"] is False
    assert total["unpriced_requests"] == 1


async def test_sums_of_known_and_unknown_costs_say_so(client):
    total = (await client.get(URL, {"from": "2026-10-01", "to": "2026-11-30"})).json()["total"]

    assert (total["cost_usd"], total["cost_known"]) == ("0.1058", False)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"group_by": "user"}, "group_by"),
        ({"group_by": "day,"}, "group_by"),
        ({"group_by": ""}, "group_by"),
        ({"from": "yesterday"}, "from"),
        ({"from": "2026-02-31"}, "from"),
        ({"from": "2026-11-02", "to": "2026-11-01"}, "to"),
    ],
)
async def test_what_makes_no_sense_is_refused(client, query, field):
    answer = await client.get(URL, query)

    assert answer.status_code == 422
    assert answer.json()["error"]["details"]["field"] == field


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"from": "yesterday"}, "from: must be a day as YYYY-MM-DD"),
        ({"to": "2026-1-1"}, "to: must be a day as YYYY-MM-DD"),
        (
            {"group_by": "foo"},
            "group_by: must be some of day, model, provider, purpose, session, owner",
        ),
    ],
)
async def test_what_may_stand_in_a_query_is_said_in_words(client, query, message):
    assert message in (await client.get(URL, query)).json()["error"]["message"]


@pytest.mark.allow_blocking
async def test_a_ledger_that_cannot_be_read_is_unavailable(client, tmp_path):
    (tmp_path / "usage").rename(tmp_path / "away")
    (tmp_path / "usage").touch()
    answer = await client.get(URL)

    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "STORAGE_UNAVAILABLE"


def test_the_route_is_described():
    operation = api.get_openapi_schema()["paths"][URL]["get"]

    assert (operation["operationId"], operation["tags"]) == ("get_usage", ["usage"])


async def test_an_owner_is_told_of_his_own_calls(client):
    with acting_for("anna"):
        answer = await client.get(URL, {"from": "2026-10-01", "group_by": "owner"})
    mine = await client.get(URL, {"from": "2026-10-01", "group_by": "owner"})

    assert answer.json()["groups"] == []
    assert [group["owner"] for group in mine.json()["groups"]] == ["default"]
