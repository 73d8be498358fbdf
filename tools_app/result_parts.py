"""Reads a part of a long result: lines, bytes, or what a regular expression finds.

Runs in a short-lived process, since a pattern can take for ever.
"""

import json
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from sessions_app.short_process import limit_resources

MOST_BYTES = 48 * 1024
MOST_MATCHES = 200
PATTERN_SECONDS = 1.0

_ROOM = MOST_BYTES - 300  # for what is said of the part
_LONG_LINE = 1000  # characters; of a longer one, what is around each match is shown
_BESIDE = 200


class Unreadable(Exception):
    """There is no such part; the message says what to change."""


def main() -> None:
    """Answer a question, the first line of standard input, about the text in the others."""
    limit_resources()
    question = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read()
    if "search" in question:
        signal.setitimer(signal.ITIMER_PROF, PATTERN_SECONDS)  # which ends the process
    try:
        answer = {"part": part_of(data, question)}
    except Unreadable as error:
        answer = {"fault": str(error)}
    except MemoryError:
        answer = {"fault": "This takes too much memory: use a simpler pattern, or from_byte."}
    json.dump(answer, sys.stdout)


def part_of(data: bytes, question: Mapping[str, Any]) -> str:
    """Return a part of a text (UTF-8), and which part of how much it is.

    Args:
        data: The text.
        question: ``search`` and ``context``, ``from_byte`` and ``bytes``, or ``from_line`` and
            ``lines``.

    Raises:
        Unreadable: It has no such part, or the pattern is invalid.
    """
    if "search" in question:
        return _search(data.decode(), question["search"], question["context"])
    if "from_byte" in question:
        return _bytes(data, question["from_byte"], question["bytes"])
    return _lines(data, question["from_line"], question["lines"])


def _bytes(data: bytes, start: int, count: int) -> str:
    if start >= len(data):
        raise Unreadable(f"from_byte must be less than {len(data)}, the size of the result.")
    end = min(start + min(count, _ROOM), len(data))
    text = data[start:end].decode("utf-8", errors="ignore")
    return f"{text}\n[Bytes {start:,} to {end:,} of {len(data):,}.]"


def _lines(data: bytes, first: int, count: int) -> str:
    lines = data.removesuffix(b"\n").split(b"\n")
    if first > len(lines):
        raise Unreadable(f"from_line must be at most {len(lines)}: the result has no more lines.")
    shown, room = 0, _ROOM
    for line in lines[first - 1 : first - 1 + count]:
        room -= len(line) + 1
        if room < 0:
            break
        shown += 1
    if not shown:  # one line fills the answer
        start = sum(len(line) + 1 for line in lines[: first - 1])
        return f"{_bytes(data, start, len(lines[first - 1]))}\n[Go on with from_byte.]"
    last = first + shown - 1
    text = b"\n".join(lines[first - 1 : last]).decode()
    more = f" Go on with from_line {last + 1}." if room < 0 else ""
    return f"{text}\n[Lines {first:,} to {last:,} of {len(lines):,}.{more}]"


def _search(text: str, pattern: str, context: int) -> str:
    lines = text.removesuffix("\n").split("\n")
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise Unreadable(f"search is not a regular expression of Python: {error}.") from error
    matches = list(islice(_matches(lines, compiled), MOST_MATCHES + 1))
    if not matches:
        return "[Nothing matches.]"
    return _shown(lines, dict(matches[:MOST_MATCHES]), context, is_all=len(matches) <= MOST_MATCHES)


def _matches(
    lines: Sequence[str], pattern: "re.Pattern[str]"
) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield what to show of each match, by the number of its line and its place there."""
    first, place = 0, 0  # of a line: its index, and its place in bytes
    for number, line in enumerate(lines, 1):
        if len(line) <= _LONG_LINE:
            if pattern.search(line):
                yield (number, 0), f"{number}: {line}"
            continue
        for match in pattern.finditer(line):
            place += sum(len(each.encode()) + 1 for each in lines[first : number - 1])
            first = number - 1
            start, end = match.start(), min(match.end(), match.start() + _LONG_LINE)
            byte = place + len(line[:start].encode())
            words = line[max(start - _BESIDE, 0) : end + _BESIDE]
            yield (number, start), f"{number} (byte {byte}): ...{words}..."


def _shown(
    lines: Sequence[str], matches: Mapping[tuple[int, int], str], context: int, *, is_all: bool
) -> str:
    """Return the matches, between the lines around them, as far as there is room."""
    entries = dict(matches)
    matched = {number for number, _ in matches}
    for number in matched if context else ():
        for near in range(max(number - context, 1), min(number + context, len(lines)) + 1):
            if near not in matched:
                entries[near, 0] = f"{near}- {lines[near - 1][:_LONG_LINE]}"
    parts, room, before = [], _ROOM, None
    for number, place in sorted(entries):
        entry = entries[number, place]
        if context and before is not None and number > before + 1:
            entry = f"--\n{entry}"
        room -= len(entry.encode()) + 1
        if room < 0:
            break
        parts.append(entry)
        before = number
    if is_all and room >= 0:
        return "\n".join([*parts, f"[Matches: {len(matches)}.]"])
    parts.append("[There are more matches: search for something rarer, or read these lines.]")
    return "\n".join(parts)
