"""Serves the ``/sessions`` routes: parses, calls, encodes."""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Header, Query, Status

from chat.activity.states import StateReader
from chat.creation import SessionFactory, require_may_change
from chat.http.page import SessionPageOut, answer_with_page
from chat.service import ChatService, SessionSpace
from mochi_project.app import service
from mochi_project.http.large_json import answer, answer_by_reading
from mochi_project.routing import Router, needs
from models_app.catalogue import ModelCatalogue
from sessions_app.deletion import SessionDeletion
from sessions_app.errors import MochiError, ValidationFailed
from sessions_app.format.to_json import many_sessions, session_detail, session_overview
from sessions_app.http.deletion_schemas import DeletionsOut
from sessions_app.http.error_schemas import ENVELOPE
from sessions_app.http.list_schemas import SessionListOut, SessionListParams, metadata_filters
from sessions_app.http.places import ListPlaces
from sessions_app.http.request_schemas import (
    DeleteIn,
    ForkIn,
    SessionCreateIn,
    SessionUpdateIn,
    SystemPromptIn,
)
from sessions_app.http.schemas import SessionOut, SessionSavedOut, SystemPromptOut
from sessions_app.service import SessionManager
from sessions_app.session import Session

router = Router(scope="read", changes="write", tags=["sessions"])

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="The same key and body get the same session, however often they are sent.",
    ),
]


@router.get(
    "/sessions",
    response={200: SessionListOut, (422, 503): ENVELOPE},
    summary="List sessions",
    description=(
        "Most recently updated first, or as `sort` and `order` say. `cursor` of the next page is "
        "`next_cursor` of this one: what changes meanwhile shifts nothing. `metadata.key=value` "
        "leaves sessions whose metadata have that value (numbers and others as JSON). `state` says "
        "what goes on in each, in any process; `GET /events` tells of changes. Files that "
        "can't be read are listed under `unreadable`; they are left untouched. `complete` is false "
        "while the server still looks for sessions."
    ),
    operation_id="list_sessions",
)
async def list_sessions(
    request: HttpRequest, params: Annotated[SessionListParams, Query()]
) -> HttpResponseBase:
    """List sessions, page by page if wanted."""
    filters = metadata_filters(request.GET)

    def work() -> dict[str, Any]:
        states = service(StateReader).all()
        page = service(SessionManager).list(
            **params.model_dump(exclude={"state"}),
            metadata=filters,
            only=None if params.state is None else lambda one: states.of(one) == params.state,
        )
        return {
            "sessions": many_sessions(page.sessions, also=lambda one: {"state": states.of(one)}),
            "total": page.total,
            "unreadable": [{"file": item.file, "reason": item.reason} for item in page.unreadable],
            "complete": page.complete,
            "next_cursor": page.next_cursor,
        }

    return await answer_by_reading(work, service(ListPlaces))


@router.post(
    "/sessions",
    response={201: SessionSavedOut, (404, 422, 507): ENVELOPE},
    summary="Create a session",
    description=(
        "With only `system_prompt_source_file`, that prompt file's text is loaded. A model that "
        "its provider does not know is 404; when the provider can't be reached, the session is "
        "made all the same. Tools, groups and agents that are not there are kept, too, and told in "
        "`warnings`; an agent that is there must be valid (422 `AGENT_INVALID`). With an "
        "`Idempotency-Key`, the same body gets the same session, as it is by then; another body is "
        "422, and 404 says that the session was deleted."
    ),
    operation_id="create_session",
)
@needs(scope="chat")
async def create_session(
    request: HttpRequest, body: SessionCreateIn, idempotency_key: IdempotencyKey = None
) -> HttpResponseBase:
    """Create a session, or find the one of the key."""
    factory, sessions = service(SessionFactory), service(SessionManager)

    async def keep(session_id: str | None = None) -> Session:
        session = await factory.make(body, session_id)
        return await asyncio.to_thread(sessions.keep_new, session, any_id=session_id is None)

    if idempotency_key is None:
        warnings = await factory.check(body)
        session = await keep()
    else:
        warnings = None

        async def make(session_id: str) -> Session:
            nonlocal warnings
            warnings = await factory.check(body)
            return await keep(session_id)

        asked = body.model_dump(mode="json", exclude_defaults=True)
        session = await service(ChatService).creation.create(idempotency_key, asked, make)
        if warnings is None:  # the session exists already: nothing is checked again
            with suppress(MochiError):
                warnings = await factory.check_names(body)
    overview = {**session_overview(session), "warnings": warnings or ()}
    return await answer(lambda: overview, status=201)


