"""Quick listings: they look at what the server saved, and at all files where that is unknown."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sessions_app.format.codec import encode
from sessions_app.session import Session, with_metadata
from sessions_app.store import listing
from sessions_app.store.file_repository import FileSessionRepository
from tests.claims import claim_session, hold_of

SESSION_ID = "a1b2c3d4e5"
LATER = "2026-11-21T11:00:00.000000+00:00"

MakeSession = Callable[..., Session]


class Server:
    """Two processes of a server, over one directory."""

    def __init__(self, directory: Path, make_session: MakeSession) -> None:
        self.one, self.other = (FileSessionRepository(directory) for _ in range(2))
        self.log = directory / ".locks" / "saved"
        self.paths = [directory / f"{number:010x}.json" for number in range(3)]
        for path in self.paths:
            self.one.create(make_session("Hello", session_id=path.stem))
        self.other.list(quickly=True)

    def titles(self) -> dict[str, str | None]:
        found = self.other.list(quickly=True).sessions
        return {metadata.session_id: metadata.title for metadata in found}

    def entitle(self, path: Path, title: str) -> None:
        """Change a session as the server does."""
        self.one.update(path.stem, lambda session: with_metadata(session, now=LATER, title=title))

    def edit(self, path: Path, title: str) -> None:
        """Change a session as another program does."""
        changed = with_metadata(self.one.load(path.stem), now=LATER, title=title)
        path.write_bytes(encode(changed))


@pytest.fixture
def server(tmp_path: Path, make_session: MakeSession) -> Server:
    return Server(tmp_path, make_session)


def test_a_quick_listing_looks_at_what_the_server_saved(
    server: Server, make_session: MakeSession
) -> None:
    server.edit(server.paths[0], "edited in place")
    server.entitle(server.paths[1], "saved")
    server.one.delete(server.paths[2].stem)
    server.one.create(make_session("New", session_id=SESSION_ID))
    expected = {server.paths[0].stem: None, server.paths[1].stem: "saved", SESSION_ID: None}
    assert server.titles() == expected
    assert server.other.list(quickly=True) is server.other.list(quickly=True)
    server.other.list()
    assert server.titles() == {**expected, server.paths[0].stem: "edited in place"}


def test_claims_and_recoveries_are_saves(server: Server) -> None:
    session_id = server.paths[0].stem
    claim_session(server.one, session_id, "t1")
    server.one.update(session_id, lambda session: with_metadata(session, now=LATER, title="turn"))
    assert server.titles()[session_id] == "turn"
    server.one.release(session_id, hold_of(server.one, "t1"))
    server.one.update_idle(session_id, lambda found: with_metadata(found, now=LATER, title="idle"))
    assert server.titles()[session_id] == "idle"


def test_what_no_save_explains_is_looked_for(server: Server, tmp_path: Path) -> None:
    def listed_long_ago() -> None:
        os.utime(tmp_path, (0, 0))  # so that the next change is in another tick of the clock
        server.titles()

    server.entitle(server.paths[0], "saved")
    listed_long_ago()
    changed = tmp_path / "changed"
    changed.write_bytes(
        encode(with_metadata(server.one.load(server.paths[1].stem), now=LATER, title="replaced"))
    )
    changed.replace(server.paths[1])
    assert server.titles()[server.paths[1].stem] == "replaced"
    listed_long_ago()
    server.paths[2].unlink()
    assert server.paths[2].stem not in server.titles()


def test_nothing_is_noted_where_nobody_lists_quickly(
    tmp_path: Path, make_session: MakeSession
) -> None:
    repository = FileSessionRepository(tmp_path)
    repository.create(make_session("Hello", session_id=SESSION_ID))
    assert len(repository.list().sessions) == 1
    assert not (tmp_path / ".locks" / "saved").exists()


def test_many_saves_are_read_in_full_and_what_was_replaced_is_not(server: Server) -> None:
    server.edit(server.paths[1], "edited in place")
    for number in range(listing.MOST_SAVES):
        server.entitle(server.paths[0], f"saved {number}")
    assert server.titles() == {
        server.paths[0].stem: f"saved {listing.MOST_SAVES - 1}",
        server.paths[1].stem: "edited in place",
        server.paths[2].stem: None,
    }


@pytest.mark.parametrize("damage", [b"../../../x\n", b"\0" * 22 + b"\n"])
def test_lines_that_are_no_sessions_have_all_files_looked_at(server: Server, damage: bytes) -> None:
    server.edit(server.paths[1], "edited in place")
    with server.log.open("ab") as file:
        file.write(damage)
    assert server.titles()[server.paths[1].stem] == "edited in place"


@pytest.mark.parametrize("is_there", [False, True])
def test_without_a_log_that_goes_on_all_files_are_looked_at(server: Server, is_there: bool) -> None:
    server.log.unlink()
    if is_there:
        FileSessionRepository(server.log.parent.parent).list(quickly=True)
        server.entitle(server.paths[0], "saved")
    server.edit(server.paths[1], "edited in place")
    assert server.titles()[server.paths[1].stem] == "edited in place"


def test_a_log_that_cannot_be_made_costs_only_time(server: Server) -> None:
    server.log.unlink()
    server.log.mkdir()
    server.entitle(server.paths[0], "saved")
    server.edit(server.paths[1], "edited in place")
    for _ in range(2):
        assert server.titles()[server.paths[0].stem] == "saved"
        assert server.titles()[server.paths[1].stem] == "edited in place"


def test_saves_that_could_not_be_looked_at_are_looked_at_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.entitle(server.paths[0], "saved")

    def no_more_files(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(listing, "read_head", no_more_files)
        with pytest.raises(OSError, match="open files"):
            server.titles()
    assert server.titles()[server.paths[0].stem] == "saved"
