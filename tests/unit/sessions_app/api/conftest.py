"""The routes over a directory of sessions, with a provider and agents that can fail."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.test import AsyncClient
from pydantic import BaseModel

from agents_app.deletion import DeletionWithAgents
from agents_app.errors import AgentInvalid
from agents_app.missing_names import MissingNames
from agents_app.sessions import AgentChats
from chat.activity.states import StateReader
from chat.approvals.store import ConfirmationStore
from chat.creation import SessionCreation, SessionFactory
from chat.errors import NoActiveTurn
from chat.service import ChatService
from chat.storage.idempotency_keys import IdempotencyKeys
from chat.summaries.models import SummaryModels
from chat.summaries.service import SummaryService
from mochi_project.configuration.loading import MochiSettings
from models_app.catalogue import ModelCatalogue
from models_app.default_model import DefaultModel
from models_app.errors import ModelNotFound, OllamaUnreachable
from models_app.language_model import ModelInfo
from models_app.ollama.language_model import OllamaLanguageModel
from prompts_app.service import SystemPromptService
from sessions_app.deletion import SessionDeletion
from sessions_app.enabled_names import EnabledNames
from sessions_app.http.error_schemas import ErrorResponse
from sessions_app.http.places import ListPlaces
from sessions_app.messages import ToolSpec
from sessions_app.service import SessionManager
from sessions_app.session import Session
from tests.contract.memory_repository import MemoryOwners
from tests.contract.memory_storage import MemoryRecords
from tests.services import install_services, services_of
from tools_app.toolset import InvalidTool, Tool, ToolListing, ToolSelection

URL = "/api/v1/sessions"
JSON = "application/json"
NOW = "2026-11-21T10:00:00.000000+00:00"
UNKNOWN_ID = "ffffffffff"

MakeSession = Callable[..., Session]


class Provider:
    """A provider with one model, that can go away."""

    public_host = "http://localhost:11434"

    def __init__(self) -> None:
        self.reachable = True
        self.silent = False
        self.models = ["qwen3:14b"]

    async def describe(self, name: str) -> ModelInfo:
        if self.silent:
            await asyncio.Event().wait()
        if not self.reachable:
            raise OllamaUnreachable("No connection.")
        if name != "qwen3:14b":
            raise ModelNotFound(f"Model {name!r} not found.", model=name)
        return ModelInfo(name=name, size_mb=1.0, context_length=40960)

    async def list_models(self) -> list[ModelInfo]:
        return [await self.describe(name) for name in self.models]


class Agents:
    """One agent that works, and one that does not."""

    async def names(self) -> list[str]:
        return ["broken", "coder"]

    async def usable(self, name: str) -> None:
        if name == "broken":
            raise AgentInvalid(name, "It has no description.")


class Tools:
    """One tool in one group, and one that can't be offered."""

    async def listing(self, selection: ToolSelection | None = None) -> ToolListing:
        tool = Tool(spec=ToolSpec(name="add_numbers", description="Add.", parameters={}))
        invalid = InvalidTool(name="nameless", file="tools.py", reason="It has no description.")
        groups = {"math_tools": ["add_numbers"]}
        return ToolListing(tools={"add_numbers": tool}, groups=groups, invalid=[invalid])


class Turns:
    """Turns on sessions, which end at once when they are cancelled."""

    def __init__(self, manager: SessionManager) -> None:
        self._repository = manager.repository

    async def cancel(self, session_id: str, turn_id: str | None = None) -> None:
        claim = await asyncio.to_thread(self._repository.claim_of, session_id)
        if claim is None:
            raise NoActiveTurn(session_id)
        await asyncio.to_thread(self._repository.release, session_id, claim.hold)


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def prompts(tmp_path: Path) -> SystemPromptService:
    service = SystemPromptService(tmp_path / "system_prompts")
    service.create("helpful.md", "Be helpful.")
    return service


@pytest.fixture
def deleted() -> list[str]:
    return []


@pytest.fixture
def manager(sessions_dir: Path, deleted: list[str]) -> SessionManager:
    return SessionManager(sessions_dir=sessions_dir, on_delete=deleted.append)


@pytest.fixture
def chats(tmp_path: Path) -> SessionManager:
    return SessionManager(tmp_path / "agent_chats")


@pytest.fixture
def default_model() -> str | None:
    return None


def summaries_of(manager: SessionManager, models: ModelCatalogue) -> SummaryService:
    return SummaryService(
        repository=manager.repository,
        writer=cast("Any", None),
        models=SummaryModels(catalogue=models, unsupported=["gpt-oss:20b"]),
        queue=cast("Any", None),
        failures=cast("Any", None),
        enabled=True,
        interval_seconds=3,
    )


@pytest.fixture
def client(
    manager: SessionManager,
    chats: SessionManager,
    provider: Provider,
    prompts: SystemPromptService,
    default_model: str | None,
) -> Iterator[AsyncClient]:
    models = ModelCatalogue(cast("OllamaLanguageModel", provider))
    summaries = summaries_of(manager, models)
    keys = IdempotencyKeys(MemoryRecords(), owners=MemoryOwners())
    names = MissingNames(cast("Any", Tools()), cast("Any", Agents()))
    services = services_of(
        {
            SessionManager: manager,
            ModelCatalogue: models,
            SystemPromptService: prompts,
            SummaryService: summaries,
            EnabledNames: names,
            AgentChats: chats,
            StateReader: StateReader(
                manager.repository,
                ConfirmationStore(MemoryRecords(), timeout_seconds=1),
            ),
            SessionFactory: SessionFactory(
                sessions=manager,
                models=models,
                default_model=DefaultModel(models, default_model),
                summary_models=summaries.models,
                names=names,
                prompts=prompts,
            ),
            ChatService: SimpleNamespace(creation=SessionCreation(keys, manager.repository)),
            SessionDeletion: DeletionWithAgents(manager, chats, Turns(manager).cancel),
            ListPlaces: ListPlaces(),
            MochiSettings: MochiSettings(),
            DefaultModel: DefaultModel(models, default_model),
        }
    )
    install_services(services)
    yield AsyncClient()
    install_services(None)


@pytest.fixture
def talk(manager: SessionManager, make_session: MakeSession) -> str:
    """Return a session with two questions and answers."""
    session = make_session("one", "answer", "two", "answer")
    manager.repository.create(session)
    return session.session_id


def shaped(answer: Any, status: int, schema: type[BaseModel]) -> dict[str, Any]:
    """Return the answer's body, which has the status and every field that the schema names."""
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == "application/json; charset=utf-8"
    body: dict[str, Any] = answer.json()
    schema.model_validate(body)
    unknown = body.keys() - schema.model_fields.keys()
    assert not unknown, unknown
    return body


def refused(answer: Any, status: int, code: str) -> dict[str, Any]:
    """Return the details of an error answer."""
    error = shaped(answer, status, ErrorResponse)["error"]
    assert error["code"] == code
    assert error["message"]
    assert isinstance(error["details"]["retryable"], bool)
    details: dict[str, Any] = error["details"]
    return details
