"""Serves the route of chat completions: parses, calls, encodes."""

import asyncio
from typing import Annotated, Literal

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from msgspec.structs import replace
from ninja import Header

from chat.http.request_schemas import IdempotencyKey
from dialects_app.chat_completions.body import CompletionIn
from dialects_app.chat_completions.view import Completions
from dialects_app.settings import OPEN_WEBUI, DialectsSettings
from dialects_app.shared.additions import SessionHeader, ToolsHeader
from dialects_app.shared.assembly import assembled
from dialects_app.shared.body import read_body
from dialects_app.shared.parsed_request import RequestContext
from dialects_app.shared.waiting import WhenBusyHeader
from mochi_project.app import service
from mochi_project.http.clients import client_of
from mochi_project.routing import Router
from models_app.default_model import DefaultModel
from sessions_app.service import SessionManager

router = Router(scope="chat", limit="max_history_bytes", tags=["OpenAI"])


@router.post(
    "/chat/completions",
    response={200: None, (404, 409, 429, 502, 503, 507): None},
    summary="Complete a chat in OpenAI's shape",
    operation_id="openai_chat_completion",
)
async def chat_completion(
    request: HttpRequest,
    *,
    session_id: SessionHeader = None,
    own_tools: ToolsHeader = None,
    chat_id: Annotated[
        str | None,
        Header(
            alias="X-OpenWebUI-Chat-Id",
            description="A chat of Open WebUI, which has a session where "
            "`MOCHI_CLIENT_SESSIONS` has `openwebui`.",
        ),
    ] = None,
    when_busy: WhenBusyHeader[Literal["refuse", "queue", "interrupt"]] = None,
    idempotency_key: IdempotencyKey = None,
) -> HttpResponseBase:
    """Answer a conversation, as one object or as a stream of chunks that ends with `[DONE]`.

    Each request contains the history, which is not saved unless `store` is true. Tools in the body
    are run by the client. Tools of this server run only for profiles and agents, or if
    `X-Mochi-Tools` names them; a call that needs approval is denied. `x-mochi-warning` lists
    unsupported options of the request, `x-mochi-session-id` has the session, if there is one.
    """
    body = await _with_model(await read_body(request, CompletionIn), session_id)
    context = RequestContext(
        session_id=session_id or None,
        own_tools=own_tools,
        chat_id=chat_id if OPEN_WEBUI in service(DialectsSettings).saved_clients else None,
        when_busy=when_busy,
        key=idempotency_key,
        client=client_of(request),
    )
    return await assembled(Completions).answer(body, context)


async def _with_model(body: CompletionIn, session_id: str | None) -> CompletionIn:
    """Return the request with a model: its own, its session's, or the default one."""
    if body.model:
        return body
    if session_id:
        session = await asyncio.to_thread(service(SessionManager).get, session_id)
        return replace(body, model=session.metadata.model)
    return replace(body, model=await service(DefaultModel).name())
