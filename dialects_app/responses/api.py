"""Serves the routes of stored responses and of conversations: parses, calls, encodes."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Query

from chat.approvals.service import ConfirmationService
from chat.http.request_schemas import IdempotencyKey
from chat.service import ChatRequest, ChatService
from chat.start.preparation import TurnPreparer
from chat.start.turn_request import TurnRequest
from dialects_app.responses.body import ResponseIn
from dialects_app.responses.compaction_stream import input_to_record
from dialects_app.responses.conversations import (
    ConversationIn,
    Conversations,
    ItemsIn,
    KeptFiles,
    LabelsIn,
    session_of,
)
from dialects_app.responses.ending import is_repeated_by_codex
from dialects_app.responses.errors import SocketsNotOffered
from dialects_app.responses.pages import DEFAULT_LIMIT, MAX_LIMIT, Order, page_of
from dialects_app.responses.resource import InputTokensOut
from dialects_app.responses.response_creation import ResponseMaker
from dialects_app.responses.store import ResponseStore
from dialects_app.responses.stored_responses import StoredResponses
from dialects_app.responses.view import failed_stream, respond, respond_with_record
from dialects_app.shared.assembly import assembled
from dialects_app.shared.attaching import NO_FILES, RequestFiles
from dialects_app.shared.body import read_body
from dialects_app.shared.shown_calls import questions_of
from dialects_app.shared.streams import json_response
from dialects_app.shared.transcripts import Transcripts
from dialects_app.shared.waiting import WhenBusyHeader, interrupting
from mochi_project.app import service
from mochi_project.errors.handlers import not_allowed
from mochi_project.http.clients import client_of
from mochi_project.routing import Router, needs
from models_app.default_model import DefaultModel
from sessions_app.errors import MochiError, SessionNotFound
from sessions_app.service import SessionManager

router = Router(scope="read", changes="chat", limit="max_history_bytes", tags=["OpenAI"])

After = Annotated[str | None, Query(description="The item after which the page begins")]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many items at most")]
InOrder = Annotated[Order, Query(description="`desc`: the newest first")]


@router.post(
    "/responses/input_tokens",
    response={200: None, (400, 404): None},
    summary="Count the tokens of a request for a response",
    operation_id="openai_count_input_tokens",
)
async def count_input_tokens(request: HttpRequest) -> HttpResponse:
    """Estimate the prompt tokens of a response's first model call, without calling a model.

    The body is that of `POST /v1/responses`. The previous messages, instructions and tools are
    included. Nothing is saved.
    """
    body = await read_body(request, ResponseIn)
    tokens = await assembled(ResponseMaker).count(body, service(TurnPreparer))
    return json_response(InputTokensOut(input_tokens=tokens))


@router.post(
    "/responses/compact",
    response={200: None, (400, 404, 429, 502, 503): None},
    summary="Compact a conversation",
    operation_id="openai_compact_response",
)
async def compact_response(request: HttpRequest) -> HttpResponse:
    """Return the user's messages and a record of the conversation, to be sent as `input`.

    The body is `model`, and `input` or `previous_response_id`. The model writes the record, of 250
    words at most. Nothing is saved.
    """
    body = await read_body(request, ResponseIn)
    _, writing = await assembled(ResponseMaker).compaction(body, client=client_of(request))
    return json_response(await writing)


@router.get(
    "/responses/{response_id}",
    response={200: None, (400, 404): None},
    summary="Get a response, or its stream again",
    operation_id="openai_get_response",
)
async def get_response(
    request: HttpRequest,
    response_id: str,
    stream: Annotated[bool, Query(description="Whether its events are sent")] = False,
    starting_after: Annotated[
        int | None, Query(ge=0, description="The `sequence_number` of the last event you have")
    ] = None,
) -> HttpResponseBase:
    """Return the current state of a response, or stream its events after the given one.

    Works on any worker, even after a crash. Every turn is a response: its id is `resp_`, the
    session's id and the turn's. Events are kept for ten minutes after the end; then streaming
    returns 400.
    """
    if not stream:
        return json_response(await assembled(StoredResponses).get(response_id))
    after = -1 if starting_after is None else starting_after
    return await assembled(StoredResponses).stream(response_id, after=after)


@router.post(
    "/responses/{response_id}/cancel",
    response={200: None, 404: None},
    summary="Cancel a response",
    operation_id="openai_cancel_response",
)
async def cancel_response(request: HttpRequest, response_id: str) -> HttpResponse:
    """Stop a response and return it; does not change a response that has ended."""
    return json_response(await assembled(StoredResponses).cancel(response_id))


@router.delete(
    "/responses/{response_id}",
    response={200: None, (404, 409): None},
    summary="Delete a response",
    operation_id="openai_delete_response",
)
@needs(scope="write")
async def delete_response(request: HttpRequest, response_id: str) -> HttpResponse:
    """Delete a response, and its session if it has no other turn; 409 while it is running.

    The messages stay in a session that has other turns.
    """
    return json_response(await assembled(StoredResponses).delete(response_id))


@router.get(
    "/responses/{response_id}/input_items",
    response={200: None, (400, 404): None},
    summary="List what a response was made from",
    operation_id="openai_list_input_items",
)
async def list_input_items(
    request: HttpRequest,
    response_id: str,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
    order: InOrder = "desc",
) -> HttpResponse:
    """Return a page of the input items of a response, including earlier ones."""
    items = await assembled(StoredResponses).input_items(response_id)
    return json_response(page_of(items, after=after, limit=limit, order=order))


@router.post(
    "/responses",
    response={200: None, (400, 404, 408, 409, 429, 502, 503, 507): None},
    summary="Make a response",
    operation_id="openai_create_response",
)
async def create_response(
    request: HttpRequest,
    # Nothing waits here: a response is known by its turn.
    when_busy: WhenBusyHeader[Literal["refuse", "interrupt"]] = None,
    idempotency_key: IdempotencyKey = None,
) -> HttpResponseBase:
    """Create a response, as one object, as a stream of events, or in the background.

    It is stored unless `store` is false. `previous_response_id` and `conversation` continue stored
    responses; an older response is forked. Functions in `tools` are run by the client. Tools of
    this server are those of the MCP server `mochi` (`{"type": "mcp", "server_label": "mochi"}`):
    they run here, and if one needs approval, the response ends with an approval request that the
    next request answers. `x-mochi-warning` lists unsupported options of the request. After an input
    that ends with a `compaction_trigger`, the output is one `compaction`; nothing is saved then.
    """
    body = await read_body(request, ResponseIn)
    items = input_to_record(body)
    if items is not None:
        client = client_of(request)
        return await respond_with_record(
            assembled(ResponseMaker), body, items, client=client, key=idempotency_key
        )
    start = partial(
        assembled(ResponseMaker).start,
        body,
        key=idempotency_key,
        client=client_of(request),
        conversation=service(Transcripts).conversation_of(request.headers),
    )
    try:
        started = await (interrupting(start) if when_busy == "interrupt" else start())
        return await respond(started, body)
    except MochiError as error:
        is_codex = request.headers.get("originator", "").startswith("codex")
        if not (is_codex and body.stream and is_repeated_by_codex(error)):
            raise
        return failed_stream(body.model or "", error)


@router.get("/responses", include_in_schema=False)
def refuse_socket(request: HttpRequest) -> HttpResponse:
    """Answer programs that dial a WebSocket: after 426 they use HTTP at once."""
    if "sec-websocket-key" in request.headers:  # servers take ``Upgrade`` out
        raise SocketsNotOffered
    return not_allowed(request.method, ["POST"], path=request.path_info)


@router.post(
    "/conversations",
    response={200: None, (400, 404): None},
    summary="Make a conversation",
    operation_id="openai_create_conversation",
)
async def create_conversation(request: HttpRequest) -> HttpResponse:
    """Create a conversation, which is a session, with up to 20 items."""
    body = await read_body(request, ConversationIn)
    kept = await _kept_files(body.items)
    return json_response(await asyncio.to_thread(_conversations().create, body, kept))


@router.get(
    "/conversations/{conversation_id}",
    response={200: None, 404: None},
    summary="Get a conversation",
    operation_id="openai_get_conversation",
)
async def get_conversation(request: HttpRequest, conversation_id: str) -> HttpResponse:
    """Return a conversation. Every session is one, with the id `conv_` and the session's id."""
    return json_response(await asyncio.to_thread(_conversations().get, conversation_id))


