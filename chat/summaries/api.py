"""Serves the routes of a session's summary: reads it, has it written."""

from django.http import HttpRequest

from chat.summaries.schemas import SummarizeIn, SummaryOut
from chat.summaries.service import SummaryService
from mochi_project.app import service
from mochi_project.routing import Router
from sessions_app.http.error_schemas import ENVELOPE

router = Router(scope="read", changes="write", tags=["chat"])


@router.get(
    "/sessions/{session_id}/summary",
    operation_id="get_session_summary",
    summary="Summary of a session",
    response={200: SummaryOut, (404, 500): ENVELOPE},
)
async def get_session_summary(request: HttpRequest, session_id: str) -> SummaryOut:
    """Return what the conversation is about; 404 `SUMMARY_NOT_FOUND` while there is no summary."""
    return await service(SummaryService).get(session_id)


@router.post(
    "/sessions/{session_id}/summarize",
    operation_id="summarize_session",
    summary="Summarize a session now",
    response={200: SummaryOut, (402, 404, 409, 422, 500, 502, 503, 507): ENVELOPE},
)
async def summarize_session(request: HttpRequest, session_id: str, body: SummarizeIn) -> SummaryOut:
    """Write the summary and wait for it; 409 while a turn runs on the session."""
    return await service(SummaryService).summarize(session_id, body.model)
