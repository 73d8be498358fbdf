"""Serves the routes of approvals: what waits for one, and the answer to it."""

from django.http import HttpRequest

from chat.approvals.confirmation import Decision
from chat.approvals.schemas import (
    ApprovalDecisionOut,
    ConfirmationOut,
    ConfirmationsOut,
    ConfirmToolIn,
)
from chat.approvals.service import ConfirmationService
from mochi_project.app import service
from mochi_project.routing import Router
from sessions_app.http.error_schemas import ENVELOPE

router = Router(scope="read", changes="approve", tags=["chat"])


@router.get(
    "/chat/{session_id}/confirmations",
    operation_id="list_confirmations",
    summary="What waits for an approval",
    response={200: ConfirmationsOut, (404, 500): ENVELOPE},
    by_alias=True,
)
async def list_confirmations(request: HttpRequest, session_id: str) -> ConfirmationsOut:
    """List the tool calls of the session that wait for an approval, oldest first."""
    pending = await service(ConfirmationService).pending(session_id)
    return ConfirmationsOut(confirmations=[ConfirmationOut.of(asked) for asked in pending])


@router.post(
    "/chat/{session_id}/confirm-tool",
    operation_id="confirm_tool",
    summary="Approve or deny a tool call",
    response={200: ApprovalDecisionOut, (404, 408, 409, 422, 500, 507): ENVELOPE},
)
async def confirm_tool(
    request: HttpRequest, session_id: str, body: ConfirmToolIn
) -> ApprovalDecisionOut:
    """Answer a call that waits, once, from any connection and any worker.

    With `arguments` the tool runs with these instead of the model's. 408
    `TOOL_CONFIRMATION_TIMEOUT`: too late, the call was denied. 409: it was answered before.
    With `remember` an approval is for further calls of the tool, too. A server's question is
    answered with `content`; what does not fit its `schema` is refused, and it stays open.
    """
    remember = body.remember or "once"
    confirmation, decision = await service(ConfirmationService).decide(
        session_id,
        Decision(**body.model_dump(exclude={"remember"})),
        remember=remember if isinstance(remember, str) else remember.arguments,
    )
    return ApprovalDecisionOut(
        confirmation_id=confirmation.confirmation_id,
        approved=decision.approved,
        tool_name=confirmation.tool_name,
        arguments=dict(decision.arguments),
        decided_at=decision.decided_at,
    )