@router.post(
    "/conversations/{conversation_id}",
    response={200: None, (400, 404): None},
    summary="Change a conversation's metadata",
    operation_id="openai_update_conversation",
)
async def update_conversation(request: HttpRequest, conversation_id: str) -> HttpResponse:
    """Replace the metadata of a conversation; null removes it."""
    body = await read_body(request, LabelsIn)
    changed = await asyncio.to_thread(_conversations().set_labels, conversation_id, body)
    return json_response(changed)


@router.delete(
    "/conversations/{conversation_id}",
    response={200: None, (404, 409): None},
    summary="Delete a conversation",
    operation_id="openai_delete_conversation",
)
@needs(scope="write")
async def delete_conversation(request: HttpRequest, conversation_id: str) -> HttpResponse:
    """Delete a conversation with its items and responses; 409 while a response is running."""
    return json_response(await asyncio.to_thread(_conversations().delete, conversation_id))


@router.get(
    "/conversations/{conversation_id}/items",
    response={200: None, (400, 404): None},
    summary="List the items of a conversation",
    operation_id="openai_list_conversation_items",
)
async def list_items(
    request: HttpRequest,
    conversation_id: str,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
    order: InOrder = "desc",
) -> HttpResponse:
    """Return a page of the items of a conversation."""
    questions = await _questions(session_of(conversation_id))
    items = await asyncio.to_thread(_conversations().items, conversation_id, questions=questions)
    return json_response(page_of(items, after=after, limit=limit, order=order))


