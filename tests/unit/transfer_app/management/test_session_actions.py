"""``manage.py sessions export --with-attachments`` and ``import``: a session moves as a whole."""

import json
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from mochi_project.app import build_services
from mochi_project.configuration.loading import MochiSettings
from models_app.catalogue import ModelCatalogue
from models_app.default_model import DefaultModel
from sessions_app.attachments.service import AttachmentService
from sessions_app.errors import SessionNotFound, StorageFull
from sessions_app.service import SessionManager
from sessions_app.services import file_attachments
from sessions_app.session import Session
from tests.services import install_services, services_of
from tests.unit.sessions_app.attachments.images import png
from tests.unit.transfer_app.formats.exports import FOLDER
from tests.unit.transfer_app.stores import question, reference, session_of
from transfer_app.layout import session_name

CAT, DOG = png(), png(3, 3, padding=2000)
Use = Callable[..., SessionManager]


@pytest.fixture
def use(tmp_path: Path) -> Iterator[Use]:
    """Return what makes a data directory the one of the commands."""

    def use(name: str, **values: Any) -> SessionManager:
        settings = MochiSettings(data_dir=tmp_path / name, **values)
        models = build_services(settings).get(ModelCatalogue)
        services = services_of(
            {
                MochiSettings: settings,
                ModelCatalogue: models,
                DefaultModel: DefaultModel(models, settings.default_model),
                SessionManager: SessionManager(settings.resolved_sessions_dir),
                AttachmentService: AttachmentService(
                    file_attachments(settings), max_bytes=settings.max_attachment_bytes
                ),
            }
        )
        install_services(services)
        sessions: SessionManager = services.get(SessionManager)
        return sessions

    yield use
    install_services(None)


@pytest.fixture
def session(use: Use, tmp_path: Path) -> Session:
    manager = use("there")
    store = file_attachments(MochiSettings(data_dir=tmp_path / "there"))
    for data in (CAT, DOG):
        writer = store.begin(max_bytes=1 << 20)
        writer.write(data)
        writer.finish()
    return session_of(manager, question(reference(CAT), reference(DOG, "dog.png")))


@pytest.fixture
def file(session: Session, tmp_path: Path) -> str:
    target = str(tmp_path / "cat.zip")
    assert run("export", session.session_id, "--with-attachments", "--output", target) == ""
    return target


def run(*arguments: str) -> str:
    output = StringIO()
    call_command("sessions", *arguments, stdout=output)
    return output.getvalue()


def kept(folder: Path) -> list[bytes]:
    return sorted(path.read_bytes() for path in (folder / "attachments").glob("??/*"))


def test_a_session_moves_with_its_attachments(
    session: Session, file: str, use: Use, tmp_path: Path
) -> None:
    here = use("here")
    assert run("import", file) == (
        f"imported      {session.session_id}: 1 message, 2 attachments\n"
    )
    assert here.get(session.session_id) == session
    assert kept(tmp_path / "here") == sorted([CAT, DOG])
    assert run("import", file).startswith("there already")
    assert json.loads(run("import", file, "--json")) == {
        "dry_run": False,
        "imported": 0,
        "same": 1,
        "different": 0,
        "branches": 0,
        "empty": 0,
        "broken": 0,
        "sessions": [
            {
                "session_id": session.session_id,
                "outcome": "same",
                "messages": 1,
                "attachments": 2,
                "missing": [],
            }
        ],
        "problems": [],
        "attachments_added": 0,
        "attachments_left_out": 0,
        "left_out": [],
    }


def test_the_file_is_for_its_owner_alone_and_unpacks_to_a_data_directory(
    session: Session, file: str, tmp_path: Path
) -> None:
    assert Path(file).stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(file) as unpacked:
        unpacked.extractall(tmp_path / "unpacked")
    assert SessionManager(tmp_path / "unpacked" / "chat_sessions").get(session.session_id)
    assert kept(tmp_path / "unpacked") == sorted([CAT, DOG])


