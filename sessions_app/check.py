"""Finds sessions that can't be read, by reading every one."""

from collections.abc import Sequence

import msgspec

from sessions_app.errors import SessionCorrupt, SessionNotFound
from sessions_app.store.repository import SessionRepository, Unreadable


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading every session: the number of files, and those that can't be read."""

    checked: int
    problems: Sequence[Unreadable]


def check_sessions(repository: SessionRepository) -> CheckReport:
    """Read every session completely, and report those that can't be read. Blocks."""
    listing = repository.list(anew=True)
    problems = list(listing.unreadable)
    for metadata in listing.sessions:
        try:
            repository.load(metadata.session_id)
        except SessionNotFound:
            continue  # deleted since
        except SessionCorrupt as error:
            problems.append(Unreadable(file=f"{metadata.session_id}.json", reason=error.reason))
    return CheckReport(
        checked=len(listing.sessions) + len(listing.unreadable), problems=tuple(problems)
    )
