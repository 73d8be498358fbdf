"""Claims of turns whose process has died: seen at once, recovered by the next turn, swept."""

import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sessions_app.errors import InvalidMessageIndex, SessionBusy
from sessions_app.messages import UserMessage
from sessions_app.session import Session, append_messages
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.holder import Holder
from sessions_app.store.repository import Claim
from tests.claims import claim_session

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


def test_liveness_files_of_the_dead_go_with_the_next_one_and_of_the_living_not(
    repository: FileSessionRepository, sessions_dir: Path, dead_claim: Claim
) -> None:
    workers = sessions_dir / ".claims" / "workers"
    living = Holder.create(workers / f"{'1' * 16}.lock")
    assert (workers / f"{dead_claim.owner}.lock").exists()
    claim_session(repository, SESSION_ID, "t2")
    claim = repository.claim_of(SESSION_ID)
    assert claim is not None
    assert claim.alive
    left = {f"{claim.owner}.lock", f"{'1' * 16}.lock"}
    assert {each.name for each in workers.iterdir()} == left
    living.release()


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


def test_a_directory_in_place_of_a_claim_is_put_aside_and_stops_nobody(
    repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession
) -> None:
    repository.create(make_session("Hello"))
    claim_session(repository, SESSION_ID, "t1")
    claim = sessions_dir / ".claims" / f"{SESSION_ID}.claim"
    claim.unlink()
    claim.mkdir()
    (claim / "somebody's.txt").write_text("kept")
    assert [each.session_id for each in repository.claims()] == [SESSION_ID]
    assert texts(claim_session(repository, SESSION_ID, "t2", recover=seal)) == ["Hello", "sealed "]
    assert claim.is_symlink()
    [kept] = sessions_dir.rglob("somebody's.txt")
    assert kept.parent.name.endswith(".broken")