def test_an_export_says_what_is_not_kept_any_more_and_so_does_its_import(
    session: Session, use: Use, tmp_path: Path
) -> None:
    use("there")
    lost = reference(DOG).id.removeprefix("sha256:")
    (tmp_path / "there" / "attachments" / lost[:2] / lost).unlink()
    file = str(tmp_path / "part.zip")
    with pytest.raises(CommandError, match=rf"is written. It lacks .*: dog.png \(sha256:{lost}\)"):
        run("export", session.session_id, "--with-attachments", "--output", file)
    here = use("here")
    with pytest.raises(CommandError, match=r"The file lacks dog.png"):
        run("import", file)
    assert here.get(session.session_id) == session


def test_a_session_that_went_on_stays_and_the_command_fails(
    session: Session, file: str, use: Use
) -> None:
    here = use("here")
    run("import", file)
    here.update(session.session_id, model="other")
    output = StringIO()
    with pytest.raises(CommandError, match=r"1 session left: nothing is overwritten."):
        call_command("sessions", "import", file, stdout=output)
    assert output.getvalue().startswith("left")
    assert here.get(session.session_id).metadata.model == "other"


def test_a_broken_file_takes_nothing(session: Session, file: str, use: Use, tmp_path: Path) -> None:
    data = Path(file).read_bytes()
    broken = tmp_path / "broken.zip"
    for content in (data[:-30], data.replace(DOG, DOG[::-1]), b"", b"PK"):
        broken.write_bytes(content)
        here = use("here")
        with pytest.raises(CommandError, match="broken"):
            run("import", str(broken))
        with pytest.raises(SessionNotFound):
            here.get(session.session_id)
    assert kept(tmp_path / "here") == []


def test_nothing_is_written_beside_the_data(
    session: Session, file: str, use: Use, tmp_path: Path
) -> None:
    with zipfile.ZipFile(file, "a") as strange:
        for name in ("../evil", "/tmp/evil-of-mochi", "attachments/../../evil", "chat_sessions/x"):
            strange.writestr(name, b"evil")
    before = {path for path in tmp_path.rglob("*") if "here" not in path.parts}
    use("here")
    output = run("import", file)
    assert "not of a session, left out: ../evil, /tmp/evil-of-mochi" in output
    assert {path for path in tmp_path.rglob("*") if "here" not in path.parts} == before
    assert not os.path.lexists("/tmp/evil-of-mochi")
    assert [path.name for path in (tmp_path / "here" / "chat_sessions").glob("*.json")] == [
        f"{session.session_id}.json"
    ]


