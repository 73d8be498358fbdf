"""A turn's collaborators: a model that says what a test tells it, and a real repository."""

import asyncio
import itertools
import shutil
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog.contextvars  # noqa: F401 - a turn imports it, which would block the loop

from chat.approvals.service import ConfirmationService
from chat.approvals.store import CONFIRMATION_RECORDS, ConfirmationStore
from chat.registry import TurnRegistry
from chat.remote.continuing import ContinuingRules
from chat.remote.deleted_turns import DeletedTurns
from chat.remote.ephemeral import EphemeralSessions
from chat.remote.recovery import TurnRecovery
from chat.remote.remote_turns import RemoteTurns
from chat.service import SessionSpace
from chat.start.preparation import TurnPreparer
from chat.start.turn_limits import TurnPlaces
from chat.start.windows import ContextWindows
from chat.storage.files.journals import FileTurnJournal
from chat.storage.files.signals import FileSignals
from chat.storage.files.watcher import PathWatcher
from chat.storage.journal import TurnJournal
from chat.turn.job import ToolLimits
from chat.turn.observer import ToolEnd, ToolStart, TurnEnd, TurnStart
from models_app.default_model import DefaultModel
from models_app.errors import ModelError, ModelNotFound
from models_app.language_model import Delta, Finished, ModelInfo, ModelRequest, TextDelta
from models_app.window_sizes import LoadedWindow
from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.service import SessionManager
from sessions_app.session import ToolSettings
from sessions_app.store.file_records import FileRecords
from sessions_app.store.file_repository import FileSessionRepository
from tests.contract.memory_storage import MemoryRecords
from tests.unit.chat.keys import keys_in
from tools_app.errors import ToolNotFound
from tools_app.toolset import ToolListing, Toolset

WATCHER = PathWatcher()


class NoTools:
    """A toolset without tools."""

    async def listing(self, selection=None):
        return ToolListing()

    async def call_tool(self, invocation):
        raise ToolNotFound(invocation.name)


class ToldModel:
    """A language model that answers what it was told, one script a request.

    A script is a list of batches; an exception in it is raised, ``...`` waits to be told to go on.
    """

    def __init__(self) -> None:
        self.scripts: list[list[object]] = []
        self.requests: list[ModelRequest] = []
        self.info = ModelInfo(
            name="m", size_mb=1, capabilities=["completion", "tools"], context_length=40960
        )
        self.seeing_info = msgspec.structs.replace(
            self.info, capabilities=["completion", "tools", "vision"]
        )
        self.closed = 0
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    def say(self, *script: object) -> None:
        self.scripts.append(list(script))

    def say_text(self, *texts: str) -> None:
        done = Finished(done_reason="stop", prompt_eval_count=10, eval_count=len(texts))
        self.say(*[[TextDelta(text)] for text in texts], [done])

    def recall(self, name: str) -> ModelInfo | None:
        return None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta], None]:
        self.requests.append(request)
        try:
            for step in self.scripts.pop(0):
                if step is ...:
                    self.asked.set()
                    await self.go_on.wait()
                elif isinstance(step, Exception):
                    raise step
                else:
                    await asyncio.sleep(0)
                    yield step
        finally:
            self.closed += 1

    async def describe(self, model: str) -> ModelInfo:
        if model == "missing":
            raise ModelNotFound("model 'missing' not found")
        return self.info


class ToldCatalogue:
    """Resolves every name to one model, and says with which window it is loaded."""

    def __init__(self, model: ToldModel) -> None:
        self.model = model
        self.loaded: LoadedWindow | None = None

    async def loaded_window(self, name: str) -> LoadedWindow | None:
        return self.loaded

    def resolve(self, name: str) -> tuple[ToldModel, str]:
        return self.model, name

    async def look_up(self, name: str) -> ModelInfo:
        return await self.model.describe(name)


class SeenTurns:
    """An observer of turns that keeps what it sees."""

    def __init__(self) -> None:
        self.started: list[TurnStart] = []
        self.ended: list[TurnEnd] = []
        self.tools_started: list[ToolStart] = []
        self.tools_ended: list[ToolEnd] = []

    def turn_started(self, turn: TurnStart) -> None:
        self.started.append(turn)

    def turn_ended(self, turn: TurnEnd) -> None:
        self.ended.append(turn)

    def tool_started(self, start: ToolStart) -> None:
        self.tools_started.append(start)

    def tool_ended(self, end: ToolEnd) -> None:
        self.tools_ended.append(end)


THREE_ROUNDS = ToolLimits(rounds=3)


