"""Serves the AG-UI routes: start a run, read a thread, stop a run."""

import re
from typing import TYPE_CHECKING

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Schema
from pydantic import ConfigDict

from dialects_app.ag_ui.description import RUN, THREAD
from dialects_app.shared.assembly import assembled
from dialects_app.shared.fields import renamed_fields
from mochi_project.http.clients import client_of
from mochi_project.routing import Router, needs
from sessions_app.http.error_schemas import ENVELOPE

if TYPE_CHECKING:
    from dialects_app.ag_ui.runs import Runs

router = Router(scope="read", changes="chat", tags=["AG-UI"])

_INDEX = re.compile(r"\[(\d+)\]")
_FIELD = re.compile(r"^\w+")
_NAMES = {
    "model": "forwardedProps.model",
    "message": "messages",
    "attachments": "messages",
    "think": "forwardedProps.think",
    "selected_tools": "forwardedProps.selectedTools",
    "client_tools": "tools",
}
"""The names that fields of a turn's request have in this protocol."""


class AgUiStoppedOut(Schema):
    """Confirms that a run was stopped, if one was running."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"stopped": True}]})

    stopped: bool


@router.post(
    "/agui",
    operation_id="run_agui",
    summary="Run an agent over AG-UI",
    response={200: None, (400, 402, 404, 408, 409, 413, 422, 500, 502, 503, 507): ENVELOPE},
    openapi_extra=RUN,
)
@needs(limit="max_history_bytes")
async def run(request: HttpRequest) -> HttpResponseBase:
    """Run a thread's new messages and stream AG-UI 1.0 events, for `HttpAgent` and CopilotKit.

    A thread is a session: `threadId` is its id, or a name chosen by the client, under which it is
    created. `forwardedProps.model` sets the model of a new thread. The session is authoritative:
    the history in the request is not read. The run continues if the client disconnects, unless
    `forwardedProps.detached` is false; `POST /agui/{thread_id}/stop` stops it.
    """
    from dialects_app.ag_ui.body import RunIn  # noqa: PLC0415 - not for the start
    from dialects_app.shared.body import read_body  # noqa: PLC0415

    with renamed_fields(_rename):
        body = await read_body(request, RunIn)
        return await _runs().start(body, client=client_of(request))


@router.get(
    "/agui/{thread_id}",
    operation_id="follow_agui_thread",
    summary="A thread of AG-UI as it is",
    response={200: None, (404, 500, 503): ENVELOPE},
    openapi_extra=THREAD,
)
async def follow(request: HttpRequest, thread_id: str) -> HttpResponseBase:
    """Stream the messages of a thread, then its running turn from the beginning to its end.

    Works on any worker, and after a crash. Without a running turn the stream ends after the
    messages; its `RUN_FINISHED` has the pending interrupts of the thread.
    """
    return await _runs().follow(thread_id)


@router.post(
    "/agui/{thread_id}/stop",
    operation_id="stop_agui_thread",
    summary="Stop what runs in a thread of AG-UI",
    response={200: AgUiStoppedOut, (404, 500, 503): ENVELOPE},
)
async def stop(request: HttpRequest, thread_id: str) -> AgUiStoppedOut:
    """Stop the run of a thread, from any connection and worker; its stream ends as `cancelled`.

    Closing the connection stops only runs that are not detached. `stopped` is false if nothing was
    running.
    """
    return AgUiStoppedOut(stopped=await _runs().stop(thread_id))


def _rename(field: str) -> str:
    """Return the name of a field in this protocol: ``messages.2.content``."""
    return _INDEX.sub(r".\1", _FIELD.sub(lambda name: _NAMES.get(name[0], name[0]), field))


def _runs() -> "Runs":
    from dialects_app.ag_ui.runs import Runs  # noqa: PLC0415 - not for the start

    return assembled(Runs)
