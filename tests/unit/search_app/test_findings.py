"""The doctor says what state the index of the search is in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mochi_project.app import Services, build_services
from mochi_project.configuration.loading import MochiSettings
from mochi_project.console.findings import Finding
from search_app.findings import search_finding
from search_app.service import SessionSearch
from search_app.services import index_path
from sessions_app.service import SessionManager


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    services = build_services(MochiSettings(data_dir=tmp_path))
    yield services
    services.get(SessionSearch).updater.close()


def test_the_doctor_says_what_state_the_index_is_in(services: Services) -> None:
    def finding(state: str, detail: str) -> Finding:
        return Finding("search", state, detail)  # type: ignore[arg-type]

    assert search_finding(services) == finding("ok", "no index yet; the first search makes one")
    services.get(SessionSearch).updater.fill()
    assert search_finding(services) == finding("ok", "there is an index; it has all sessions")
    services.get(SessionManager).create("qwen3:14b")
    missing = "there is an index; sessions that are not in it yet: 1"
    assert search_finding(services) == finding("ok", missing)
    path = index_path(services.get(MochiSettings))
    path.write_bytes(b"broken")
    broken = f"the index can't be used, so sessions are read; {path} may be deleted"
    assert search_finding(services) == finding("note", broken)
