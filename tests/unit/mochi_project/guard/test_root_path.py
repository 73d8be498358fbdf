"""The path below which a proxy offers the server: whose word counts, and what it changes."""

from typing import Any

import pytest

from mochi_project.guard.proxies import TrustedProxies
from mochi_project.guard.root_path import RootPath

PROXY = ("10.0.0.1", 1)


def applied(
    path: str, *prefixes: str, configured: str = "", peer: Any = PROXY, root_path: str = ""
) -> tuple[str, str]:
    headers = [(b"x-forwarded-prefix", prefix.encode()) for prefix in prefixes]
    scope = {"type": "http", "path": path, "headers": headers, "client": peer}
    if root_path:
        scope["root_path"] = root_path
    found = RootPath(configured, TrustedProxies(["10.0.0.1"])).applied_to(scope)
    return found["path"], found.get("root_path", "")


@pytest.mark.parametrize("path", ["/api/v1/docs", "/mochi/api/v1/docs"])
def test_a_proxy_may_leave_the_path_in_or_take_it_away(path: str) -> None:
    assert applied(path, configured="/mochi") == ("/mochi/api/v1/docs", "/mochi")
    assert applied(path, "/mochi/", configured="/mochi") == ("/mochi/api/v1/docs", "/mochi")


def test_a_header_makes_no_path_another_one() -> None:
    """A proxy that lets everybody use /public may pass on a client's header."""
    assert applied("/api/v1/docs", "/mochi/") == ("/mochi/api/v1/docs", "/mochi")
    assert applied("/public/api/v1/sessions", "/public") == (
        "/public/public/api/v1/sessions",
        "/public",
    )
    assert applied("/public/api/v1/sessions", "/public", configured="/mochi") == (
        "/public/public/api/v1/sessions",
        "/public",
    )


def test_a_longer_name_is_not_that_path() -> None:
    assert applied("/mochis", configured="/mochi") == ("/mochi/mochis", "/mochi")


def test_the_header_wins_over_the_setting() -> None:
    assert applied("/x", "/there", configured="/here") == ("/there/x", "/there")


def test_an_application_that_mounts_this_one_comes_after_the_proxys_path() -> None:
    assert applied("/mount/x", "/a", root_path="/mount") == ("/a/mount/x", "/a/mount")


@pytest.mark.parametrize("peer", [("10.0.0.2", 1), None])
def test_nobody_else_is_believed(peer: Any) -> None:
    assert applied("/x", "/mochi", peer=peer) == ("/x", "")


@pytest.mark.parametrize(
    "prefix",
    ["", "/", "//evil.example", "mochi", "/a//b", '/"><script>', "/a b", "/" + "a" * 300, "/api"],
)
def test_what_is_no_path_is_not_taken(prefix: str) -> None:
    assert applied("/x", prefix) == ("/x", "")


def test_two_prefixes_are_none() -> None:
    assert applied("/x", "/a", "/b") == ("/x", "")


def test_requests_are_left_as_they_are_where_no_path_is_set() -> None:
    scope: dict[str, Any] = {"type": "http", "path": "/x", "headers": []}

    assert RootPath("", TrustedProxies([])).applied_to(scope) is scope
