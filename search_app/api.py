"""Serves the search route: parses, calls, encodes."""

import time
from typing import Annotated, Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Query

from mochi_project.app import service
from mochi_project.http.large_json import answer_by_reading
from mochi_project.routing import Router
from search_app.places import SearchPlaces
from search_app.schemas import SearchOut, SearchParams, results_to_json
from sessions_app.http.error_schemas import ENVELOPE

router = Router(scope="read", tags=["sessions"])


@router.get(
    "/search",
    response={200: SearchOut, (422, 503): ENVELOPE},
    summary="Search in all sessions",
    description=(
        "Finds words in messages, names of attachments, titles and summaries, those of the session "
        "that was changed last first. Upper and lower case are one, `ü` is `u`, `ß` is `ss`. "
        "Replaced answers and reasoning are not searched. What was said a moment ago is found, "
        "also while the index is built or missing."
    ),
    operation_id="search",
)
async def search(
    request: HttpRequest, params: Annotated[SearchParams, Query()]
) -> HttpResponseBase:
    """Search in wanted was said."""
    from search_app.service import SessionSearch  # noqa: PLC0415 - imports SQLite

    search = service(SessionSearch)
    wanted = params.request()

    def work() -> dict[str, Any]:
        begun = time.perf_counter()
        results = search.search(wanted)
        return results_to_json(results, wanted.query, time.perf_counter() - begun)

    return await answer_by_reading(work, service(SearchPlaces))
