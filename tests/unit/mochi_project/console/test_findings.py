"""A check that fails is a finding, and those before it stay."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.console.findings import Finding, findings_of
from sessions_app.errors import StorageUnavailable

GOOD = Finding("disk", "ok", "there is room")
FAILURES = [
    (StorageUnavailable("It is away."), "It is away."),
    (ConfigurationError("MOCHI_DATA_DIR is wrong"), "MOCHI_DATA_DIR is wrong"),
    (NotADirectoryError(20, "Not a directory", "/data"), "/data: Not a directory"),
    (OSError("the cable"), "this could not be checked: OSError: the cable"),
    (KeyError("x"), "this could not be checked: KeyError: 'x'"),
]


async def test_a_check_returns_one_finding_or_yields_several() -> None:
    assert await findings_of("disk", lambda: GOOD) == [GOOD]
    assert await findings_of("disk", lambda: iter([GOOD, GOOD])) == [GOOD, GOOD]


@pytest.mark.parametrize(("error", "detail"), FAILURES)
async def test_a_check_that_breaks_off_is_broken_and_what_it_found_stays(
    error: Exception, detail: str
) -> None:
    def check() -> Iterator[Finding]:
        yield GOOD
        raise error

    assert await findings_of("disk", check) == [GOOD, Finding("disk", "broken", detail)]


@pytest.mark.parametrize(("error", "detail"), FAILURES)
async def test_so_is_one_that_is_waited_for(error: Exception, detail: str) -> None:
    async def check() -> list[Finding]:
        raise error

    async def good() -> Finding:
        return GOOD

    assert await findings_of("disk", check) == [Finding("disk", "broken", detail)]
    assert await findings_of("disk", good) == [GOOD]


async def test_a_check_that_blocks_does_not_hold_up_what_runs_beside_it() -> None:
    beside = threading.Event()

    def check() -> Iterator[Finding]:
        is_set = beside.wait(20)
        yield Finding("disk", "ok" if is_set else "broken", "checked")

    asyncio.get_running_loop().call_later(0, beside.set)

    assert await findings_of("disk", check) == [Finding("disk", "ok", "checked")]
