"""Checks the search index for ``mochi-server doctor``."""

from mochi_project.app import Services
from mochi_project.configuration.app_settings import AppSettings
from mochi_project.console.findings import Finding
from mochi_project.screen_text import printable
from search_app.service import SessionSearch
from search_app.services import index_path


def search_finding(services: Services) -> Finding:
    """Report whether the search has an index, and how much is missing in it.

    Raises:
        StorageError: The sessions can't be listed.
    """
    path = index_path(services.get(AppSettings))
    state, missing = services.get(SessionSearch).state()
    if state != "scan":
        lacks = (
            f"sessions that are not in it yet: {missing:,}" if missing else "it has all sessions"
        )
        return Finding("search", "ok", f"there is an index; {lacks}")
    if not path.exists():
        return Finding("search", "ok", "no index yet; the first search makes one")
    return Finding(
        "search",
        "note",
        printable(f"the index can't be used, so sessions are read; {path} may be deleted"),
    )
