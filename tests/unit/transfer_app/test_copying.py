"""What is kept is copied between a data directory and an object store, and nothing overwritten."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cluster_app.objects.repository import ObjectSessionRepository
from cluster_app.objects.store import ObjectStore
from mochi_project.configuration.loading import MochiSettings
from sessions_app.errors import SessionBusy
from sessions_app.messages import UserMessage
from sessions_app.session import Session, append_messages, make_session
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.repository import SessionRepository
from tests.claims import claim_session
from tests.contract.memory_index import MemorySessionIndex
from tests.contract.memory_repository import MemoryOwners
from transfer_app.backup import busy_sessions
from transfer_app.copying import (
    DataLocation,
    DirectoryLocation,
    ObjectLocation,
    copy_all,
    places_of,
)

NOW = "2026-11-21T10:00:00.000000+00:00"
SESSION_ID, AGENTS = "a1b2c3d4e5", "0123456789"
OTHERS = {
    f"responses/{SESSION_ID}/0199f3a2b4c51f2e3d4c.request": b'{"background":true}',
    "system_prompts/brief.md": b"Be brief.",
    f"attachments/ab/{'ab' * 32}": b"a picture",
    "profiles/work.json": b'{"provider":"ollama","model":"m"}',
}
NOT_COPIED = (
    "chat_sessions/notes.txt",
    "chat_sessions/.mine/notes.txt",
    "responses/README",
    f"attachments/cd/{'ab' * 32}",
    "attachments/.incoming/half",
    "system_prompts/picture.png",
    "tools/tool.py",
    ".env",
)

pytestmark = pytest.mark.allow_blocking


def talk(session_id: str, text: str = "Hello") -> Session:
    made = make_session(session_id, "m", now=NOW)
    message = UserMessage(content=text, message_id="f1e2d3c4b5", timestamp=NOW)
    return append_messages(made, message, now=NOW)


def directory(path: Path) -> DirectoryLocation:
    return DirectoryLocation(MochiSettings(data_dir=path))


def files_of(path: Path, part: str = "") -> FileSessionRepository:
    settings = MochiSettings(data_dir=path)
    agents = settings.resolved_agent_chats_dir
    return FileSessionRepository(agents if part == "agents" else settings.resolved_sessions_dir)


def objects_of(store: ObjectStore, part: str = "sessions") -> SessionRepository:
    return ObjectSessionRepository(
        store.under(part),
        deleted=None,
        owners=MemoryOwners(),
        index=MemorySessionIndex(),
    )


def copy(
    source: DataLocation, target: DataLocation, *, dry_run: bool = False
) -> dict[str, list[str]]:
    """Copy, and return the names by what became of them."""
    outcomes: dict[str, list[str]] = {}
    for copied in copy_all(source, target, MochiSettings(), dry_run=dry_run):
        outcomes.setdefault(copied.outcome, []).append(copied.name)
    return outcomes


def content_of(path: Path) -> dict[str, bytes]:
    return {
        file.relative_to(path).as_posix(): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file() and ".locks" not in file.parts and file.suffix != ".lock"
    }


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a data directory with something of each part, and things that belong to none."""
    folder = tmp_path / "data"
    files_of(folder).create(talk(SESSION_ID))
    files_of(folder, "agents").create(talk(AGENTS))
    for name, content in {**OTHERS, **dict.fromkeys(NOT_COPIED, b"other")}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_a_data_directory_comes_back_from_an_object_store_as_it_was(
    data: Path, tmp_path: Path, object_url: str
) -> None:
    assert Counter(map(len, copy(directory(data), ObjectLocation(object_url)).values())) == {6: 1}
    back = tmp_path / "back"
    assert copy(ObjectLocation(object_url), directory(back)).keys() == {"copied"}
    here, there = content_of(data), content_of(back)
    assert here.keys() - there.keys() == set(NOT_COPIED)
    assert {name: here[name] for name in there} == there