@router.post(
    "/conversations/{conversation_id}/items",
    response={200: None, (400, 404, 409): None},
    summary="Add items to a conversation",
    operation_id="openai_create_conversation_items",
)
async def create_items(request: HttpRequest, conversation_id: str) -> HttpResponse:
    """Append up to 20 items to a conversation; 409 while a response is running."""
    body = await read_body(request, ItemsIn)
    kept = await _kept_files(body.items)
    return json_response(await asyncio.to_thread(_conversations().add, conversation_id, body, kept))


@router.get(
    "/conversations/{conversation_id}/items/{path:item_id}",
    response={200: None, 404: None},
    summary="Get an item of a conversation",
    operation_id="openai_get_conversation_item",
)
async def get_item(request: HttpRequest, conversation_id: str, item_id: str) -> HttpResponse:
    """Return one item of a conversation."""
    questions = await _questions(session_of(conversation_id))
    return json_response(
        await asyncio.to_thread(
            _conversations().item, conversation_id, item_id, questions=questions
        )
    )


@router.delete(
    "/conversations/{conversation_id}/items/{path:item_id}",
    response={200: None, (404, 409): None},
    summary="Delete an item of a conversation",
    operation_id="openai_delete_conversation_item",
)
@needs(scope="write")
async def delete_item(request: HttpRequest, conversation_id: str, item_id: str) -> HttpResponse:
    """Delete an item, and a call's result with the call; 409 while a response is running."""
    return json_response(await asyncio.to_thread(_conversations().remove, conversation_id, item_id))


async def _kept_files(items: Any) -> KeptFiles:
    """Store the images and files of items before the items are added."""
    given = await asyncio.to_thread(_conversations().given, items)
    if given is None:
        return NO_FILES
    return await service(RequestFiles).keep(given.messages, given.files)


def _conversations() -> Conversations:
    saved = service(ChatService).space_for(ChatRequest(turn=TurnRequest()))
    store = ResponseStore(saved.records)
    return Conversations(service(SessionManager), store, model=service(DefaultModel).configured)


async def _questions(session_id: str) -> Mapping[str, str]:
    """Return the pending confirmations of the session's own calls, by call id."""
    try:
        pending = await service(ConfirmationService).pending(session_id)
    except SessionNotFound:
        return {}  # said by who reads the session
    return questions_of(pending)
