"""Whoever a request acts for, all that it starts acts for him; strangers get no data."""

import asyncio
import re
from collections.abc import Iterator
from contextvars import Context
from pathlib import Path
from typing import Any

import httpx
import pytest

from chat.errors import ShuttingDown
from chat.service import ChatRequest, ChatService
from chat.start.turn_request import TurnRequest
from chat.work_threads import WorkThreads
from mochi_project.api import api
from mochi_project.app import ServicePool, install_pool
from mochi_project.asgi_types import Receive, Scope, Send
from mochi_project.configuration.loading import load_settings
from mochi_project.fast_django.handler import AsyncHandler
from mochi_project.principal import IN_SCOPE, PRINCIPAL, SCOPES, Principal, acting_for, principal
from models_app.model_calls import ModelCallLog
from scripted_app.server import ScriptedModelServer
from sessions_app.deadline import Deadline
from sessions_app.service import SessionManager

pytestmark = pytest.mark.allow_blocking
OPEN = {"/api/v1/health", "/api/v1/health/ready"}
PAGES = ("/api/v1/openapi.json", "/api/v1/docs")


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[ServicePool]:
    (tmp_path / ".mochi").mkdir()
    made = ServicePool(load_settings(data_dir=tmp_path))
    install_pool(made)
    yield made
    install_pool(None)


class Behind:
    """The application behind the guard, which says for whom a request is."""

    def __init__(self, owner: str | None) -> None:
        self._handler = AsyncHandler()
        self._principal = None if owner is None else Principal(owner, SCOPES)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        await asyncio.create_task(self._serve(scope, receive, send), context=Context())

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._handler({**scope, IN_SCOPE: self._principal}, receive, send)


def client_of(owner: str | None) -> httpx.AsyncClient:
    transport: Any = httpx.ASGITransport(Behind(owner), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


async def test_a_request_acts_for_whom_the_guard_names_and_is_over_then(pool: ServicePool) -> None:
    with acting_for("anna"):
        session_id = pool.of("anna").get(SessionManager).create(model="m").session_id

    path = f"/api/v1/sessions/{session_id}"
    assert (await client_of("anna").get(path)).status_code == 200
    assert (await client_of("bob").get(path)).status_code == 404
    assert pool.release("anna")
    assert pool.release("bob")


async def test_a_request_for_nobody_gets_nothing_but_health_and_documents(
    pool: ServicePool,
) -> None:
    client, answers = client_of(None), dict[tuple[str, str], int]()
    for path, operations in api.get_openapi_schema()["paths"].items():
        url = re.sub(r"{\w+}", "0123456789", path)
        for method in operations:
            answer = await client.request(method.upper(), url, json={})
            answers[method, path] = answer.status_code

    served = {path for (_, path), status in answers.items() if status < 400}
    assert served == OPEN
    assert list(answers.values()).count(500) > 50  # the others are refused before
    assert [(await client.get(page)).status_code for page in PAGES] == [200, 200]
    assert pool.loaded() == {}


async def test_threads_of_turns_act_for_whom_their_work_is() -> None:
    threads = WorkThreads(count=1)
    owners = []
    for owner in ("anna", "bob"):
        with acting_for(owner):
            owners.append(await threads.run(lambda: principal().owner))
    assert owners == ["anna", "bob"]


async def test_a_turn_acts_for_its_owner_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []

    def note(_log: ModelCallLog, _call: object) -> None:
        acting = PRINCIPAL.get(None)
        seen.append(None if acting is None else acting.owner)

    monkeypatch.setattr(ModelCallLog, "model_called", note)
    scripted = ScriptedModelServer(words_per_second=0)
    await scripted.start()
    pool = ServicePool(load_settings(data_dir=tmp_path, ollama_host=scripted.url))
    asked = ChatRequest(turn=TurnRequest(message="Hello!", detached=True), model="qwen3:14b")
    try:
        turns = []
        for owner in ("anna", "bob"):
            with acting_for(owner):
                turns.append(await pool.of(owner).get(ChatService).open(asked))
        for turn in turns:
            await turn.finished()
    finally:
        await pool.aclose()
        await scripted.stop()

    assert set(seen) == {"anna", "bob"}
    for owner, turn in zip(("anna", "bob"), turns, strict=True):
        sessions = tmp_path / "users" / owner / "chat_sessions"
        assert [file.stem for file in sessions.glob("*.json")] == [turn.session_id]


async def test_services_with_a_running_turn_stay(tmp_path: Path) -> None:
    scripted = ScriptedModelServer(words_per_second=0)
    await scripted.start()
    pool = ServicePool(load_settings(data_dir=tmp_path, ollama_host=scripted.url))
    text = '<|instruction_start|>{"stall_seconds": 600}<|instruction_end|>'
    asked = ChatRequest(turn=TurnRequest(message=text, detached=True), model="qwen3:14b")
    try:
        with acting_for("anna"):
            chat = pool.of("anna").get(ChatService)
            turn = await chat.open(asked)
        assert not pool.release("anna")
        with acting_for("anna"):
            await chat.registries[0].cancel(turn.session_id)
        await turn.finished()
        turn.leave()
        async with asyncio.timeout(30):
            while not pool.release("anna"):
                await asyncio.sleep(0.01)
    finally:
        await pool.aclose()
        await scripted.stop()


async def test_an_owner_who_comes_while_the_process_stops_begins_no_turn(pool: ServicePool) -> None:
    pool.shared.get(Deadline).set(0)
    asked = ChatRequest(turn=TurnRequest(message="Hello!"), model="qwen3:14b")
    with acting_for("anna"), pytest.raises(ShuttingDown):
        await pool.of("anna").get(ChatService).open(asked)
