"""Sealing many dead turns: one that can't be sealed costs only itself."""

import json
import logging
from pathlib import Path

import pytest

from chat.idempotency import IdempotencyKeys
from chat.journal import line
from chat.journals.files import FileTurnJournal
from chat.recovery import TurnRecovery
from sessions_app.service import SessionManager


@pytest.mark.parametrize("broken_first", [True, False])
def test_a_journal_that_makes_no_sense_does_not_keep_other_turns_from_being_sealed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, broken_first: bool
) -> None:
    sessions = SessionManager(sessions_dir=tmp_path / "chat_sessions")
    journal = FileTurnJournal(tmp_path / "turns")
    ids = sorted(sessions.create(model="m").session_id for _ in range(2))
    broken, sound = ids if broken_first else ids[::-1]
    for session_id, payload in ((broken, {"unexpected": 1}), (sound, {"content": "text"})):
        writer = journal.open(session_id, "0199f3a2b4c50000abcd")
        writer.append(line(1, "content_delta", json.dumps(payload)))
        writer.close()

    with caplog.at_level(logging.ERROR):
        TurnRecovery(
            repository=sessions.repository,
            journal=journal,
            keys=IdempotencyKeys(tmp_path / "keys"),
        ).seal_all()

    assert journal.unended_sessions() == [broken]
    assert [record.session_id for record in caplog.records] == [broken]
