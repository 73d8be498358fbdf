"""What an archive holds is taken in once, whole, and over nothing that is there."""

import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dialects_app.shared.client_sessions import find_session
from mochi_project.principal import SCOPES, Principal, acting_for
from sessions_app.errors import StorageFull, ValidationFailed
from sessions_app.format.codec import encode
from sessions_app.ids_and_clock import utc_now
from sessions_app.inbox import EMPTY_INBOX, Inbox, InboxMessage
from sessions_app.labels import with_labels
from sessions_app.policy_scope import PolicyScope
from sessions_app.retention import due_in
from sessions_app.service import SessionManager
from sessions_app.session import Session, ToolSettings, append_messages, make_session, with_inbox
from sessions_app.store.repository import Listing
from tests.unit.sessions_app.attachments.images import png
from tests.unit.transfer_app.stores import (
    MemoryStore,
    archive_of,
    manager_in,
    question,
    reference,
    session_of,
)
from transfer_app.archive_import import ImportedArchive, SessionImporter
from transfer_app.bounded_zip import Limits
from transfer_app.reading import SessionArchive

CAT, DOG = png(), png(3, 3)
MIB = 1 << 20


@pytest.fixture
def there(tmp_path: Path) -> SessionManager:
    return manager_in(tmp_path / "there")


@pytest.fixture
def here(tmp_path: Path) -> SessionManager:
    return manager_in(tmp_path / "here")


@pytest.fixture
def session(there: SessionManager) -> Session:
    return session_of(there, question(reference(CAT), reference(DOG, "dog.png")))


@pytest.fixture
def archive(session: Session) -> SessionArchive:
    store = MemoryStore()
    store.keep(CAT)
    store.keep(DOG)
    return read(archive_of(session, store))


def read(data: bytes) -> SessionArchive:
    return SessionArchive(io.BytesIO(data), Limits(attachment_bytes=MIB))


def taken(
    archive: SessionArchive, manager: SessionManager, store: MemoryStore
) -> tuple[list[ImportedArchive], int]:
    work = SessionImporter(manager, store, archive, max_attachment_bytes=MIB)
    return list(work.run()), work.attachments_added


def listed(manager: SessionManager) -> Listing:
    return manager.repository.list(anew=True)


def test_a_session_comes_with_its_attachments(
    session: Session, archive: SessionArchive, here: SessionManager
) -> None:
    store = MemoryStore()
    ((result,), added) = taken(archive, here, store)
    assert result == ImportedArchive(
        session_id=session.session_id, outcome="imported", messages=1, attachments=2
    )
    assert added == 2
    assert here.get(session.session_id) == session
    assert sorted(store.files.values()) == sorted([CAT, DOG])
    assert set(store.renewed) == set(store.files)


def test_the_second_time_nothing_changes(
    session: Session, archive: SessionArchive, here: SessionManager
) -> None:
    store = MemoryStore()
    taken(archive, here, store)
    ((result,), added) = taken(archive, here, store)
    assert (result.outcome, added) == ("same", 0)
    assert encode(here.get(session.session_id)) == encode(session)
    assert len(listed(here).sessions) == 1


def test_an_imported_session_is_known_where_it_came_from_and_keeps_its_first_origin(
    session: Session, archive: SessionArchive, there: SessionManager, here: SessionManager
) -> None:
    here.expires = True
    taken(archive, here, MemoryStore())
    assert here.get(session.session_id).metadata.imported_from == {
        "source": "mochi",
        "id": session.session_id,
    }
    back = read(archive_of(here.get(session.session_id), MemoryStore()))
    ((result,), _) = taken(back, there, MemoryStore())
    assert result.outcome == "same"
    assert there.get(session.session_id) == session

    claude = {"source": "claude", "id": "1"}
    elsewhere = session_of(there, question())
    there.change(elsewhere.session_id, lambda old: with_labels(old, imported_from=claude))
    archive = read(archive_of(there.get(elsewhere.session_id), MemoryStore()))
    taken(archive, here, MemoryStore())
    assert here.get(elsewhere.session_id) == there.get(elsewhere.session_id)


def test_what_another_server_exported_never_goes_for_its_age(
    session: Session, archive: SessionArchive, here: SessionManager
) -> None:
    here.expires = True
    taken(archive, here, MemoryStore())
    kept = here.get(session.session_id).metadata
    kept = msgspec.structs.replace(kept, updated_at="2001-01-01T00:00:00.000000+00:00")
    newer = here.create("m").metadata
    assert due_in([kept, newer], days=30, now=datetime.now(UTC)).expired == []


@pytest.mark.parametrize(
    "settings",
    [
        ToolSettings(tools=("shell",), execution_policy="never_confirm"),
        ToolSettings(tool_group="files", execution_policy="confirm_destructive"),
        ToolSettings(tools=("shell",), tool_policies={"shell": "never_confirm"}),
        ToolSettings(tool_policies={"coder.run_cli_command": "never_confirm"}),
        ToolSettings(
            tool_scopes={
                "shell": (PolicyScope(policy="never_confirm", arguments={"command": "*"}),)
            }
        ),
    ],
)
def test_who_wrote_a_session_does_not_decide_what_runs_here_without_a_question(
    settings: ToolSettings, there: SessionManager, here: SessionManager
) -> None:
    session = session_of(there, question())
    written = there.update(session.session_id, tool_settings=settings)
    archive = read(archive_of(written, MemoryStore()))
    outcomes = [taken(archive, here, MemoryStore())[0][0].outcome for _ in range(2)]
    assert outcomes == ["imported", "same"]
    assert here.get(session.session_id).metadata.tool_settings == ToolSettings(
        tools=settings.tools, tool_group=settings.tool_group
    )
    ((known,), _) = taken(archive, there, MemoryStore())
    assert known.outcome == "same"
    assert there.get(session.session_id).metadata.tool_settings == settings