# Registered before the routes of a single session, whose path pattern also matches.
@router.post(
    "/sessions/delete",
    response={200: DeletionsOut, (422,): ENVELOPE},
    summary="Delete several sessions",
    description=(
        "Says of each what became of it: `deleted`, `not_found` (it was not there), `busy` (a turn "
        "runs on it) or `failed`, both with the `error`. Doing it twice is doing it once. With "
        "`force` running turns are cancelled first."
    ),
    operation_id="delete_sessions",
)
async def delete_sessions(request: HttpRequest, body: DeleteIn) -> dict[str, Any]:
    """Remove several sessions."""
    removed = await service(SessionDeletion).delete_many(
        body.session_ids, force=bool(body.force), agents=bool(body.agents)
    )
    return {
        "results": removed,
        "deleted": sum(each.outcome == "deleted" for each in removed),
    }


@router.get(
    "/sessions/{session_id}",
    response={200: SessionPageOut, (404, 409, 422, 500, 503): ENVELOPE},
    by_alias=True,
    summary="Get a session",
    description=(
        "Everything about it, with all its messages, and its `state`. `view=page` adds what a page "
        "shows when it is loaded again: the running turn, the calls that wait for an approval, and "
        "the `position` from which the turn's stream goes on, which `messages` do not overlap."
    ),
    operation_id="get_session",
)
async def get_session(
    request: HttpRequest,
    session_id: str,
    view: Annotated[
        Literal["page"] | None, Query(description="`page`: with its turn, for a page")
    ] = None,
) -> HttpResponseBase:
    """Return a whole session."""
    if view == "page":
        space = service(SessionSpace)
        return await answer_with_page(
            session_id,
            sessions=service(SessionManager),
            turns=space.turns,
            remote=space.remote,
            confirmations=space.confirmations,
        )

    def work() -> dict[str, Any]:
        session = service(SessionManager).get(session_id)
        detail = session_detail(session)
        messages = detail.pop("messages")
        return {**detail, "state": service(StateReader).of(session.metadata), "messages": messages}

    return await answer_by_reading(work)


@router.delete(
    "/sessions/{session_id}",
    response={204: None, (404, 409, 422, 500): ENVELOPE},
    summary="Delete a session",
    description=(
        "Removes its file for good, also one that can't be read. 409 while a turn runs; with "
        "`?force=true` that turn is cancelled first, wherever it runs, also while it waits for an "
        "approval (409 if it has not ended within 30 seconds). With `?agents=true` the sessions of "
        "agents that it called go, too."
    ),
    operation_id="delete_session",
)
async def delete_session(
    request: HttpRequest,
    session_id: str,
    agents: Annotated[bool, Query(description="Whether agents' sessions go with it")] = False,
    force: Annotated[bool, Query(description="Whether a running turn is cancelled first")] = False,
) -> Status[None]:
    """Remove a session."""
    await service(SessionDeletion).delete(session_id, force=force, agents=agents)
    return Status(204, None)


