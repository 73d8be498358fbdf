"""Asks on a terminal whether to trust a folder, before using anything in it."""

import sys
from collections.abc import Iterator
from pathlib import Path

from mochi_project.configuration.loading import start_here
from mochi_project.configuration.variables import parse_file
from mochi_project.screen_text import printable, unseen_escaped
from mochi_project.trust.contents import ENV, MCP, PART_NAMES, FolderLayout, Part
from mochi_project.trust.decision import (
    TrustDecision,
    inherited,
    listing,
    pass_on,
    remember,
    shown,
)
from mochi_project.trust.records import TrustRecordsError
from sessions_app.store.atomic import UnreadableFileError
from tools_app.mcp.config import read_targets
from tools_app.text import shortened

_SHOWN_FILES = 8
_SHOWN_CHARACTERS = 100
_YES = {"y", "yes"}


def ask_at_start() -> None:
    """Ask about each undecided folder that the start needs, if on a terminal.

    The answer is stored; if that fails, it is valid for this start only.

    Raises:
        ConfigurationError: The settings can't be used.
    """
    if not is_on_terminal():
        return
    asked = set()
    # Again after each answer: a trusted .env may name another data folder.
    while pending := [d for d in start_here().decisions() if _is_open(d) and d.folder not in asked]:
        decision = pending[0]
        asked.add(decision.folder)
        _decide(decision, start_here().layout(decision.folder))


def is_on_terminal() -> bool:
    """Return whether stdin and stderr are a terminal."""
    # Both are None in a program without them, as under pythonw or as a service.
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def _is_open(decision: TrustDecision) -> bool:
    return not decision.answered and str(decision.folder) not in inherited()


def _decide(decision: TrustDecision, layout: FolderLayout) -> None:
    for line in _question(decision, layout):
        _say(line)
    answer = sys.stdin.readline()
    if not answer:  # end of input, not an answer
        _say("")
        return
    trusted = answer.strip().lower() in _YES
    try:
        remember(decision.folder, decision.parts, trusted=trusted)
    except TrustRecordsError as error:
        _say(f"mochi-server: warning: the answer holds for this start only: {error}")
        pass_on({str(decision.folder): trusted})


def _question(decision: TrustDecision, layout: FolderLayout) -> Iterator[str]:
    folder = shown(decision.folder)
    if decision.changed:
        changed = listing(PART_NAMES[name] for name in PART_NAMES if name in decision.changed)
        yield f"mochi-server: {changed} of the trusted folder {folder} changed meanwhile."
    else:
        yield f"mochi-server: the folder {folder} holds what can run programs or change settings:"
    for name in PART_NAMES:
        if name in (decision.changed or decision.parts):
            yield f"  {PART_NAMES[name]}: {_described(name, decision.parts[name], layout)}"
    yield "Without trust these are not used, and everything else works. Trust it? [y/N] "


def _described(name: str, part: Part, layout: FolderLayout) -> str:
    words = list(part.files)
    if name == ENV:
        words = _variables(layout.env or b"")
    elif name == MCP:
        words = _servers(layout.mcp)
    more = [f"{len(words) - _SHOWN_FILES} more"] if len(words) > _SHOWN_FILES else []
    if not part.whole:
        more = ["more than can be looked at"]
    text = listing([*words[:_SHOWN_FILES], *more]) if words or more else "empty"
    return unseen_escaped(text)


def _variables(content: bytes) -> list[str]:
    try:
        return [f"sets {name}" for name in parse_file(content)]
    except UnicodeDecodeError:
        return ["not UTF-8"]
    except OSError as error:
        return [str(error)]


def _servers(path: Path) -> list[str]:
    try:
        targets = read_targets(path)
    except (UnreadableFileError, FileNotFoundError, ValueError):
        return ["can't be read"]
    named = (f"{name} ({target})" if target else name for name, target in targets.items())
    return [shortened(server, _SHOWN_CHARACTERS) for server in named] or ["no servers"]


def _say(line: str) -> None:
    end = "" if line.endswith("] ") else "\n"
    print(printable(line), file=sys.stderr, end=end, flush=True)  # noqa: T201 - the interface of a command
