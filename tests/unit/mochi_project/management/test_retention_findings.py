"""What ``mochi-server doctor`` says of sessions that would be deleted."""

from types import SimpleNamespace

import pytest

from agents_app.sweeping import SessionSweep
from mochi_project.management.retention_findings import retention_finding
from sessions_app.retention import DueSessions
from sessions_app.session import SessionMetadata
from sessions_app.settings import SessionsSettings
from tests.services import services_of

OLD = SessionMetadata(
    session_id="a1b2c3d4e5",
    model="m",
    created_at="2024-01-01T00:00:00.000000+00:00",
    updated_at="2024-01-01T00:00:00.000000+00:00",
)


@pytest.mark.parametrize(
    ("days", "due", "state", "words"),
    [
        (0, DueSessions(total=3), "ok", "kept for ever; none is due"),
        (30, DueSessions(total=3), "ok", "for 30 days after their last change; none is due"),
        (0, DueSessions(refused=[OLD], total=3), "ok", "of 3 sessions will be deleted: 1 made for"),
        (
            30,
            DueSessions(expired=[OLD], total=3),
            "ok",
            "1 not changed for 30 days, since 2024-01-01",
        ),
        (
            30,
            DueSessions(expired=[OLD], waiting=7, total=9),
            "note",
            "at first, 7 more in the next days",
        ),
    ],
)
def test_it_is_said_what_would_go(days: int, due: DueSessions, state: str, words: str) -> None:
    services = services_of(
        {
            SessionsSettings: SimpleNamespace(session_retention_days=days),
            SessionSweep: SimpleNamespace(due=lambda: due),
        }
    )
    finding = retention_finding(services)
    assert (finding.check, finding.state) == ("retention", state)
    assert words in finding.detail