@pytest.mark.parametrize(("models", "imported"), [(("m", "big"), "big"), (("m",), None)])
def test_a_key_brings_no_model_of_summaries_that_it_is_not_for(
    models: tuple[str, ...], imported: str | None, there: SessionManager, here: SessionManager
) -> None:
    session = session_of(there, question())
    written = there.update(session.session_id, summary_model="big")
    archive = read(archive_of(written, MemoryStore()))
    with acting_for(Principal("default", SCOPES, key_id="k00000000", models=models)):
        outcomes = [taken(archive, here, MemoryStore())[0][0].outcome for _ in range(2)]
    assert outcomes == ["imported", "same"]
    assert here.get(session.session_id).metadata.summary_model == imported


def test_messages_that_wait_are_neither_exported_nor_taken_in(
    there: SessionManager, here: SessionManager
) -> None:
    session = session_of(there, question())
    inbox = Inbox(messages=(InboxMessage(message_id="1", content="secret", queued_at=utc_now()),))
    waiting = there.change(session.session_id, lambda one: with_inbox(one, inbox))
    archive = read(archive_of(waiting, MemoryStore()))
    assert archive.session(session.session_id).inbox == EMPTY_INBOX
    importer = SessionImporter(here, MemoryStore(), None, max_attachment_bytes=MIB)
    assert importer.take(waiting).outcome == "imported"
    assert here.get(session.session_id).inbox == EMPTY_INBOX
    ((known,), _) = taken(archive, there, MemoryStore())
    assert known.outcome == "same"


def test_an_imported_session_takes_no_thread_of_a_front_end(
    there: SessionManager, here: SessionManager
) -> None:
    place = find_session(there, "main", field="id")
    now = utc_now()
    made = make_session(place.session_id, "m", now=now, client_id=place.client_id)
    there.repository.create(append_messages(made, question(), now=now))
    archive = read(archive_of(there.get(place.session_id), MemoryStore()))
    outcomes = [taken(archive, here, MemoryStore())[0][0].outcome for _ in range(2)]
    assert outcomes == ["imported", "same"]
    assert find_session(here, "main", field="id").session is None
    ((known,), _) = taken(archive, there, MemoryStore())
    assert known.outcome == "same"
    assert find_session(there, "main", field="id").session is not None


def test_a_session_that_went_on_stays_as_it_is(
    session: Session, archive: SessionArchive, here: SessionManager
) -> None:
    store = MemoryStore()
    taken(archive, here, store)
    here.update(session.session_id, model="other")
    store.files.clear()
    ((result,), added) = taken(archive, here, store)
    assert (result.outcome, added) == ("different", 0)
    assert here.get(session.session_id).metadata.model == "other"


def test_a_file_that_can_not_be_read_stays_too(
    session: Session, archive: SessionArchive, here: SessionManager, tmp_path: Path
) -> None:
    broken = tmp_path / "here" / "chat_sessions" / f"{session.session_id}.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{")
    ((result,), _) = taken(archive, here, MemoryStore())
    assert result.outcome == "different"
    assert broken.read_text() == "{"


def test_attachments_that_got_lost_come_back(archive: SessionArchive, here: SessionManager) -> None:
    store = MemoryStore()
    taken(archive, here, store)
    store.files.clear()
    ((result,), added) = taken(archive, here, store)
    assert (result.outcome, added) == ("same", 2)


def test_attachments_that_nobody_has_are_named(session: Session, here: SessionManager) -> None:
    store = MemoryStore()
    store.keep(CAT)
    archive = read(archive_of(session, store))
    ((result,), _) = taken(archive, here, MemoryStore())
    assert [each.name for each in result.missing] == ["dog.png"]
    assert result.outcome == "imported"
    already = MemoryStore()
    already.keep(DOG)
    ((result,), added) = taken(archive, here, already)
    assert (result.missing, added) == ((), 1)


@pytest.mark.parametrize("lie", [{"media_type": "image/jpeg"}, {"size": 3}, {"width": 77}])
def test_a_reference_that_lies_is_refused(
    lie: dict[str, object], there: SessionManager, here: SessionManager
) -> None:
    facts = reference(CAT)
    claims = msgspec.structs.replace(facts, **lie)
    store = MemoryStore()
    store.keep(CAT)
    archive = read(archive_of(session_of(there, question(claims)), store))
    with pytest.raises(ValidationFailed, match="describes the file"):
        taken(archive, here, MemoryStore())
    assert not listed(here).sessions


def test_a_full_disk_leaves_no_session_without_its_attachments(
    archive: SessionArchive, here: SessionManager
) -> None:
    store = _FullStore()
    with pytest.raises(StorageFull):
        taken(archive, here, store)
    assert store.abandoned == 1
    assert not listed(here).sessions


class _FullStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.abandoned = 0

    def begin(self, *, max_bytes: int) -> Any:
        return self

    def write(self, data: bytes) -> None:
        raise StorageFull("The disk is full.")

    def abandon(self) -> None:
        self.abandoned += 1
