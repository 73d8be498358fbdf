"""Serves reports of usage: parses, calls, encodes."""

from typing import Annotated

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Query

from mochi_project.app import service
from mochi_project.http.large_json import answer_by_reading
from mochi_project.principal import principal
from mochi_project.routing import Router
from sessions_app.http.error_schemas import ENVELOPE
from usage_app.reports import UsageReports
from usage_app.schemas import UsageParams, UsageReportOut, report_to_json

router = Router(scope="read", tags=["usage"])


@router.get(
    "/usage",
    response={200: UsageReportOut, (422, 503): ENVELOPE},
    summary="Report tokens and costs",
    description=(
        "Sums up all your model calls of some days: those of turns, agents, summaries and "
        "compaction. Costs are those of the moment of the call, in US dollars, as decimal strings. "
        "A call whose price is not known is in `unpriced_requests`, and `cost_known` is false; it "
        "is never counted as free."
    ),
    operation_id="get_usage",
    by_alias=True,
)
async def get_usage(
    request: HttpRequest, params: Annotated[UsageParams, Query()]
) -> HttpResponseBase:
    """Report usage."""
    reports = service(UsageReports)
    query = params.query(principal().owner)
    return await answer_by_reading(lambda: report_to_json(reports.report(query)))
