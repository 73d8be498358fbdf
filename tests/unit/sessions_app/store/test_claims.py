"""Turn claims: they end with the process that holds them, however it ends."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sessions_app.errors import InvalidMessageIndex, SessionBusy
from sessions_app.messages import UserMessage
from sessions_app.session import Session, append_messages
from sessions_app.store.claims import TurnClaims
from sessions_app.store.file_owners import FileOwners
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.repository import Claim
from tests.claims import claim_session
from tests.contract.memory_repository import MemoryOwners

NOW = "2026-11-21T10:00:00.000000+00:00"
SESSION_ID = "a1b2c3d4e5"

MakeSession = Callable[..., Session]

OWNER = """
    import sys
    from pathlib import Path
    from sessions_app.store.file_repository import FileSessionRepository

    repository = FileSessionRepository(Path(sys.argv[1]))
    owner = repository.owners.mine()
    repository.claim("a1b2c3d4e5", "t1", owner=owner, change=lambda session: (session, None))
    print("claimed", flush=True)
    sys.stdin.read()
"""


@contextmanager
def owner_process(sessions_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a process that claims the session, until the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER), str(sessions_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "claimed\n"
        try:
            yield process
        finally:
            process.kill()


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(60)


@pytest.fixture
def dead_claim(
    repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession
) -> Claim:
    """Return the claim that a killed process left on the session."""
    repository.create(make_session("Hello"))
    with owner_process(sessions_dir) as process:
        kill(process)
    claim = repository.claim_of(SESSION_ID)
    assert claim is not None
    return claim


def seal(session: Session, claim: Claim) -> Session:
    text = f"sealed {claim.turn_id}"
    if any(message.content == text for message in session.messages):
        return session
    message = UserMessage(content=text, message_id="sealed", timestamp=NOW)
    return append_messages(session, message, now=NOW)


def texts(session: Session) -> list[str]:
    return [message.content for message in session.messages]


def test_another_process_s_turn_is_seen_and_its_death_at_once(
    repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession
) -> None:
    repository.create(make_session("Hello"))
    with owner_process(sessions_dir) as process:
        claim = repository.claim_of(SESSION_ID)
        assert claim is not None
        assert (claim.turn_id, claim.alive) == ("t1", True)
        with pytest.raises(SessionBusy):
            claim_session(repository, SESSION_ID, "t2")
        kill(process)
        claim = repository.claim_of(SESSION_ID)
        assert claim is not None
        assert not claim.alive
        claim_session(repository, SESSION_ID, "t2")
    claim = repository.claim_of(SESSION_ID)
    assert claim is not None
    assert (claim.turn_id, claim.alive) == ("t2", True)


def test_a_dead_turn_is_recovered_and_saved_before_the_next_begins(
    repository: FileSessionRepository, dead_claim: Claim
) -> None:
    assert not dead_claim.alive
    session = claim_session(repository, SESSION_ID, "t2", recover=seal)
    assert texts(session) == ["Hello", "sealed t1"]
    assert repository.load(SESSION_ID) == session
    assert [claim.turn_id for claim in repository.claims()] == ["t2"]


def test_a_dead_turn_is_recovered_before_an_edit(
    repository: FileSessionRepository, dead_claim: Claim
) -> None:
    session = repository.update_idle(SESSION_ID, lambda session: session, recover=seal)
    assert texts(session) == ["Hello", "sealed t1"]
    assert repository.claim_of(SESSION_ID) is None


def test_what_is_recovered_stays_even_if_the_edit_fails(
    repository: FileSessionRepository, dead_claim: Claim
) -> None:
    def fail(session: Session) -> Session:
        raise InvalidMessageIndex("no")

    with pytest.raises(InvalidMessageIndex):
        repository.update_idle(SESSION_ID, fail, recover=seal)
    assert texts(repository.load(SESSION_ID)) == ["Hello", "sealed t1"]


def test_a_recovery_that_fails_is_tried_again(
    repository: FileSessionRepository, dead_claim: Claim
) -> None:
    def fail(session: Session, claim: Claim) -> Session:
        raise OSError("the journal can't be read")

    with pytest.raises(OSError, match="journal"):
        claim_session(repository, SESSION_ID, "t2", recover=fail)
    assert repository.claim_of(SESSION_ID) == dead_claim
    assert texts(claim_session(repository, SESSION_ID, "t2", recover=seal)) == [
        "Hello",
        "sealed t1",
    ]


def test_who_can_not_recover_leaves_the_claim_to_who_can(
    repository: FileSessionRepository, dead_claim: Claim
) -> None:
    repository.update_idle(SESSION_ID, lambda session: seal(session, dead_claim))
    assert repository.claim_of(SESSION_ID) == dead_claim


def test_a_session_whose_turn_is_dead_can_be_deleted(
    repository: FileSessionRepository, dead_claim: Claim
) -> None:
    repository.delete(SESSION_ID)
    assert repository.claims() == []


@pytest.mark.parametrize("target", ["|", "nonsense", "../x|../../y|z", "||||", "", None])
def test_a_claim_that_makes_no_sense_counts_as_dead(
    repository: FileSessionRepository,
    sessions_dir: Path,
    make_session: MakeSession,
    target: str | None,
) -> None:
    repository.create(make_session("Hello"))
    claim_session(repository, SESSION_ID, "t1")
    path = sessions_dir / ".claims" / f"{SESSION_ID}.claim"
    path.unlink()
    if target:
        path.symlink_to(target)
    else:
        path.write_text("no link at all")
    claim = repository.claim_of(SESSION_ID)
    assert claim is not None
    assert not claim.alive
    claim_session(repository, SESSION_ID, "t2")


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
    assert second.sweep() == 0


def test_liveness_files_of_the_dead_are_swept_and_of_the_living_not(
    repository: FileSessionRepository, sessions_dir: Path, dead_claim: Claim
) -> None:
    claim_session(repository, SESSION_ID, "t2")
    assert repository.sweep() == 1
    claim = repository.claim_of(SESSION_ID)
    assert claim is not None
    assert claim.alive


def test_a_forked_child_does_not_keep_its_parent_s_claims_alive(
    repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession
) -> None:
    repository.create(make_session("Hello"))
    program = textwrap.dedent("""
        import os, sys
        from pathlib import Path
        from sessions_app.store.file_repository import FileSessionRepository

        repository = FileSessionRepository(Path(sys.argv[1]))
        owner = repository.owners.mine()
        repository.claim("a1b2c3d4e5", "t1", owner=owner, change=lambda session: (session, None))
        if os.fork():
            os._exit(0)
        print("child", flush=True)
        sys.stdin.read()
    """)
    with subprocess.Popen(
        [sys.executable, "-c", program, str(sessions_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "child\n"
        assert parent.wait(60) == 0
        claim = repository.claim_of(SESSION_ID)
        assert claim is not None
        assert not claim.alive


def test_names_from_files_do_not_lead_out_of_the_directory(tmp_path: Path) -> None:
    claims = TurnClaims(tmp_path, FileOwners(tmp_path / "workers"))
    (tmp_path / "a1b2c3d4e5.claim").symlink_to("../t|../secret|now")
    claim = claims.read("a1b2c3d4e5")
    assert claim is not None
    assert (claim.owner, claim.turn_id, claim.alive) == ("", "", False)


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


def delete_and_die(repository: FileSessionRepository, session_id: str) -> None:
    """Delete a session in a process that dies before it removes the claim of a dead turn."""
    with patch.object(TurnClaims, "remove"):
        repository.delete(session_id)


def test_a_claim_on_a_deleted_session_is_swept(
    repository: FileSessionRepository, make_session: MakeSession
) -> None:
    owners = {SESSION_ID: "0" * 16, "0123456789": repository.owners.mine()}
    for session_id, owner in owners.items():
        repository.create(make_session("Hello", session_id=session_id))
        claim_session(repository, session_id, "t1", owner=owner)
    delete_and_die(repository, SESSION_ID)
    assert repository.sweep() == 1
    assert [claim.session_id for claim in repository.claims()] == ["0123456789"]


def test_a_claim_on_a_session_whose_file_is_missing_stays(
    repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession
) -> None:
    repository.create(make_session("Hello"))
    claim_session(repository, SESSION_ID, "t1")
    path = sessions_dir / f"{SESSION_ID}.json"
    path.rename(sessions_dir / "elsewhere")
    assert repository.sweep() == 0
    (sessions_dir / "elsewhere").rename(path)
    with pytest.raises(SessionBusy):
        claim_session(repository, SESSION_ID, "t2")


def test_it_is_remembered_for_a_while_which_sessions_were_deleted(
    repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession
) -> None:
    session = make_session("Hello")
    repository.create(session)
    claim_session(repository, SESSION_ID, "t1")
    repository.release(SESSION_ID, "t1")
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


def test_a_directory_in_place_of_a_claim_is_put_aside_and_stops_nobody(
    repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession
) -> None:
    owners = {SESSION_ID: repository.owners.mine(), "0123456789": "0" * 16}
    for session_id, owner in owners.items():
        repository.create(make_session("Hello", session_id=session_id))
        claim_session(repository, session_id, "t1", owner=owner)
    delete_and_die(repository, "0123456789")
    claim = sessions_dir / ".claims" / f"{SESSION_ID}.claim"
    claim.unlink()
    claim.mkdir()
    (claim / "somebody's.txt").write_text("kept")
    repository.sweep()
    assert [each.session_id for each in repository.claims()] == [SESSION_ID]
    assert texts(claim_session(repository, SESSION_ID, "t2", recover=seal)) == ["Hello", "sealed "]
    assert claim.is_symlink()
    [kept] = sessions_dir.rglob("somebody's.txt")
    assert kept.parent.name.endswith(".broken")


def test_a_directory_in_place_of_a_claim_on_a_deleted_session_is_swept(
    repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession
) -> None:
    repository.create(make_session("Hello"))
    claim = sessions_dir / ".claims" / f"{SESSION_ID}.claim"
    claim.mkdir(parents=True)
    delete_and_die(repository, SESSION_ID)
    assert repository.sweep() == 1
    assert repository.claims() == []


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