@router.patch(
    "/sessions/{session_id}",
    response={200: SessionSavedOut, (404, 409, 422, 500, 507): ENVELOPE},
    summary="Update a session's settings",
    description=(
        "What is absent stays as it is. `tool_settings` and `agent_settings` are replaced whole. "
        "`context_window` sets the window by hand, null lets it grow by itself again. Works while "
        "a turn runs: its policies hold from that turn's next calls on, the rest from the next "
        "turn on. What is enabled and not there is kept, and told in `warnings`."
    ),
    operation_id="update_session",
)
async def update_session(
    request: HttpRequest, session_id: str, body: SessionUpdateIn
) -> HttpResponseBase:
    """Change settings of a session."""
    given = body.model_fields_set
    if "model" in given or body.context_window is not None or body.options:
        await _check_model(session_id, body)
    warnings = await service(SessionFactory).check_names(body)
    changes: dict[str, Any] = {name: getattr(body, name) for name in given}
    for name in ("tool_settings", "agent_settings"):
        if changes.get(name) is not None:
            changes[name] = changes[name].to_value()
    sessions = service(SessionManager)

    def work() -> dict[str, Any]:
        updated = sessions.update(session_id, check=partial(require_may_change, body), **changes)
        return {**session_overview(updated), "warnings": warnings}

    return await answer(work)


@router.put(
    "/sessions/{session_id}/system-prompt",
    response={200: SystemPromptOut, (404, 409, 422, 500, 507): ENVELOPE},
    summary="Set a session's system prompt",
    description=(
        "Takes `content`, or `source_file` (that prompt file's text is loaded), or both "
        "(`content` is the text, `source_file` its label)."
    ),
    operation_id="set_system_prompt",
)
async def set_system_prompt(
    request: HttpRequest, session_id: str, body: SystemPromptIn
) -> HttpResponseBase:
    """Set or replace the system prompt."""
    content = body.content
    if content is None:
        if body.source_file is None:
            raise ValidationFailed("Send content, or source_file, or both.", field="content")
        content = await service(SessionFactory).prompt_text(body.source_file)
    sessions = service(SessionManager)

    def work() -> dict[str, Any]:
        prompt = sessions.set_system_prompt(session_id, content, source_file=body.source_file)
        return {"content": prompt.content, "source_file": prompt.source_file, "message_index": 0}

    return await answer(work)


@router.delete(
    "/sessions/{session_id}/system-prompt",
    response={204: None, (404, 409, 500, 507): ENVELOPE},
    summary="Remove a session's system prompt",
    description="404 `PROMPT_NOT_FOUND` when it has none.",
    operation_id="remove_system_prompt",
)
async def remove_system_prompt(request: HttpRequest, session_id: str) -> Status[None]:
    """Remove the system prompt."""
    await asyncio.to_thread(service(SessionManager).remove_system_prompt, session_id)
    return Status(204, None)


@router.post(
    "/sessions/{session_id}/fork",
    response={201: SessionOut, (400, 404, 409, 422, 500, 507): ENVELOPE},
    summary="Fork a session",
    description="Copies it up to and including a message, or as a whole; the original stays.",
    operation_id="fork_session",
)
async def fork_session(request: HttpRequest, session_id: str, body: ForkIn) -> HttpResponseBase:
    """Copy a session."""
    sessions = service(SessionManager)
    if body.message_id is not None and body.message_index is not None:
        raise ValidationFailed("Send message_id or message_index, not both.", field="message_index")
    place = body.message_index if body.message_id is None else body.message_id
    return await answer(
        lambda: session_overview(sessions.fork(session_id, message_index=place, title=body.title)),
        status=201,
    )


async def _check_model(session_id: str, body: SessionUpdateIn) -> None:
    """Raise for a missing model, a window that is too large for it, and unknown options."""
    session = await asyncio.to_thread(service(SessionManager).get, session_id)
    named = "model" in body.model_fields_set
    name = body.model if named else session.metadata.model
    service(SessionFactory).check_options(body.options, name)
    model = await service(ModelCatalogue).look_up(name, must_exist=named)
    maximum = model.context_length if model else None
    if maximum is not None and body.context_window is not None and body.context_window > maximum:
        raise ValidationFailed(
            f"context_window is at most {maximum} tokens for this model.",
            field="context_window",
            maximum=maximum,
        )