class House:
    """Everything a test of turns needs."""

    repository_type = FileSessionRepository
    rules = ContinuingRules()

    def __init__(
        self,
        data_dir: Path,
        toolset: Toolset,
        *,
        active: int = 10,
        per_client: int = 0,
        seconds: float = 60,
        confirmation_seconds: float = 60,
        sessions_dir: Path | None = None,
        journal: TurnJournal | None = None,
        places: TurnPlaces | None = None,
        tool_limits: ToolLimits = THREE_ROUNDS,
        ephemeral: bool = False,
        on_answer: Callable[[str], None] | None = None,
        attachments: FileAttachmentStore | None = None,
        read_attachment: Callable[[str], bytes] | None = None,
    ):
        self.model = ToldModel()
        self.seen = SeenTurns()
        self.data_dir = data_dir
        self.sessions_dir = sessions_dir or data_dir / "chat_sessions"
        self.journal = journal or FileTurnJournal(
            data_dir / ".mochi" / "turns", self.sessions_dir, watcher=WATCHER
        )
        self._open_stores(ephemeral=ephemeral, confirmation_seconds=confirmation_seconds)
        models = ToldCatalogue(self.model)
        self.preparer = TurnPreparer(
            models=models,
            windows=ContextWindows(models=models),
            toolset=toolset,
            tool_limits=tool_limits,
            read_attachment=read_attachment,
            renew_attachments=None if attachments is None else attachments.renew,
        )
        self.turns = TurnRegistry(
            repository=self.repository,
            journal=self.journal,
            recovery=self.recovery,
            signals=self.signals,
            remote=self.remote,
            forget=self.ephemeral.forget if ephemeral else None,
            preparer=self.preparer,
            places=places or TurnPlaces(active, per_client, seconds),
            confirmation_store=self.confirmation_store,
            observer=self.seen,
            on_answer=on_answer,
        )
        self._answer_for_turns()

    def _open_stores(self, *, ephemeral: bool, confirmation_seconds: float) -> None:
        """Open what turns keep, and what looks after it."""
        how = {"durable": False} if ephemeral else {}
        repository = self.repository = self.repository_type(
            self.sessions_dir, is_over=self.journal.was_closed, **how
        )
        kept = self.data_dir / ".mochi"
        self.keys = keys_in(kept / "keys")
        recovery = self.recovery = TurnRecovery(
            repository=repository, journal=self.journal, rules=self.rules
        )
        self.records = MemoryRecords()
        self.sessions = SessionManager(
            self.sessions_dir,
            repository=repository,
            recover=recovery.recover,
            on_removal=DeletedTurns(self.journal, recovery, self.records).forget,
        )
        self.confirmation_store = ConfirmationStore(
            FileRecords(kept / "confirmations", names=CONFIRMATION_RECORDS),
            timeout_seconds=confirmation_seconds,
        )
        self.signals = FileSignals(kept / "signals", WATCHER)
        self.ephemeral = EphemeralSessions(
            repository=repository,
            journal=self.journal,
            confirmation_store=self.confirmation_store,
            forget_more=lambda _: None,
        )
        self.remote = RemoteTurns(
            repository=repository,
            journal=self.journal,
            recovery=recovery,
            signals=self.signals,
            settle_seconds=0.01,
        )

    def _answer_for_turns(self) -> None:
        """Make the services that stand above the turns."""
        self.default_model = DefaultModel(self.preparer.models, None)
        self.confirmations = ConfirmationService(
            confirmation_store=self.confirmation_store,
            repository=self.repository,
            signals=self.signals,
            notice=self.turns.notice_decision,
            go_on=self.turns.answer_waiting,
        )
        self.space = SessionSpace(
            repository=self.repository,
            turns=self.turns,
            remote=self.remote,
            confirmations=self.confirmations,
            records=self.records,
        )

    def sweep(self, age: float) -> None:
        """Remove ended journals, and what dead processes left, as housekeeping does."""
        self.journal.sweep(age)
        self.repository.sweep()

    async def new_session(
        self, model: str = "m", *, tools: Sequence[str] = (), policy: str = "never_confirm"
    ) -> str:
        settings = ToolSettings(tools=tools, execution_policy=policy) if tools else None
        session = await asyncio.to_thread(self.sessions.create, model=model, tool_settings=settings)
        return session.session_id

    async def messages(self, session_id: str):
        return (await asyncio.to_thread(self.sessions.get, session_id)).messages


@pytest.fixture
def make_house(data_dir):
    def make(toolset: Toolset | None = None, **how: Any) -> House:
        return House(data_dir, toolset or NoTools(), **how)

    return make


@pytest.fixture
async def house(make_house):
    house = make_house()
    yield house
    with suppress(ModelError):
        await house.turns.shutdown(grace_seconds=0)


@pytest.fixture
def after_a_kill(data_dir, tmp_path):
    """Return the house that the next process finds if this one is killed now."""

    numbers = itertools.count()

    async def copy(house, toolset=None):
        image = tmp_path / f"image{next(numbers)}"
        await asyncio.to_thread(shutil.copytree, data_dir, image, symlinks=True)
        return type(house)(image, toolset or NoTools())

    return copy
