"""Globs over the arguments of calls: what they let through, and above all what not."""

import time
from typing import Any

import pytest

from sessions_app.policy_scope import PolicyScope


def covers(globs: dict[str, str], arguments: dict[str, Any]) -> bool:
    return PolicyScope(policy="never_confirm", arguments=globs).covers(arguments)


def fits(glob: str, value: Any) -> bool:
    return covers({"a": glob}, {"a": value})


@pytest.mark.parametrize(
    ("glob", "value"),
    [
        ("src/*", "src/app.py"),
        ("src/*", "src/deep/er/app.py"),
        ("src/?.py", "src/a.py"),
        ("*.py", "app.py"),
        ("git status", "git status"),
        ("report [1].txt", "report [1].txt"),
        ("a[!b]*", "a[!b]c"),
        ("*", "anything\nat all, also ../.."),
        ("*", ["a", {"b": 1}]),
        ("*", None),
        ("*", ""),
        ("", ""),
        ("5", 5),
        ("5*", 57),
        ("1.0", 1.0),
        ("true", True),
        ("null", None),
        ('["a","b"]', ["a", "b"]),
        ('{"a":1,"b":"ä"}', {"b": "ä", "a": 1}),
        ("../*", "../*"),
    ],
)
def test_a_value_fits(glob: str, value: Any) -> None:
    assert fits(glob, value)


@pytest.mark.parametrize(
    ("glob", "value"),
    [
        ("src/*", "/etc/src/app.py"),  # the whole text, not a part
        ("src/*", "src"),
        ("src/?.py", "src/ab.py"),
        ("SRC/*", "src/app.py"),
        ("", "a"),
        ("?", ""),
        ("[ab]", "a"),  # no other wildcards
        ("[!a]", "b"),
        ("{a,b}", "a"),
        ("src/\\*", "src/a"),
        ("5", 5.0),
        ("1", True),
        ("None", None),
        ("True", True),
    ],
)
def test_a_value_does_not_fit(glob: str, value: Any) -> None:
    assert not fits(glob, value)


@pytest.mark.parametrize(
    "path",
    [
        "src/../../etc/passwd",
        "src/..",
        "src/../",
        "src/a/..\\..\\secret",
        "src/..;/admin",
        "src/app.py\n/etc/passwd",
        "src/app.py\r",
        "src/app.py\x00.txt",
        "src/app.py\u2028rm",
        "src/\u202egpj.exe",
        "src/" + "a" * 5000,
    ],
)
def test_a_wildcard_stands_for_nothing_that_means_more_than_it_shows(path: str) -> None:
    assert not fits("src/*", path)
    assert not fits("s*", path)
    assert fits(path, path)  # but what was named whole is itself


@pytest.mark.parametrize(
    ("glob", "value"),
    [
        ('["src/*"]', ["src/a", "/etc/passwd"]),
        ('["src/*"]', ["src/a"]),
        ('{"path":"src/*"}', {"path": "src/a", "mode": "rm"}),
        ("*src*", ["src/a"]),
        ("[*", ["src/a"]),
        ("src/*", ["src/a"]),
        ("src/*", {"src/a": 1}),
    ],
)
def test_a_wildcard_does_not_reach_into_lists_and_objects(glob: str, value: Any) -> None:
    assert not fits(glob, value)


def test_all_named_arguments_must_be_there_and_fit() -> None:
    globs = {"path": "src/*", "mode": "w"}
    assert covers(globs, {"path": "src/a", "mode": "w", "text": "anything"})
    assert not covers(globs, {"path": "src/a", "mode": "x"})
    assert not covers(globs, {"path": "src/a"})  # the tool's default is not looked at
    assert not covers(globs, {"path": "etc/a", "mode": "w"})
    assert not covers({"path": "*"}, {})
    assert not covers({"path": "null"}, {})


def test_a_scope_without_arguments_covers_nothing() -> None:
    assert not covers({}, {})
    assert not covers({}, {"path": "a"})


def test_a_glob_of_many_wildcards_takes_no_time() -> None:
    begun = time.perf_counter()
    for _ in range(10):
        assert not fits("*a" * 100, "a" * 4095 + "b")
        assert not fits("*?a" * 66, "a" * 4095 + "b")
    assert time.perf_counter() - begun < 5
