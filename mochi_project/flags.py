"""Points out misspelt flags of the command line. Imports nothing that a start would wait for."""

import argparse
import re
from collections.abc import Callable, Collection, Iterator, Sequence

ALIKE = 0.6
END_OF_FLAGS = "--"
_SHOWN = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def check_flags(
    parser: argparse.ArgumentParser,
    words: Sequence[str],
    *,
    action: argparse.ArgumentParser | None = None,
    hidden: Collection[str] = (),
    of_program: Callable[[], Collection[str]] = tuple,
) -> None:
    """Refuse a flag that is not there, and say which one may be meant; else do nothing.

    Args:
        parser: The parser of the words, which ends the process.
        words: What was typed.
        action: The parser of the action that is named among them.
        hidden: Flags that are accepted, and that no help shows.
        of_program: Returns the flags that stand before the command.
    """
    shown = {flag for each in (parser, action) if each is not None for flag in flags_of(each)}
    for flag in _typed(words):
        if any(one.startswith(flag) for one in (*shown, *hidden)):  # argparse takes abbreviations
            continue
        if flag in of_program():
            program, _, command = parser.prog.partition(" ")
            parser.error(f"{flag} comes before the command: {program} {flag} ... {command} ...")
        parser.error(f"there is no flag {flag}{_hint(flag, shown, parser)}")


def flags_of(parser: argparse.ArgumentParser) -> Sequence[str]:
    """Return the flags that help shows: argparse has no other public list of them."""
    return _SHOWN.findall(f"{parser.format_usage()}\n{parser.format_help()}")


def _typed(words: Sequence[str]) -> Iterator[str]:
    """Yield the long flags among words, without their values."""
    for word in words:
        if word == END_OF_FLAGS:
            return
        if word.startswith("--") and " " not in word:  # what has blanks is a text, for argparse too
            yield word.partition("=")[0]


def _hint(flag: str, names: Collection[str], parser: argparse.ArgumentParser) -> str:
    from sessions_app.suggestions import suggestion  # noqa: PLC0415 - only after a mistake

    return suggestion(flag, names, similarity=ALIKE) or f"; `{parser.prog} --help` lists them"
