"""What sessions cost on disk: listing many, saving long ones. In this process, without a server."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import msgspec
import shared_index
from measures import Load

from chat.activity.states import StateReader
from chat.approvals.store import CONFIRMATION_RECORDS, ConfirmationStore
from chat.storage.files.journals import FileTurnJournal
from sessions_app.list_query import State
from sessions_app.messages import AssistantMessage, Message, ToolCall, UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import Session
from sessions_app.store.file_records import FileRecords
from sessions_app.store.file_repository import FileSessionRepository

STAMP = "2026-11-21T01:10:16.003653+00:00"
WORDS_OF_A_MESSAGE = "Some words follow. " * 22
SETTLED_SECONDS = 2.5
"""A file changed a moment ago is read again: its next change might leave the same time."""


def message(index: int) -> Message:
    """Return one message of a conversation, about 560 bytes in its file."""
    text, identity = f"Message {index}. {WORDS_OF_A_MESSAGE}", f"{index:010x}"
    if index % 2 == 0:
        return UserMessage(content=text, message_id=identity, timestamp=STAMP)
    return AssistantMessage(
        content=text,
        message_id=identity,
        timestamp=STAMP,
        model="bench:256x0",
        eval_count=90,
        prompt_eval_count=400,
    )


def plant(manager: SessionManager, model: str, messages: int) -> str:
    """Keep a new session of so many messages; return its id."""
    session_id = manager.create(model).session_id
    said = tuple(message(index) for index in range(messages))
    manager.repository.update(session_id, replaced_by(said))
    return session_id


def listing(sessions: int) -> dict[str, float]:
    """Seconds to list sessions: as they are, after one changed, and the first time.

    ``json`` is the plain way beside it: every file parsed with ``json``.
    """
    with filled_folder(sessions) as folder:
        time.sleep(SETTLED_SECONDS)
        began = time.perf_counter()
        repository = SessionManager(folder).repository
        found = repository.list().sessions
        first = time.perf_counter() - began
        assert len(found) == sessions

        def parse_all() -> None:
            for path in folder.iterdir():
                if path.suffix == ".json":
                    json.loads(path.read_bytes())

        times = [(timed(repository.list), timed(parse_all)) for _ in range(5)]
        warm, parsed = (median(column) for column in zip(*times, strict=True))
        changed = []
        for number in range(5):
            repository.update(found[number].session_id, replaced_by((message(0), message(1))))
            changed.append(timed(repository.list))
    return {"first": first, "warm": warm, "changed": median(changed), "json": parsed}


def listing_with_states(sessions: int, running: int, asking: int) -> float:
    """Seconds to list sessions with what each is doing: turns run in some, others ask a person.

    The turns are this process's, as they are without ``--workers``.
    """
    with filled_folder(sessions) as folder, TemporaryDirectory(prefix="mochi-bench-") as state:
        journal = FileTurnJournal(Path(state) / "turns")
        repository = FileSessionRepository(folder, is_over=journal.was_closed)
        records = FileRecords(Path(state) / "asked", names=CONFIRMATION_RECORDS)
        questions = ConfirmationStore(records, timeout_seconds=3600)
        states = StateReader(repository, questions)
        writers, owner = [], repository.owners.mine()
        for number, metadata in enumerate(repository.list().sessions[: running + asking]):
            turn_id, session_id = f"{number:020x}", metadata.session_id
            if number < running:
                writers.append(journal.open(session_id, turn_id, owner=owner))
                repository.claim(session_id, turn_id, owner=owner, change=lambda one: (one, None))
                continue
            questions.ask(
                session_id=session_id,
                message_id=f"{7:010x}",  # its last
                call=ToolCall(id="call_1", name="delete_file", arguments={"path": "notes.txt"}),
                call_index=0,
                turn_id=turn_id,
            )
        time.sleep(SETTLED_SECONDS)

        def with_states() -> Counter[State]:
            now = states.all()
            return Counter(map(now.of, repository.list().sessions))

        expected = {"running": running, "awaiting_approval": asking}
        assert with_states() == {"idle": sessions - running - asking} | expected
        seconds = median(timed(with_states) for _ in range(5))
        for writer in writers:
            writer.close()
        return seconds


def listing_of_objects(sessions: int) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds to list sessions from their index in Redis, and beside it from their files."""
    with filled_folder(sessions) as folder:
        time.sleep(SETTLED_SECONDS)
        repository = SessionManager(folder).repository
        found = repository.list().sessions
        files = {"warm": median(timed(repository.list) for _ in range(5))}
        some = [folder / f"{metadata.session_id}.json" for metadata in found[: shared_index.REMADE]]
        return shared_index.lists(found, some), files


def saving(messages: int, load: Load) -> dict[str, float]:
    """Seconds to add a message to a session of so many.

    ``json`` is the plain way beside it: read, add, write beside it, rename; nothing is synced.
    """
    with TemporaryDirectory(prefix="mochi-bench-") as folder:
        manager = SessionManager(folder)
        session_id = plant(manager, "bench:256x0", messages)
        said = manager.repository.load(session_id).messages
        path = Path(folder) / f"{session_id}.json"

        def add_one() -> None:
            manager.repository.update(session_id, replaced_by((*said, message(messages))))

        def add_one_plainly() -> None:
            session = json.loads(path.read_bytes())
            session["messages"] = [*session["messages"][:messages], session["messages"][0]]
            beside = path.with_suffix(".tmp")
            beside.write_text(json.dumps(session, indent=2))
            beside.replace(path)

        times = [(timed(add_one), timed(add_one_plainly)) for _ in range(load.saves)]
        ours, plain = (median(column) for column in zip(*times, strict=True))
        return {"saving": ours, "json": plain}


@contextmanager
def filled_folder(sessions: int) -> Iterator[Path]:
    """Give a folder of session files of eight messages; the first is ours, the others like it.

    Each but the first has its id in the text of a message.
    """
    with TemporaryDirectory(prefix="mochi-bench-") as name:
        folder = Path(name)
        model_id = plant(SessionManager(folder), "bench:256x0", 8)
        text = (folder / f"{model_id}.json").read_text()
        for number in range(sessions - 1):
            session_id = f"{number:010x}"
            other = text.replace(model_id, session_id).replace("Message 3.", session_id)
            (folder / f"{session_id}.json").write_text(other)
        yield folder


def replaced_by(messages: tuple[Message, ...]) -> Callable[[Session], Session]:
    """Return a change that gives a session other messages."""

    def change(session: Session) -> Session:
        return msgspec.structs.replace(session, messages=messages)

    return change


def timed(action: Callable[[], object]) -> float:
    """Return how many seconds the action takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began
