"""Answers requests for responses: as a stream, as one object, or immediately in the background."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from chat.http.event_stream import HEADERS
from chat.turn.turn_ids import new_turn_id
from dialects_app.responses.body import ResponseIn
from dialects_app.responses.compaction_stream import CompactionStream
from dialects_app.responses.ending import is_shown_in_stream
from dialects_app.responses.projector import ResponseProjector
from dialects_app.responses.record import ResponseRecord
from dialects_app.responses.request import name_of_field, read_request
from dialects_app.responses.resource import Resource
from dialects_app.responses.response_creation import ResponseMaker
from dialects_app.responses.started_response import StartedResponse
from dialects_app.shared.additions import SESSION_HEADER
from dialects_app.shared.fields import renamed_fields
from dialects_app.shared.ids import ResponseId
from dialects_app.shared.refused_turns import events_of_refused
from dialects_app.shared.streams import StartedTurn
from dialects_app.shared.warnings import warning_headers
from sessions_app.errors import MochiError
from sessions_app.ids_and_clock import new_session_id

_ends: set[asyncio.Task[None]] = set()
"""Tasks that keep the ends of responses; asyncio itself would forget them."""


async def respond(
    maker: ResponseMaker,
    body: ResponseIn,
    *,
    key: str | None,
    client: str | None,
    is_codex: bool = False,
    conversation: str | None = None,
) -> HttpResponseBase:
    """Return the answer to a request.

    Args:
        maker: Starts the response.
        body: The request.
        key: Its ``Idempotency-Key``, if any.
        client: The client, if turns are limited per client.
        is_codex: Whether Codex has sent it.
        conversation: The name of the client's conversation, if such are saved.

    Raises:
        MochiError: An error ended the response, before its stream or without one.
    """
    is_shown = partial(is_shown_in_stream, is_codex=is_codex)
    try:
        started = await maker.start(body, key=key, client=client, conversation=conversation)
    except MochiError as error:
        if body.stream:
            return _failed_stream(body, error, is_shown)
        raise
    task = asyncio.create_task(started.note_end())
    _ends.add(task)
    task.add_done_callback(_ends.discard)
    with renamed_fields(partial(name_of_field, body=body)):
        answer = await _answer(started, body, is_shown)
    if not (answer.streaming or body.background):  # it has ended, and may be read next
        await asyncio.shield(task)
    if body.store is not False:
        answer[SESSION_HEADER] = started.turn.session_id
    for name, value in warning_headers(started.warnings).items():
        answer[name] = value
    return answer


async def _answer(
    started: StartedResponse, body: ResponseIn, is_shown: Callable[[MochiError], bool]
) -> HttpResponseBase:
    if body.stream:
        stream = StartedTurn(started.turn, started.projector())
        return await stream.stream_or_refusal(started.model, is_shown)
    if body.background:
        answer = _json(started.resource())
        started.turn.leave()  # it is detached
        return answer
    return _json(await _whole(started))


async def respond_with_record(
    maker: ResponseMaker, body: ResponseIn, items: Sequence[Mapping[str, Any]]
) -> HttpResponseBase:
    """Return the answer to a request for a record of these items.

    Raises:
        MochiError: The request is invalid or, without a stream, there is no record.
    """
    parsed = read_request(body)
    write = await maker.compaction(msgspec.structs.replace(body, input=items))
    made = CompactionStream(ResponseRecord(echo=parsed.echo), body.model or "", write)
    answer = (
        StreamingHttpResponse(made.events(), headers=HEADERS)
        if body.stream
        else _json(await made.whole())
    )
    for name, value in warning_headers(parsed.warnings).items():
        answer[name] = value
    return answer


def _failed_stream(
    body: ResponseIn, error: MochiError, is_shown: Callable[[MochiError], bool]
) -> HttpResponse:
    """Return the stream of a response whose turn could not begin."""
    name = ResponseId(new_session_id(), new_turn_id())
    events = events_of_refused(name, body.model or "", error, is_shown)
    projector = ResponseProjector(*name, ResponseRecord(background=bool(body.background)))
    return HttpResponse(projector.feed(events), headers=HEADERS)


async def _whole(started: StartedResponse) -> Resource:
    try:
        return await started.finished()
    finally:
        started.turn.leave()


def _json(resource: Resource) -> HttpResponse:
    data = msgspec.json.encode(resource, enc_hook=dict)
    return HttpResponse(data, content_type="application/json")
