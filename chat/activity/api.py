"""Serves the stream of changes: ``GET /events``."""

import re
from typing import Annotated

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Header, Query

from chat.activity.feed import ActivityFeed
from chat.activity.openapi import CHANGES
from chat.http.event_stream import EventStream, EventStreamBody
from chat.storage.change_log import POSITION_PATTERN
from mochi_project.app import service
from mochi_project.routing import Router
from sessions_app.errors import ValidationFailed
from sessions_app.http.error_schemas import ENVELOPE

router = Router(scope="read", tags=["sessions"])

_POSITION = re.compile(POSITION_PATTERN, re.ASCII)


@router.get(
    "/events",
    operation_id="follow_changes",
    summary="Follow what changes",
    response={200: None, (422, 503, 507): ENVELOPE},
    openapi_extra=CHANGES,
)
async def follow_changes(
    request: HttpRequest,
    after: Annotated[
        str | None, Query(description="The id of the last event that was received")
    ] = None,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="The same, as a header")
    ] = None,
) -> StreamingHttpResponse:
    """Send what becomes of sessions and their turns, in all processes, from now on.

    `reset` says that the list has to be loaded: at first, and when what came after the given id is
    not known any more. Every other event has the session as the list would have it.
    """
    by_header, by_query = _position(last_event_id), _position(after)
    listener = await service(ActivityFeed).listen(by_header if after is None else by_query)
    return EventStream(EventStreamBody(listener, listener.close))


def _position(event_id: str | None) -> str:
    """Return the id of an event of this stream; empty for none, as browsers send it."""
    if event_id is not None and not _POSITION.fullmatch(event_id):
        raise ValidationFailed(
            "An id looks like 5f0c21ab9d3e77f0-78; send back one that was received.", field="after"
        )
    return event_id or ""
