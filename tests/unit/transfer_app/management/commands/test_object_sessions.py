"""``mochi-server sessions`` of a node whose sessions are objects."""

import asyncio
import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from cluster_app.objects.store import ObjectStore
from mochi_project.app import Services, build_services
from mochi_project.configuration.loading import load_settings
from sessions_app.format.codec import encode
from sessions_app.messages import UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import Session, append_messages, make_session
from tests.services import install_services
from tests.unit.transfer_app.formats.exports import FOLDER

NOW = "2026-11-21T10:00:00.000000+00:00"

pytestmark = pytest.mark.allow_blocking


def run(*arguments: str) -> str:
    output = StringIO()
    call_command("sessions", *arguments, stdout=output)
    return output.getvalue()


def talk(session_id: str) -> Session:
    made = make_session(session_id, "m", now=NOW)
    message = UserMessage(content="What is 1+1?", message_id="f1e2d3c4b5", timestamp=NOW)
    return append_messages(made, message, now=NOW)


@pytest.fixture
def node(tmp_path: Path, object_url: str, redis_server: str) -> Iterator[Services]:
    """Return the services of a node, which the commands use."""
    services = build_services(
        load_settings(
            data_dir=tmp_path,
            journal_url=redis_server,
            sessions_url=object_url,
            secret_key="0123456789abcdef0123456789abcdef",
        )
    )
    install_services(services)
    yield services
    install_services(None)
    asyncio.run(services.aclose())


def test_sessions_are_listed_shown_exported_and_deleted(node: Services) -> None:
    session = talk("a1b2c3d4e5")
    node.get(SessionManager).keep_new(session)
    run("check")
    listed = json.loads(run("list", "--json"))
    assert [each["session_id"] for each in listed["sessions"]] == [session.session_id]
    assert (listed["total"], listed["complete"]) == (1, True)
    assert json.loads(run("show", session.session_id, "--json"))["message_count"] == 1
    assert run("export", session.session_id) == encode(session).decode()
    run("delete", session.session_id, "--yes")
    assert json.loads(run("list", "--json"))["total"] == 0


def test_a_check_finds_what_others_put_in_and_reads_all_of_it(
    node: Services, object_store: ObjectStore
) -> None:
    run("check")
    object_store.put("sessions/a1b2c3d4e5.json", encode(talk("a1b2c3d4e5")))
    assert "All sessions can be read (1)." in run("check")
    object_store.put("sessions/0123456789.json", b"{")
    with pytest.raises(CommandError, match=r"1 of 2 sessions can't be read"):
        run("check")
    listed = json.loads(run("list", "--json"))
    assert [item["file"] for item in listed["unreadable"]] == ["0123456789.json"]


def test_exports_of_other_programs_come_in_and_all_goes_out(node: Services) -> None:
    file = str(FOLDER / "open_webui.json")
    assert "2 sessions imported" in run("import", file, "--branches")
    assert "2 there already" in run("import", file, "--branches")
    lines = run("export", "--all").splitlines()
    listed = json.loads(run("list", "--json"))
    assert {json.loads(line)["metadata"]["session_id"] for line in lines} == {
        each["session_id"] for each in listed["sessions"]
    }
