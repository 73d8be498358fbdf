"""What all routes of a session have in common."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.test import AsyncClient
from pydantic import BaseModel

from mochi_project.api import api
from sessions_app.http import request_schemas, schemas
from sessions_app.http.error_schemas import ErrorResponse
from sessions_app.service import SessionManager
from tests.claims import claim_session
from tests.unit.sessions_app.api.conftest import (
    JSON,
    UNKNOWN_ID,
    URL,
    refused,
)

REQUESTS: list[tuple[str, str, dict[str, Any] | None]] = [
    ("get", "", None),
    ("get", "/messages", None),
    ("get", "/export", None),
    ("patch", "", {"options": None}),
    ("patch", "", {"model": "qwen3:14b"}),
    ("put", "/messages/0", {"content": "x"}),
    ("patch", "/messages/0", {"hidden": True}),
    ("delete", "/messages/0", None),
    ("put", "/messages/1/variant", {"message_id": "x"}),
    ("put", "/system-prompt", {"content": "x"}),
    ("delete", "/system-prompt", None),
    ("post", "/fork", {}),
    ("delete", "", None),
]


async def send(client: AsyncClient, session_id: str, request: tuple[str, str, Any]) -> Any:
    method, path, body = request
    url = f"{URL}/{quote(session_id, safe='')}{path}"
    if body is None:
        return await getattr(client, method)(url)
    return await getattr(client, method)(url, body, content_type=JSON)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: f"{request[0]} {request[1]}")
@pytest.mark.parametrize("session_id", [UNKNOWN_ID, "A1B2C3D4E5", "..", "a1b2c3d4e5\n", "\0", "x"])
async def test_an_unknown_or_malformed_id_is_not_found(
    client: AsyncClient, talk: str, request_: tuple[str, str, Any], session_id: str
) -> None:
    refused(await send(client, session_id, request_), 404, "SESSION_NOT_FOUND")


@pytest.mark.parametrize(
    "request_", REQUESTS[:-1], ids=lambda request: f"{request[0]} {request[1]}"
)
async def test_a_corrupt_file_is_a_typed_error_and_stays(
    client: AsyncClient, sessions_dir: Path, request_: tuple[str, str, Any]
) -> None:
    path = sessions_dir / "a1b2c3d4e5.json"
    await asyncio.to_thread(path.parent.mkdir)
    await asyncio.to_thread(path.write_bytes, b"\0" * 100)
    refused(await send(client, path.stem, request_), 500, "SESSION_CORRUPT")
    assert await asyncio.to_thread(path.read_bytes) == b"\0" * 100


@pytest.mark.parametrize("request_", REQUESTS[5:11] + REQUESTS[12:])
async def test_a_running_turn_makes_the_session_busy(
    client: AsyncClient, manager: SessionManager, talk: str, request_: tuple[str, str, Any]
) -> None:
    owner = await asyncio.to_thread(manager.repository.owners.mine)
    await asyncio.to_thread(claim_session, manager.repository, talk, "t1", owner=owner)
    answer = await send(client, talk, request_)
    details = refused(answer, 409, "SESSION_BUSY")
    assert details["retryable"] is True
    assert details["turn_id"] == "t1"
    assert answer["Retry-After"]


def test_every_route_is_documented() -> None:
    paths = {
        path: methods
        for path, methods in api.get_openapi_schema()["paths"].items()
        if path.startswith(URL)
    }
    ours = {
        operation["operationId"]: operation
        for methods in paths.values()
        for operation in methods.values()
        if "sessions" in operation["tags"]
    }
    assert set(ours) == {
        "list_sessions",
        "create_session",
        "get_session",
        "delete_session",
        "delete_sessions",
        "update_session",
        "list_messages",
        "edit_message",
        "delete_message",
        "hide_message",
        "choose_variant",
        "set_system_prompt",
        "remove_system_prompt",
        "fork_session",
        "export_session",
    }
    for operation in ours.values():
        assert operation["summary"]
        assert operation["description"]


def test_the_examples_have_the_shapes_that_they_show() -> None:
    shown = 0
    modules = (request_schemas, schemas)
    for schema in (ErrorResponse, *(each for module in modules for each in vars(module).values())):
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            extra = schema.model_config.get("json_schema_extra")
            if isinstance(extra, dict) and "example" in extra:
                schema.model_validate(extra["example"])
                shown += 1
    assert shown >= 12