def test_the_data_of_all_owners_are_copied(
    data: Path, tmp_path: Path, object_url: str, object_store: ObjectStore
) -> None:
    anna = MochiSettings(data_dir=data).for_owner("anna")
    FileSessionRepository(anna.resolved_sessions_dir).create(talk(SESSION_ID, "Hello from Anna"))
    for name, content in OTHERS.items():
        (anna.resolved_data_dir / name).parent.mkdir(parents=True, exist_ok=True)
        (anna.resolved_data_dir / name).write_bytes(content + b" ")
    object_store.under("users").put_new("No owner/readme", b"")

    copied = copy(directory(data), ObjectLocation(object_url))["copied"]

    assert f"anna: {SESSION_ID}.json" in copied
    of_anna = objects_of(object_store.under("users/anna")).load(SESSION_ID)
    assert of_anna.messages[0].content == "Hello from Anna"
    assert objects_of(object_store).load(SESSION_ID).messages[0].content == "Hello"
    back = tmp_path / "back"
    assert copy(ObjectLocation(object_url), directory(back)).keys() == {"copied"}
    here, there = content_of(data / "users"), content_of(back / "users")
    assert {name: here[name] for name in there} == there
    assert len(there) == len(OTHERS) + 1


def test_what_was_copied_opens_on_the_other_side(
    data: Path, tmp_path: Path, object_url: str, object_store: ObjectStore
) -> None:
    copy(directory(data), ObjectLocation(object_url))
    assert objects_of(object_store).load(SESSION_ID) == files_of(data).load(SESSION_ID)
    in_objects = objects_of(object_store, "agents")
    assert in_objects.load(AGENTS) == files_of(data, "agents").load(AGENTS)
    changed = in_objects.update(
        AGENTS, lambda found: append_messages(found, *talk(AGENTS, "more").messages, now=NOW)
    )
    copy(ObjectLocation(object_url), directory(tmp_path / "back"))
    assert files_of(tmp_path / "back", "agents").load(AGENTS) == changed


def test_unknown_keys_survive_and_what_belongs_to_the_object_goes(
    data: Path, tmp_path: Path, object_url: str, object_store: ObjectStore
) -> None:
    path = data / "chat_sessions" / f"{SESSION_ID}.json"
    document = json.loads(path.read_bytes())
    document["metadata"]["new"] = {"of": "metadata"}
    document["messages"][0]["new"] = "of a message"
    path.write_text(json.dumps({**document, "new": "of the session"}))
    copy(directory(data), ObjectLocation(object_url))
    in_objects = objects_of(object_store)
    claim_session(in_objects, SESSION_ID, "a-turn", change=lambda found: found)
    source, target = ObjectLocation(object_url), directory(tmp_path / "back")
    copied = list(copy_all(source, target, MochiSettings(), dry_run=False))
    assert [item.name for item in copied if item.was_claimed] == [f"{SESSION_ID}.json"]
    back = json.loads((tmp_path / "back" / "chat_sessions" / path.name).read_bytes())
    assert back.keys() == {"metadata", "messages", "new"}
    assert back["metadata"]["new"] == {"of": "metadata"}
    assert back["messages"][0]["new"] == "of a message"


def test_a_copy_can_be_made_again(data: Path, object_url: str) -> None:
    for _ in range(2):
        outcomes = copy(directory(data), ObjectLocation(object_url))
        (data / "system_prompts" / "new.md").write_text("New.")
    assert outcomes == {
        "copied": ["new.md"],
        "same": [
            f"ab/{'ab' * 32}",
            f"{SESSION_ID}.json",
            f"{AGENTS}.json",
            *(name.partition("/")[2] for name in OTHERS if name.startswith("responses")),
            "brief.md",
            "work.json",
        ],
    }


def test_a_session_is_the_same_whatever_the_object_holds_beside_it(
    data: Path, object_url: str, object_store: ObjectStore
) -> None:
    in_objects = objects_of(object_store)
    in_objects.create(talk(SESSION_ID))
    claim_session(in_objects, SESSION_ID, "a-turn")
    assert f"{SESSION_ID}.json" in copy(directory(data), ObjectLocation(object_url))["same"]


