"""Answers requests for responses: as a stream, as one object, or immediately in the background."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from chat.http.event_stream import HEADERS
from chat.turn.turn_ids import new_turn_id
from dialects_app.responses.body import ResponseIn
from dialects_app.responses.compaction_stream import compacted, events_of_compaction
from dialects_app.responses.projector import ResponseProjector
from dialects_app.responses.record import ResponseRecord
from dialects_app.responses.request import name_of_field, read_request
from dialects_app.responses.resource import resource_of
from dialects_app.responses.response_creation import ResponseMaker
from dialects_app.responses.started_response import StartedResponse
from dialects_app.shared.additions import SESSION_HEADER
from dialects_app.shared.fields import renamed_fields
from dialects_app.shared.ids import ResponseId
from dialects_app.shared.refused_turns import events_of_failed
from dialects_app.shared.streams import json_response, stream_or_refusal
from dialects_app.shared.warnings import add_warnings
from sessions_app.errors import MochiError
from sessions_app.ids_and_clock import new_session_id

_NO_KEY = "Idempotency-Key: nothing is saved of a compaction, so it is written each time"
_ends: set[asyncio.Task[None]] = set()
"""Tasks that keep the ends of responses; asyncio itself would forget them."""


async def respond(started: StartedResponse, body: ResponseIn) -> HttpResponseBase:
    """Return the answer to a request.

    Raises:
        MochiError: An error ended the response, before its stream or without one.
    """
    task = asyncio.create_task(started.note_end())
    _ends.add(task)
    task.add_done_callback(_ends.discard)
    with renamed_fields(partial(name_of_field, body=body)):
        answer = await _answer(started, body)
    if not (answer.streaming or body.background):  # it has ended, and may be read next
        await asyncio.shield(task)
    if body.store is not False:
        answer[SESSION_HEADER] = started.turn.session_id
    add_warnings(answer, started.warnings)
    return answer


async def _answer(started: StartedResponse, body: ResponseIn) -> HttpResponseBase:
    if body.stream:
        return await stream_or_refusal(started.turn, started.projector(), started.model)
    if body.background:
        answer = json_response(started.resource())
        started.turn.leave()  # it is detached
        return answer
    return json_response(await started.finished())


def failed_stream(model: str, error: MochiError) -> HttpResponse:
    """Return the stream of a response that failed before its first event."""
    name = ResponseId(new_session_id(), new_turn_id())
    events = events_of_failed(*name, model, error)
    return HttpResponse(ResponseProjector(*name).feed(events), headers=HEADERS)


async def respond_with_record(
    maker: ResponseMaker,
    body: ResponseIn,
    items: Sequence[Mapping[str, Any]],
    *,
    client: str | None,
    key: str | None,
) -> HttpResponseBase:
    """Return the answer to a request for a record of these items.

    Args:
        maker: Makes the record.
        body: The request.
        items: Its input.
        client: The client, if turns are limited per client.
        key: Its ``Idempotency-Key``, which has no effect.

    Raises:
        MochiError: The request is invalid or, without a stream, there is no record.
    """
    parsed = read_request(body)
    model, writing = await maker.compaction(
        msgspec.structs.replace(body, input=items), client=client
    )
    record = ResponseRecord(echo=parsed.echo)
    resource = partial(
        resource_of,
        record,
        session_id=new_session_id(),
        turn_id=new_turn_id(),
        model=model,
    )
    if body.stream:
        events = events_of_compaction(resource, writing)
        answer: HttpResponseBase = StreamingHttpResponse(events, headers=HEADERS)
    else:
        answer = json_response(compacted(resource, await writing))
    add_warnings(answer, [*parsed.warnings, *([] if key is None else [_NO_KEY])])
    return answer
