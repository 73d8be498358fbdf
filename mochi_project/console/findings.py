"""Declares what a check of ``mochi-server doctor`` found."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.screen_text import printable
from sessions_app.errors import MochiError

State = Literal["ok", "note", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; ``broken`` means that the server can't work."""

    check: str
    state: State
    detail: str


Found = Finding | Iterable[Finding]


async def findings_of(check: str, find: Callable[[], Found | Awaitable[Found]]) -> list[Finding]:
    """Return what a check, run in a thread, finds and, if it fails, why; never raises that."""
    findings: list[Finding] = []
    try:
        found = await asyncio.to_thread(find)
        if isinstance(found, Awaitable):
            found = await found
        await asyncio.to_thread(findings.extend, [found] if isinstance(found, Finding) else found)
    except (MochiError, ConfigurationError) as error:
        findings.append(Finding(check, "broken", printable(str(error))))
    except Exception as error:  # noqa: BLE001 - reported
        detail = f"this could not be checked: {type(error).__name__}: {error}"
        if isinstance(error, OSError) and error.filename is not None:
            detail = f"{error.filename}: {error.strerror}"
        findings.append(Finding(check, "broken", printable(detail)))
    return findings
