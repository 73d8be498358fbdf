"""Owners without loaded services are found in their folders, and visited by turns."""

from pathlib import Path

import pytest

from mochi_project.background.rounds import ROUND_SECONDS, OwnerFolders, Rounds


@pytest.fixture
def users(tmp_path: Path) -> Path:
    for owner in ("anna", "bob", "carl"):
        (tmp_path / owner).mkdir()
    return tmp_path


def test_owners_are_the_folders_with_names_of_owners(users: Path) -> None:
    (users / "No Owner").mkdir()
    (users / ".hidden").mkdir()
    (users / "file").touch()

    assert sorted(OwnerFolders(users).all()) == ["anna", "bob", "carl"]


def test_there_may_be_none(tmp_path: Path) -> None:
    assert OwnerFolders(tmp_path / "users").all() == []


def test_owners_with_claims_or_journals_are_unfinished(users: Path) -> None:
    claims = users / "anna" / "chat_sessions" / ".claims"
    claims.mkdir(parents=True)
    (claims / "0123456789.deleted").touch()  # is kept for a month
    (users / "bob" / ".mochi" / "turns" / "0123456789").mkdir(parents=True)
    assert OwnerFolders(users).unfinished() == ["bob"]

    (claims / "0123456789.claim").touch()
    assert sorted(OwnerFolders(users).unfinished()) == ["anna", "bob"]


def test_all_are_visited_some_at_a_time_and_again_an_hour_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds, owners = [1.0], [f"owner-{number}" for number in range(150)]
    monkeypatch.setattr("time.monotonic", lambda: seconds[0])
    rounds = Rounds(lambda: owners)

    first, second = rounds.next(), rounds.next()
    assert (len(first), len(second)) == (100, 50)
    assert [*first, *second] == owners
    assert rounds.is_first
    assert rounds.next() == []
    seconds[0] += ROUND_SECONDS
    assert rounds.next() == first
    assert not rounds.is_first
