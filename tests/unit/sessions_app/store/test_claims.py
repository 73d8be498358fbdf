"""Turn claims as files: each is read as it stands, and swept when nobody needs it any more."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sessions_app.errors import SessionBusy
from sessions_app.session import Session
from sessions_app.store.claims import TurnClaims
from sessions_app.store.file_owners import FileOwners
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.repository import Hold
from tests.claims import claim_session, hold_of
from tests.contract.memory_repository import MemoryOwners

NOW = "2026-11-21T10:00:00.000000+00:00"
SESSION_ID = "a1b2c3d4e5"

MakeSession = Callable[..., Session]


def test_a_process_has_one_liveness_file_for_a_directory(
    sessions_dir: Path, make_session: MakeSession
) -> None:
    first, second = FileSessionRepository(sessions_dir), FileSessionRepository(sessions_dir)
    for number, repository in enumerate((first, second, first)):
        session_id = f"{number:010x}"
        repository.create(make_session("Hello", session_id=session_id))
        claim_session(repository, session_id, "t1")
    assert len(list((sessions_dir / ".claims" / "workers").iterdir())) == 1
    assert len({claim.owner for claim in second.claims()}) == 1


def test_names_from_files_do_not_lead_out_of_the_directory(tmp_path: Path) -> None:
    claims = TurnClaims(tmp_path, FileOwners(tmp_path / "workers"))
    (tmp_path / "a1b2c3d4e5.claim").symlink_to("../t|../secret|now")
    claim = claims.read("a1b2c3d4e5")
    assert claim is not None
    assert (claim.owner, claim.turn_id, claim.alive) == ("", "", False)


def test_a_claim_that_another_process_takes_over_is_there_all_the_time(tmp_path: Path) -> None:
    claims = TurnClaims(tmp_path, FileOwners(tmp_path / "workers"))
    claims.write(SESSION_ID, turn_id="t", owner="0", started_at=NOW)
    over, missing = threading.Event(), []

    def read() -> None:
        while not over.is_set():
            missing.append(claims.hold_of(SESSION_ID) is None)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(500):
        claims.write(SESSION_ID, turn_id="t", owner=f"{number}", started_at=NOW)
    over.set()
    reader.join()

    assert not any(missing)
    assert claims.hold_of(SESSION_ID) == Hold("t", "499")
    assert [path.name for path in tmp_path.iterdir()] == [f"{SESSION_ID}.claim"]


def test_all_claims_ask_once_for_each_owner(sessions_dir: Path, make_session: MakeSession) -> None:
    asked: list[str] = []

    class Asked(FileOwners):
        def lives(self, owner: str) -> bool:
            asked.append(owner)
            return super().lives(owner)

    repository = FileSessionRepository(
        sessions_dir, owners=Asked(sessions_dir / ".claims" / "workers")
    )
    dead = "0" * 16
    for number in range(10):
        session = make_session("Hello", session_id=f"{number:010x}")
        repository.create(session)
        owner = dead if number % 2 else repository.owners.mine()
        claim_session(repository, session.session_id, "t1", owner=owner)
    asked.clear()
    assert sorted(claim.alive for claim in repository.claims()) == [False] * 5 + [True] * 5
    assert sorted(asked) == sorted({dead, repository.owners.mine()})


def test_a_claim_on_a_session_whose_file_is_missing_stays(
    repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession
) -> None:
    repository.create(make_session("Hello"))
    claim_session(repository, SESSION_ID, "t1")
    path = sessions_dir / f"{SESSION_ID}.json"
    path.rename(sessions_dir / "elsewhere")
    (sessions_dir / "elsewhere").rename(path)
    with pytest.raises(SessionBusy):
        claim_session(repository, SESSION_ID, "t2")


def test_it_is_remembered_for_a_while_which_sessions_were_deleted(
    repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession
) -> None:
    session = make_session("Hello")
    repository.create(session)
    claim_session(repository, SESSION_ID, "t1")
    repository.release(SESSION_ID, hold_of(repository, "t1"))
    assert repository.deleted_at(SESSION_ID) is None
    repository.delete(SESSION_ID)
    repository.sweep()
    assert repository.deleted_at(SESSION_ID) is not None
    tombstone = sessions_dir / ".claims" / f"{SESSION_ID}.deleted"
    os.utime(tombstone, (0, 0), follow_symlinks=False)
    assert repository.sweep() == 1
    assert repository.deleted_at(SESSION_ID) is None
    repository.create(session)
    repository.delete(SESSION_ID)
    repository.create(session)
    assert repository.deleted_at(SESSION_ID) is None
    assert repository.sweep() == 1


def test_the_first_claim_of_owners_that_have_no_files_makes_its_directory(
    tmp_path: Path, make_session: MakeSession
) -> None:
    repository = FileSessionRepository(tmp_path, owners=MemoryOwners())
    repository.create(make_session("Hello"))
    claim_session(repository, SESSION_ID, "t1")
    claim = repository.claim_of(SESSION_ID)
    assert claim is not None
    assert (claim.owner, claim.alive) == ("owner0", True)
    assert (tmp_path / ".claims").stat().st_mode & 0o777 == 0o700


CLAIMED = [f"{number:010x}" for number in range(3)]
RECORDS = ["t1|owner-a|now|1", "t2|owner-b|now|1", "t3|owner-a|now|2", "no record"]


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["link", "file"]), st.integers(0, 2), st.integers(0, 3)),
            st.tuples(st.sampled_from(["give up"]), st.integers(0, 2), st.just(0)),
            st.sampled_from([("look", 0, 0), ("die", 0, 0)]),
        ),
        max_size=20,
    )
)
@example([("link", 0, 0), ("look", 0, 0), ("die", 0, 0)])
@example([("link", 0, 0), ("look", 0, 0), ("link", 0, 1), ("look", 0, 0), ("give up", 0, 0)])
@example([("link", 0, 2), ("look", 0, 0), ("die", 0, 0), ("look", 0, 0), ("file", 0, 0)])
def test_all_claims_are_as_they_stand_whatever_others_do_between_two_looks(
    steps: list[tuple[str, int, int]],
) -> None:
    with TemporaryDirectory() as directory:
        owners = MemoryOwners()
        claims, fresh = TurnClaims(directory, owners), TurnClaims(directory, owners)
        for step, session, record in [*steps, ("look", 0, 0)]:
            path = Path(directory, f"{CLAIMED[session]}.claim")
            if step == "look":
                each = [fresh.read(session_id) for session_id in CLAIMED]
                found = sorted(claims.all(), key=lambda claim: claim.session_id)
                assert found == [claim for claim in each if claim is not None]
            elif step == "die":
                owners.dead.add("owner-a")
            else:
                path.unlink(missing_ok=True)
                if step == "link":
                    path.symlink_to(RECORDS[record])
                elif step == "file":
                    path.write_text(RECORDS[record])


def test_a_claim_that_stands_is_parsed_once(sessions_dir: Path) -> None:
    claims = TurnClaims(sessions_dir / ".claims", MemoryOwners())
    claims.write(SESSION_ID, turn_id="t1", owner="owner0", started_at=NOW)
    [claim] = claims.all()
    assert claims.all()[0] is claim
    claims.write(SESSION_ID, turn_id="t2", owner="owner0", started_at=NOW)
    assert [each.turn_id for each in claims.all()] == ["t2"]
