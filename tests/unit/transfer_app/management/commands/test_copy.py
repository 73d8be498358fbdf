"""``mochi-server sessions copy``: to an object store and back, while no server runs."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from cluster_app.objects.store import ObjectStore
from mochi_project.configuration.loading import MochiSettings
from sessions_app.service import SessionManager
from tests.claims import claim_session

pytestmark = pytest.mark.allow_blocking


def run(*arguments: Any) -> str:
    out = StringIO()
    call_command("sessions", "copy", *map(str, arguments), stdout=out)
    return out.getvalue()


@pytest.fixture
def data(tmp_path: Path, settings: Any) -> Path:
    """Return the data directory that the command is configured with."""
    folder = tmp_path / "data"
    folder.mkdir()
    settings.MOCHI = MochiSettings(data_dir=folder)
    return folder


@pytest.fixture
def manager(data: Path) -> SessionManager:
    return SessionManager(data / "chat_sessions")


def test_sessions_go_to_an_object_store_and_come_back(
    data: Path, manager: SessionManager, tmp_path: Path, object_url: str
) -> None:
    session = manager.create("m")
    assert "1  sessions would be copied" in run(data, object_url, "--dry-run")
    assert json.loads(run(data, object_url, "--json"))["parts"] == {"sessions": {"copied": 1}}
    assert "0  sessions copied, 1 there already" in run(data, object_url)
    run(object_url, tmp_path / "back")
    back = SessionManager(tmp_path / "back" / "chat_sessions")
    assert back.get(session.session_id) == session


def test_what_differs_fails_the_command_after_the_rest_was_copied(
    data: Path, manager: SessionManager, object_url: str, object_store: ObjectStore
) -> None:
    differing, other = (manager.create("m").session_id for _ in range(2))
    object_store.put(f"sessions/{differing}.json", b"{}")
    with pytest.raises(CommandError, match=f"sessions/{differing}.json was left"):
        run(data, object_url)
    assert object_store.get(f"sessions/{other}.json").data
    assert object_store.get(f"sessions/{differing}.json").data == b"{}"


def test_a_session_that_is_being_answered_stops_the_command(
    data: Path, manager: SessionManager, object_url: str
) -> None:
    session_id = manager.create("m").session_id
    claim_session(manager.repository, session_id, "0" * 20)
    with pytest.raises(CommandError, match=f"{session_id} is being answered"):
        run(data, object_url)


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("missing", "other", "not a directory"),
        (".", "ftp://somewhere", "s3://bucket/prefix"),
        (".", "s3://key@bucket", "holds no keys"),
        (".", ".", "the same"),
        ("s3://", ".", "s3://bucket/prefix"),
    ],
)
def test_places_that_are_none_are_refused(
    data: Path, monkeypatch: pytest.MonkeyPatch, source: str, target: str, words: str
) -> None:
    monkeypatch.chdir(data)
    with pytest.raises(CommandError, match=words):
        run(source, target)


def test_a_store_that_overwrites_what_is_there_is_refused(
    data: Path, manager: SessionManager, object_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager.create("m")
    monkeypatch.setattr(ObjectStore, "put_new", ObjectStore.put)
    with pytest.raises(CommandError, match="twice"):
        run(data, object_url)
