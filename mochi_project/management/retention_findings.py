"""Reports for ``mochi-server doctor`` which sessions are past their retention."""

from agents_app.sweeping import SessionSweep
from mochi_project.app import Services
from mochi_project.console.findings import Finding
from sessions_app.settings import SessionsSettings


def retention_finding(services: Services) -> Finding:
    """Report what the next sweep would delete; deletes nothing.

    Raises:
        StorageError: The store can't be asked.
    """
    days, due = (
        services.get(SessionsSettings).session_retention_days,
        services.get(SessionSweep).due(),
    )
    parts = []
    if due.refused:
        parts.append(f"{len(due.refused)} made for requests that were refused")
    if due.expired:
        oldest = due.expired[0].updated_at[:10]
        parts.append(f"{len(due.expired)} not changed for {days} days, since {oldest} at first")
    kept = f"for {days} days after their last change" if days else "for ever"
    if not parts:
        return Finding("retention", "ok", f"sessions are kept {kept}; none is due")
    waiting = f", {due.waiting} more in the next days" if due.waiting else ""
    detail = f"of {due.total} sessions will be deleted: {'; '.join(parts)}{waiting}"
    return Finding("retention", "note" if due.waiting else "ok", detail)
