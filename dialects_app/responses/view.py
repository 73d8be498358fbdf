"""Answers requests for responses: as a stream, as one object, or immediately in the background."""

import asyncio
from functools import partial

import msgspec
from django.http import HttpResponse
from django.http.response import HttpResponseBase

from dialects_app.responses.body import ResponseIn
from dialects_app.responses.request import name_of_field
from dialects_app.responses.resource import Resource
from dialects_app.responses.started_response import StartedResponse
from dialects_app.shared.additions import SESSION_HEADER
from dialects_app.shared.fields import renamed_fields
from dialects_app.shared.streams import StartedTurn
from dialects_app.shared.warnings import warning_headers

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
    for name, value in warning_headers(started.warnings).items():
        answer[name] = value
    return answer


async def _answer(started: StartedResponse, body: ResponseIn) -> HttpResponseBase:
    if body.stream:
        stream = StartedTurn(started.turn, started.projector())
        return await stream.stream_or_refusal(started.model)
    if body.background:
        answer = _json(started.resource())
        started.turn.leave()  # it is detached
        return answer
    return _json(await _whole(started))


async def _whole(started: StartedResponse) -> Resource:
    try:
        return await started.finished()
    finally:
        started.turn.leave()


def _json(resource: Resource) -> HttpResponse:
    data = msgspec.json.encode(resource, enc_hook=dict)
    return HttpResponse(data, content_type="application/json")
