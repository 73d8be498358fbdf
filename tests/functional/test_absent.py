"""A test is skipped for want of a program or the network, but never on CI."""

import subprocess

import pytest

from tests.functional.absent import program, require_packages

OFFLINE = subprocess.CompletedProcess([], 2, "", "error: dns error: failed to look up")


def test_what_is_missing_skips_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)

    with pytest.raises(pytest.skip.Exception, match="no-such-program"):
        program("no-such-program")
    with pytest.raises(pytest.skip.Exception, match="network"):
        require_packages(OFFLINE)


def test_what_ci_misses_fails_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")

    with pytest.raises(AssertionError, match="no-such-program"):
        program("no-such-program")
    with pytest.raises(AssertionError, match="network"):
        require_packages(OFFLINE)


def test_another_failure_of_an_installer_fails_a_test() -> None:
    with pytest.raises(AssertionError, match="no such package"):
        require_packages(subprocess.CompletedProcess([], 1, "", "no such package"))
