"""``manage.py search``: for people, and with ``--json`` for scripts."""

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from mochi_project.configuration.loading import MochiSettings
from search_app.service import SessionSearch
from search_app.services import build_search, index_path
from sessions_app.messages import UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import append_messages
from tests.services import install_services, services_of

NOW = "2026-11-21T10:00:00.000000+00:00"


@pytest.fixture
def settings_here(tmp_path: Path) -> MochiSettings:
    return MochiSettings(data_dir=tmp_path)


@pytest.fixture
def manager(settings_here: MochiSettings) -> Iterator[SessionManager]:
    manager = SessionManager(settings_here.resolved_sessions_dir)
    services = services_of({SessionSearch: build_search(settings_here, manager.repository)})
    install_services(services)
    yield manager
    install_services(None)


def say(manager: SessionManager, text: str) -> str:
    session_id = manager.create("qwen3:14b", title="The \x1b[2Jsea").session_id
    message = UserMessage(content=text, message_id="1", timestamp=NOW)
    manager.repository.update(
        session_id, lambda session: append_messages(session, message, now=NOW)
    )
    return session_id


def run(*arguments: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("search", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_results_are_shown_without_what_steers_a_terminal(manager: SessionManager) -> None:
    session_id = say(manager, "Möwen \x1b]0;over\x07 the\nsea")
    out, err = run("mowen", "sea")
    assert out == (f"{session_id}  2026-11-21 10:00  user  The [2Jsea\n  Möwen ]0;over the sea\n")
    assert err == ""


def test_results_are_printed_as_json(manager: SessionManager, settings_here: MochiSettings) -> None:
    session_id = say(manager, "Möwen")
    out, _ = run("mowen", "--json")
    body = json.loads(out)
    assert [result["session_id"] for result in body["results"]] == [session_id]
    assert body["index"] == "ready"
    assert index_path(settings_here).exists()


def test_a_limit_says_that_there_are_more(manager: SessionManager) -> None:
    for _ in range(3):
        say(manager, "Möwen")
    out, _ = run("mowen", "--limit", "2")
    assert out.endswith("2 of about 3 results\n")


def test_nothing_is_found_in_nothing(manager: SessionManager) -> None:
    assert run("mowen") == ("", "Nothing was found.\n")


def test_a_folder_that_cannot_be_written_is_searched(
    manager: SessionManager, settings_here: MochiSettings
) -> None:
    index_path(settings_here).mkdir(parents=True)
    session_id = say(manager, "Möwen")
    out, _ = run("mowen", "--json")
    body = json.loads(out)
    assert (body["results"][0]["session_id"], body["index"]) == (session_id, "scan")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["x", "--limit", "0"], "limit: "),
        (["x", "--from", "yesterday"], "from must be a date"),
        (["x" * 501], "q: "),
    ],
)
def test_wrong_arguments_are_refused(
    manager: SessionManager, arguments: list[str], sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence):
        run(*arguments)
