"""A summary service with a model, a queue and a clock of the test's own."""

import asyncio

from chat.approvals.store import CONFIRMATION_RECORDS, ConfirmationStore
from chat.start.windows import ContextWindows
from chat.summaries.failures import SummaryFailures
from chat.summaries.models import SummaryModels
from chat.summaries.prompt import with_summary_due
from chat.summaries.service import SummaryService
from chat.summaries.writer import SummaryWriter
from models_app.catalogue import ModelListing
from models_app.errors import ModelNotFound
from models_app.language_model import ModelInfo
from sessions_app.messages import AssistantMessage, UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import append_messages, with_metadata
from sessions_app.store.file_records import FileRecords

ANSWERED = "2026-01-01T00:00:00.000000+00:00"
QUIET = "2026-01-01T00:00:05.000000+00:00"
LATER = "2026-01-01T00:01:00.000000+00:00"
UNSUPPORTED = ("gpt-oss:20b",)


class Answers:
    """A model that writes what it was told; an exception is raised, ``...`` never ends."""

    def __init__(self):
        self.script = []
        self.questions = []
        self.windows = []
        self.asked = asyncio.Event()
        self.cancelled = 0
        self.title = ""
        self.is_closed = False

    async def aclose(self):
        self.is_closed = True

    async def ask(self, model, question, form):
        self.questions.append((model, question.text))
        self.windows.append(question.context_window)
        self.asked.set()
        step = self.script.pop(0) if self.script else "They talked."
        if step is ...:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled += 1
        if isinstance(step, Exception):
            raise step
        if callable(step):
            step = await step()
        title = {"title": self.title} if "title" in form.model_fields else {}
        return form(summary=step, topics=["talk"], **title)


class Models:
    async def look_up(self, name):
        if name == "missing":
            raise ModelNotFound("model 'missing' not found")

    async def listing(self):
        models = [ModelInfo(name=name, size_mb=1) for name in ("m", "gpt-oss:20b")]
        return ModelListing(models=models)


class Claims:
    """The sessions, with claims of a test's own."""

    def __init__(self, repository, claims):
        self.load, self.claim_of = repository.load, repository.claim_of
        self.claims = lambda: claims


class Queue:
    def __init__(self):
        self.added, self.calls, self.is_there = [], 0, True
        self.held = set()

    def add(self, function, *session_ids, delay_seconds):
        assert function == "chat.tasks.summarize"
        self.calls += 1
        if not self.is_there:
            return False
        self.added += [(session_id, delay_seconds) for session_id in session_ids]
        return True

    def hold(self, function, session_id):
        assert function == "chat.tasks.summarize"
        is_free = session_id not in self.held
        self.held.add(session_id)
        return is_free

    def renew(self, function, session_id):
        assert session_id in self.held

    def release(self, function, session_id):
        self.held.remove(session_id)


class House:
    def __init__(self, data_dir):
        self.sessions = SessionManager(data_dir / "chat_sessions")
        self.repository = self.sessions.repository
        self.answers, self.queue = Answers(), Queue()
        self.clock = [1000.0]
        self.loaded = {}
        self.now = QUIET
        failures = FileRecords(data_dir / ".mochi" / "summaries", durable=False)
        self.failures = SummaryFailures(failures, clock=lambda: self.clock[0])
        records = FileRecords(data_dir / ".mochi" / "asked", names=CONFIRMATION_RECORDS)
        self.confirmation_store = ConfirmationStore(records, timeout_seconds=60)
        self.claims = self.repository
        self.service = self.build()

    async def loaded_window(self, model):
        return self.loaded.get(model)

    def build(self, configured=None, **changes):
        return SummaryService(
            **{
                "repository": self.repository,
                "writer": SummaryWriter(
                    self.claims,
                    self.answers,
                    answers_one_by_one=lambda model: not model.startswith("openai:"),
                    pending=self.confirmation_store.pending,
                    window_of=ContextWindows(models=self).of_summary,
                ),
                "models": SummaryModels(
                    catalogue=Models(), unsupported=UNSUPPORTED, configured=configured
                ),
                "queue": self.queue,
                "failures": self.failures,
                "enabled": True,
                "interval_seconds": 3,
                "now": lambda: self.now,
                **changes,
            }
        )

    def talk(self, model="m", **metadata):
        """Make a session that ends with an answer, whose summary is due."""
        session = self.sessions.create(model)

        def change(found):
            found = append_messages(
                found,
                UserMessage(content="Hello", message_id="u1", timestamp=ANSWERED),
                AssistantMessage(content="Hi", message_id="a1", timestamp=ANSWERED, model=model),
                now=ANSWERED,
            )
            found = with_summary_due(found, now=ANSWERED)
            return with_metadata(found, now=ANSWERED, **metadata)

        return self.repository.update(session.session_id, change).session_id

    def metadata(self, session_id):
        return self.repository.load(session_id).metadata

    async def run(self, session_id, service=None):
        return await (service or self.service).run_due(session_id)
