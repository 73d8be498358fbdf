"""Separates reasoning that models mark at the beginning of an answer only. Pure and incremental.

Further on these marks are text, as people ask about them (docs/decisions/0140).

- ``<seed:think>`` to ``</seed:think>``: Seed-OSS.
- ``<|channel>thought`` to ``<channel|>``: Gemma 4.
- ``<|channel|>analysis<|message|>`` to ``<|end|>``: gpt-oss, whose answer follows in the channel
  ``final``. The marks around it go, too.
"""

import re
from collections.abc import Mapping

import msgspec

_ANALYSIS = "<|channel|>analysis<|message|>"
_FINAL = "<|channel|>final<|message|>"


class _State(msgspec.Struct, frozen=True):
    """Tells whether text is reasoning, and where each mark in it leads."""

    marks: Mapping[str, str] = {}
    thinking: bool = False


_START, _OVER = "start", "over"
_STATES = {
    _START: _State(
        {
            "<seed:think>": "seed",
            "<|channel>thought\n": "gemma",
            _ANALYSIS: "analysis",
            "<|start|>assistant": _START,
            _FINAL: "final",
        }
    ),
    "seed": _State({"</seed:think>": _OVER}, thinking=True),
    "gemma": _State({"<channel|>": _OVER}, thinking=True),
    "analysis": _State({"<|end|>": "final"}, thinking=True),
    "final": _State(
        {
            "<|start|>assistant": "final",
            _FINAL: "final",
            "<|return|>": "final",
            _ANALYSIS: "analysis",
        }
    ),
    _OVER: _State(),
}
_PATTERNS = {
    name: re.compile("|".join(map(re.escape, state.marks))) for name, state in _STATES.items()
}


class OpeningMarks:
    """Reads the text of one answer, piece by piece. Call ``finish`` at its end."""

    __slots__ = ("_held", "_state")

    def __init__(self) -> None:
        self._state = _START
        self._held = ""

    @property
    def is_over(self) -> bool:
        """Return whether no mark can follow, so that all text is text."""
        return self._state == _OVER

    def is_ended_by(self, text: str) -> bool:
        """Return whether the next piece of text shows at once that no mark can follow."""
        return self._state == _START and not self._held and text[:1].isalnum()

    def feed(self, text: str) -> list[tuple[str, bool]]:
        """Take the next piece; return the parts of the text, each with whether it is reasoning."""
        text, self._held = self._held + text, ""
        parts: list[tuple[str, bool]] = []
        at = 0
        while at < len(text) and not self.is_over:
            state, is_start = _STATES[self._state], self._state == _START
            if is_start:
                begin = len(text) - len(text[at:].lstrip())
                found = _PATTERNS[_START].match(text, begin)
            else:
                begin, found = len(text), _PATTERNS[self._state].search(text, at)
            if found is not None:
                parts.append((text[at : found.start()], state.thinking))
                at, self._state = found.end(), state.marks[found[0]]
                continue
            kept = _beginning_of_mark(text, begin if is_start else at, state, is_start)
            parts.append((text[at:kept], state.thinking))
            if is_start and kept == len(text) and begin < len(text):
                self._state = _OVER
            self._held, at = text[kept:], len(text)
        parts.append((text[at:], False))
        return [part for part in parts if part[0]]

    def finish(self) -> list[tuple[str, bool]]:
        """Return what was held back. Reasoning without an end is begun anew in the next answer."""
        held, self._held = self._held, ""
        is_thinking = _STATES[self._state].thinking
        if is_thinking:
            self._state = _START
        return [(held, is_thinking)] if held else []


def _beginning_of_mark(text: str, at: int, state: _State, is_start: bool) -> int:
    """Return where a mark may begin that the text does not hold whole; its end if nowhere."""
    if is_start:
        rest = text[at:]
        return at if rest and any(mark.startswith(rest) for mark in state.marks) else len(text)
    longest = max(map(len, state.marks)) - 1
    for begin in range(max(at, len(text) - longest), len(text)):
        if any(mark.startswith(text[begin:]) for mark in state.marks):
            return begin
    return len(text)