def test_a_disk_that_fills_up_says_what_came_in(
    session: Session, file: str, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = use("there")
    second = session_of(there, question(reference(DOG, "dog.png")))
    with zipfile.ZipFile(file, "a") as both:
        both.writestr(session_name(second.session_id), there.export(second.session_id))
    here = use("here")
    create = here.repository.create

    def full_at_the_second(session: Session) -> None:
        if session.session_id == second.session_id:
            raise StorageFull("The disk is full.")
        create(session)

    monkeypatch.setattr(here.repository, "create", full_at_the_second)
    with pytest.raises(
        CommandError, match=r"The disk is full. 1 session had been taken in before, the rest not."
    ):
        run("import", file)
    assert here.get(session.session_id) == session


def test_what_exclude_each_other_is_said(session: Session, file: str, use: Use) -> None:
    use("there")
    with pytest.raises(CommandError, match=r"--output FILE\.zip"):
        run("export", session.session_id, "--with-attachments")
    with pytest.raises(CommandError, match="a format of its own"):
        run("export", session.session_id, "--with-attachments", "--json", "--output", file)
    reason = f"{file}.not: No such file or directory. Nothing was taken in."
    with pytest.raises(CommandError, match=re.escape(reason)):
        run("import", f"{file}.not")


def test_a_file_that_is_too_large_for_this_server_is_named(file: str, use: Use) -> None:
    use("here", max_attachment_bytes=1024)
    with pytest.raises(CommandError, match=rf"{len(DOG):,} bytes; 1,024 are allowed"):
        run("import", file)


def test_exports_of_other_programs_come_in_as_sessions(use: Use) -> None:
    here = use("here")
    files = [str(FOLDER / f"{source}.json") for source in ("librechat", "open_webui")]
    tried = run("import", *files, "--branches", "--dry-run")
    assert tried.endswith("4 sessions would be imported, 2 of them other branches\n")
    assert not here.list_sessions()
    assert run("import", *files, "--branches").endswith(
        "4 sessions imported, 2 of them other branches\n"
    )
    assert {each.title for each in here.list_sessions()} == {"Trees", "Pinned weather"}
    again = json.loads(run("import", *files, "--json", "--model", "other"))
    assert (again["imported"], again["same"]) == (0, 2)
    assert len(here.list_sessions()) == 4


def test_what_an_export_lacks_is_said_and_the_rest_taken_in(use: Use) -> None:
    here = use("here", default_model="m")
    file = str(FOLDER / "chatgpt.json")
    with pytest.raises(CommandError, match=r"1 entry was not taken in: chatgpt\.json, entry 2: "):
        run("import", file)
    with pytest.raises(CommandError, match="not the shape of an export of claude"):
        run("import", file, "--from", "claude")
    assert [each.title for each in here.list_sessions()] == ["Cats and numbers"]


def test_a_broken_file_does_not_keep_others_out(use: Use, tmp_path: Path) -> None:
    here = use("here", default_model="m")
    broken = tmp_path / "broken.zip"
    broken.write_bytes(b"PK")
    with pytest.raises(CommandError, match=r"broken\.zip: The file is not a zip file"):
        run("import", str(broken), str(FOLDER / "claude.json"))
    assert len(here.list_sessions()) == 2


def test_a_terminal_shows_how_far_it_is(use: Use) -> None:
    use("here", default_model="m")

    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    call_command(
        "sessions", "import", str(FOLDER / "claude.json"), stdout=StringIO(), stderr=screen
    )
    assert "claude.json" in screen.getvalue()


def test_all_sessions_are_exported_and_come_in_again(
    session: Session, use: Use, tmp_path: Path
) -> None:
    there = use("there")
    session_of(there, question())
    lines = run("export", "--all")
    assert len(lines.splitlines()) == 2
    run("export", "--all", "--output", str(tmp_path / "all.jsonl"))
    assert (tmp_path / "all.jsonl").read_text() == lines
    run("export", "--all", "--format", "zip", "--output", str(tmp_path / "all.zip"))
    here = use("here")
    assert "2 sessions imported" in run("import", str(tmp_path / "all.zip"))
    assert "2 there already" in run("import", str(tmp_path / "all.jsonl"))
    assert here.get(session.session_id) == session


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "Name a session"),
        (("0123456789", "--format", "jsonl"), "write --all"),
        (("--all", "--format", "zip"), r"--output FILE\.zip"),
        (("--all", "--format", "markdown"), "jsonl or zip"),
        (("--all", "--with-attachments"), "--format and --output alone"),
    ],
)
def test_exports_that_make_no_sense_are_refused(
    arguments: tuple[str, ...], reason: str, use: Use
) -> None:
    use("there")
    with pytest.raises(CommandError, match=reason):
        run("export", *arguments)


def test_an_export_goes_to_the_screen_or_to_a_file(
    use: Use, session: Session, tmp_path: Path
) -> None:
    manager, talk = use("there"), session.session_id

    assert run("export", talk) == run("export", talk, "--json") == manager.export(talk)
    target = tmp_path / "talk.md"
    assert run("export", talk, "--format", "markdown", "--output", str(target)) == ""
    assert target.read_text() == manager.export(talk, format="markdown")


def test_an_export_that_can_not_be_written_says_so(session: Session, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CommandError, match="can't be written"):
        run("export", session.session_id, "--output", str(tmp_path / "file" / "talk.json"))
