"""Serves the routes of Anthropic's Messages API: parses, calls, encodes."""

import msgspec
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from chat.http.request_schemas import IdempotencyKey
from dialects_app.messages.body import CountTokensIn, MessagesIn
from dialects_app.messages.view import Messages
from dialects_app.shared.additions import SessionHeader, ToolsHeader
from dialects_app.shared.assembly import assembled
from dialects_app.shared.body import read_body
from dialects_app.shared.parsed_request import RequestContext
from dialects_app.shared.streams import json_response
from dialects_app.shared.transcripts import Transcripts
from mochi_project.app import service
from mochi_project.http.clients import client_of
from mochi_project.routing import Router

router = Router(scope="chat", limit="max_history_bytes", tags=["Anthropic"])


class TokensOut(msgspec.Struct, frozen=True):
    """The estimated tokens of a request."""

    input_tokens: int


@router.post(
    "/messages",
    response={200: None, (402, 404, 409, 429, 502, 503, 507): None},
    summary="Create a message in Anthropic's shape",
    operation_id="anthropic_create_message",
)
async def create_message(
    request: HttpRequest,
    session_id: SessionHeader = None,
    own_tools: ToolsHeader = None,
    idempotency_key: IdempotencyKey = None,
) -> HttpResponseBase:
    """Answer a conversation, as one message or as a stream of its events.

    Each request contains the history, which is not saved, unless `X-Mochi-Session-Id` continues a
    session or `MOCHI_CLIENT_SESSIONS` names the client. Tools in the body are run by the
    client; those of Anthropic (`web_search` and others) are left out. Tools of this server run for
    profiles and agents, or if `X-Mochi-Tools` names them; a call that needs approval is denied.
    `x-mochi-warning` lists what was left out.
    """
    body = await read_body(request, MessagesIn)
    context = RequestContext(
        session_id=session_id or None,
        own_tools=own_tools,
        chat_id=service(Transcripts).conversation_of(request.headers),
        key=idempotency_key,
        client=client_of(request),
    )
    return await assembled(Messages).create(body, context)


@router.post(
    "/messages/count_tokens",
    response={200: None, (400, 404): None},
    summary="Count the tokens of a message in Anthropic's shape",
    operation_id="anthropic_count_tokens",
)
async def count_tokens(request: HttpRequest) -> HttpResponse:
    """Estimate the tokens of a request, system prompt and tools included, without calling a model.

    The body is that of `POST /v1/messages`. Nothing is saved.
    """
    body = await read_body(request, CountTokensIn)
    return json_response(TokensOut(await assembled(Messages).count(body)))
