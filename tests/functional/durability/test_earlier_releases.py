"""What earlier releases left on the disk: everything they promised holds in this one.

``tests/fixtures/make.py`` made the files, with the code of the release.
"""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures"
RELEASES = sorted(
    path.name for path in FIXTURES.iterdir() if path.is_dir() and path.name[0].isdigit()
)


@pytest.fixture(params=RELEASES)
def left(request, start, tmp_path):
    """Return what a release left, on a data directory of today, and how to start a server there."""
    data_dir = tmp_path / "data"
    shutil.copytree(FIXTURES / request.param, data_dir, symlinks=True, dirs_exist_ok=True)
    index = json.loads((data_dir / "index.json").read_text())
    bring_up_to_date(data_dir)
    return data_dir, index, start


def bring_up_to_date(data_dir: Path) -> None:
    """Let the approvals be of this minute: they are good for five."""
    now = datetime.now(UTC)
    late = now.replace(year=now.year + 1, day=1)
    for path in (data_dir / ".mochi" / "confirmations").rglob("conf_*"):
        record = json.loads(path.read_text())
        if "expires_at" in record:
            record["expires_at"] = late.isoformat(timespec="microseconds")
        if "decided_at" in record:
            record["decided_at"] = now.isoformat(timespec="microseconds")
        path.write_text(json.dumps(record))
    for path in data_dir.rglob("*"):
        os.utime(path, follow_symlinks=False)


@contextmanager
def kept_alive(data_dir: Path, session_id: str) -> Iterator[None]:
    """Hold what the process held that has the claim on the session."""
    claims = data_dir / "chat_sessions" / ".claims"
    _, worker, _ = os.readlink(claims / f"{session_id}.claim").split("|")
    [journal] = (data_dir / ".mochi" / "turns" / session_id).iterdir()
    with (claims / "workers" / f"{worker}.lock").open("r+") as lock, journal.open("r+") as writer:
        for file in (lock, writer):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def decide(chat, session_id, confirmation_id, *, approved):
    answer = {"confirmation_id": confirmation_id, "approved": approved}
    return chat.http.post(f"/chat/{session_id}/confirm-tool", json=answer)


def test_what_a_release_left_is_read_sealed_and_gone_on_with(left, script):
    data_dir, index, start = left
    session_of = {name: entry["session_id"] for name, entry in index.items()}
    with kept_alive(data_dir, session_of["other"]):
        server = start()
        chat = server.chat()

        listed = chat.http.get("/sessions").json()
        assert (listed["total"], listed["unreadable"]) == (len(index), [])
        # An answer that was whole is sent again, under its key too, byte for byte; only that the
        # time to reconnect was a block of its own before.
        answered = index["answered"]
        again = chat.http.post(
            f"/chat/{answered['session_id']}/stream",
            json=json.loads(answered["body"]),
            headers={"Idempotency-Key": answered["key"]},
        )
        assert (again.status_code, again.text) == (
            200,
            answered["stream"].replace("retry: 2000\n\n", "retry: 2000\n", 1),
        )
        assert len(chat.messages(answered["session_id"])) == 2
        # One that was sealed ended with an error, and still does.
        sealed = chat.reattach(session_of["sealed"])
        assert [event.name for event in sealed][-2:] == ["error", "done"]
        # A dead one is sealed now.
        half = chat.messages(session_of["dead"])[-1]
        assert (half["content"], half["interrupted"]) == ("Half an", True)
        assert [event.name for event in chat.reattach(session_of["dead"])][-2:] == ["error", "done"]
        # Whoever was asked can answer; an approval that nobody used is good for its call.
        asking = session_of["asking"]
        [question] = chat.http.get(f"/chat/{asking}/confirmations").json()["confirmations"]
        denied = decide(chat, asking, question["confirmation_id"], approved=False)
        assert denied.status_code == 200
        approved = session_of["approved"]
        [approval] = (data_dir / ".mochi" / "confirmations" / approved).glob("*.asked")
        twice = decide(chat, approved, approval.stem, approved=True)
        assert twice.json()["error"]["code"] == "CONFIRMATION_ALREADY_DECIDED"
        # A turn that lives is left alone, and so is the signal to it.
        busy = chat.http.post(f"/chat/{session_of['other']}", json={"message": "?"})
        assert (busy.status_code, busy.json()["error"]["code"]) == (409, "SESSION_BUSY")
        [signal] = (data_dir / ".mochi" / "signals").iterdir()
        assert signal.name == f"{index['other']['turn_id']}.cancel"
        for name in set(session_of) - {"other"}:
            assert chat.say(session_of[name], script("on"))[-2].name == "message_complete", name
    half = chat.messages(session_of["other"])[-1]
    assert (half["content"], half["interrupted"]) == ("Half an", True)
    deadline = time.monotonic() + 60
    while list((data_dir / "chat_sessions" / ".claims").glob("*.claim")):
        assert time.monotonic() < deadline