def test_what_differs_is_left_and_the_rest_copied(
    data: Path, object_url: str, object_store: ObjectStore
) -> None:
    objects_of(object_store).create(talk(SESSION_ID, "Something else"))
    object_store.put("prompts/brief.md", b"Be long.")
    outcomes = copy(directory(data), ObjectLocation(object_url))
    assert outcomes["different"] == [f"{SESSION_ID}.json", "brief.md"]
    assert len(outcomes["copied"]) == 4
    assert object_store.get("prompts/brief.md").data == b"Be long."
    assert objects_of(object_store).load(SESSION_ID) == talk(SESSION_ID, "Something else")


@pytest.mark.parametrize("to_objects", [True, False])
def test_a_dry_run_copies_nothing(
    data: Path, tmp_path: Path, object_url: str, object_store: ObjectStore, to_objects: bool
) -> None:
    target: DataLocation = (
        ObjectLocation(object_url) if to_objects else directory(tmp_path / "other")
    )
    assert len(copy(directory(data), target, dry_run=True)["copied"]) == 6
    assert [item for page in object_store.list() for item in page] == []
    assert not (tmp_path / "other").exists()


def test_what_can_not_be_read_as_a_session_is_copied_as_it_is_and_a_link_is_not_followed(
    data: Path, tmp_path: Path, object_url: str, object_store: ObjectStore
) -> None:
    (data / "chat_sessions" / "ffffffffff.json").write_bytes(b"broken")
    (tmp_path / "secret").write_text("secret")
    (data / "system_prompts" / "link.md").symlink_to(tmp_path / "secret")
    outcomes = copy(directory(data), ObjectLocation(object_url))
    assert object_store.get("sessions/ffffffffff.json").data == b"broken"
    assert outcomes["unreadable"] == ["link.md"]


def test_a_session_that_is_being_answered_is_told(data: Path) -> None:
    repository = files_of(data)
    claim_session(repository, SESSION_ID, "0" * 20)
    assert busy_sessions(directory(data).storages) == [SESSION_ID]
    with pytest.raises(SessionBusy):
        repository.delete(SESSION_ID)


def test_what_vanishes_meanwhile_is_nothing_to_copy(data: Path, object_url: str) -> None:
    class Vanishing(DirectoryLocation):
        def read(self, part: Any, name: str) -> bytes:
            if name == "brief.md":
                raise FileNotFoundError(name)
            return super().read(part, name)

    outcomes = copy(Vanishing(MochiSettings(data_dir=data)), ObjectLocation(object_url))
    assert "brief.md" not in outcomes["copied"]
    assert len(outcomes["copied"]) == 5


def test_what_comes_meanwhile_is_not_overwritten(
    data: Path, object_url: str, object_store: ObjectStore
) -> None:
    class ImportedArchive(ObjectLocation):
        def create(self, part: Any, name: str, data: bytes) -> None:
            if name == "brief.md":
                object_store.put("prompts/brief.md", b"Be long.")
            super().create(part, name, data)

    outcomes = copy(directory(data), ImportedArchive(object_url))
    assert outcomes["different"] == ["brief.md"]
    assert object_store.get("prompts/brief.md").data == b"Be long."


def test_places_are_named_as_people_name_them(tmp_path: Path, object_url: str) -> None:
    settings = MochiSettings(data_dir=tmp_path)
    source, target = places_of(str(tmp_path), object_url, settings, dry_run=True)
    assert (type(source), type(target)) == (DirectoryLocation, ObjectLocation)
    (tmp_path / "file").touch()
    for source_name, target_name, words in (
        (str(tmp_path / "new"), object_url, "not a directory"),
        (str(tmp_path), str(tmp_path / "file"), "not a directory"),
        (str(tmp_path), f"{tmp_path}/.", "the same"),
        (object_url, object_url, "the same"),
        (object_url, "ftp://somewhere", "s3://"),
    ):
        with pytest.raises(ValueError, match=words):
            places_of(source_name, target_name, settings, dry_run=True)
