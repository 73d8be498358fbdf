r"""Removes thinking, end markers and control characters from a model's streamed text.

Surrogate pairs are joined, too: a provider that counts in UTF-16 may stream ``"\ud83d"`` and
``"\ude00"`` in two chunks. A lone surrogate becomes U+FFFD.

Pure and incremental: the result is the same however the text is cut into chunks. Both outputs hold
neither ``<think>``, ``<thinking>``, ``<thought>``, ``<reasoning>``, ``[THINK]`` and their closing
tags (in any case), nor the end marker ``␄``, nor control characters but newline and tab, nor halves
of surrogate pairs; this is true of the pieces joined together too.

- A block counts anywhere, not only at the start: models reason again after a tool call. So an
  answer that *explains* the tag loses it, in code too; no parser can tell the two apart in mid-
  stream, and a front end that shows reasoning as an answer is the worse mistake
  (docs/decisions/0007).
- A block that is never closed is thinking to its end.
- A closing tag without a block goes; the text before it stays text (it has been sent already).
- Tags do not nest: the first closing tag ends the block.
- Other marks count at the beginning of an answer only (``models_app.opening_marks``).
- What removing a tag or a character joins together is looked at again, so that nothing can be
  hidden in pieces (``<th<think>ink>``).
"""

import re
from collections.abc import Sequence

from models_app.opening_marks import OpeningMarks
from sessions_app.surrogates import REPLACEMENT, join_surrogates

END_MARKER = "␄"

_NAMES = ("<think>", "<thinking>", "<thought>", "<reasoning>", "[think]")
_OPENS = {
    **dict.fromkeys(_NAMES, True),
    **{f"{name[0]}/{name[1:]}": False for name in _NAMES},
}
_BRACKETS = "<["
_bracket = re.compile(r"[<\[]")
_BEGINNINGS = frozenset(tag[:end] for tag in _OPENS for end in range(1, len(tag)))
_STRIPPED = rf"\x00-\x08\x0b-\x1f\x7f-\x9f{END_MARKER}"
_unclean = re.compile(rf"[{_STRIPPED}]+")
# A bracket is suspect only where a tag may follow or the text ends. The leading class of characters
# lets the search skip clean text at full speed: the whole clean chunk costs about 0.1 us.
_is_suspect = re.compile(rf"[<\[{_STRIPPED}\ud800-\udfff](?:(?<![<\[])|(?=[/tTrR])|\Z)").search


class WholeCharacters:
    """Joins surrogate pairs across the chunks of one text, and replaces lone surrogates.

    Attributes:
        half: The first half of a pair, held until the next chunk shows whether the second follows.
    """

    __slots__ = ("half",)

    def __init__(self) -> None:
        self.half = ""

    def feed(self, text: str) -> str:
        """Take the next chunk; return the whole characters."""
        text = self.half + text
        self.half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return join_surrogates(text[:-1] if self.half else text)

    def finish(self) -> str:
        """Return the replacement of a held half, and reset."""
        lone, self.half = self.half, ""
        return REPLACEMENT if lone else ""


class StreamCleaner:
    """Cleans one answer, chunk by chunk. Call ``finish`` at its end."""

    __slots__ = (
        "_held_text",
        "_held_thinking",
        "_is_plain",
        "_opening",
        "_own_thinking",
        "_text",
        "_thinking",
    )

    def __init__(self) -> None:
        self._is_plain = False  # clean text can pass: it is in no block, and nothing is held
        self._opening: OpeningMarks | None = OpeningMarks()  # until its marks can't follow
        self._thinking = False
        self._text = WholeCharacters()
        self._own_thinking = WholeCharacters()
        # What may become a tag: its beginnings, outermost first. Each channel has its own, for a
        # tag's two halves may lie before and after a block.
        self._held_text: list[str] = []
        self._held_thinking: list[str] = []

    def passes(self, text: str) -> bool:
        """Return whether a piece of the answer's text is clean as it is, and need not be fed."""
        if not self._is_plain:
            return False
        if text.isprintable() and "<" not in text and "[" not in text and END_MARKER not in text:
            return True  # control characters and surrogates are not printable
        return not _is_suspect(text)

    def feed_text(self, text: str) -> tuple[str, str]:
        """Take the next piece of the answer's text; return the clean (text, thinking) in it."""
        if self._opening is not None:
            if self._text.half or not self._opening.is_ended_by(text):
                return self._feed_opening(self._opening, text)
            self._opening, self._is_plain = None, True
        if not _is_suspect(text):
            if self._is_plain:
                return text, ""
            if self._thinking and not self._held_thinking and not self._text.half:
                return "", text
        parts = self._split(_unclean.sub("", self._text.feed(text)))
        self._is_plain = not (self._thinking or self._held_text or self._text.half)
        return parts

    def _feed_opening(self, opening: OpeningMarks, text: str) -> tuple[str, str]:
        cleaned = self._without_marks(opening.feed(_unclean.sub("", self._text.feed(text))))
        if opening.is_over:
            self._opening = None
            self._is_plain = not (self._thinking or self._held_text or self._text.half)
        return cleaned

    def _without_marks(self, parts: Sequence[tuple[str, bool]]) -> tuple[str, str]:
        """Return the text and the thinking of parts that the opening marks separate."""
        clean, thought = "", ""
        for part, is_thinking in parts:
            said, mused = ("", self._without_tags(part)) if is_thinking else self._split(part)
            clean, thought = clean + said, thought + mused
        return clean, thought

    def feed_thinking(self, text: str) -> str:
        """Take the next piece that the provider itself marks as thinking; return it clean.

        Tags in it are removed and do not affect the answer's text.
        """
        held = self._held_thinking
        if not held and not _is_suspect(text) and not self._own_thinking.half:
            return text
        text = _unclean.sub("", self._own_thinking.feed(text))
        return self._without_tags(text)

    def _without_tags(self, text: str) -> str:
        """Return thinking without tags, up to a possible beginning of one at its end."""
        held = self._held_thinking
        out: list[str] = []
        at = 0
        while at < len(text):
            at, _ = _until_tag(text, at, held, out)
        return "".join(out)

    def finish(self) -> tuple[str, str]:
        """Return the (text, thinking) that was held back, and reset."""
        lone = self._text.finish()
        if self._opening is None:
            text, thinking = self._split(lone)
        else:
            parts = [*self._opening.feed(lone), *self._opening.finish()]
            text, thinking = self._without_marks(parts)
            self._opening = None if self._opening.is_over else self._opening
        thinking += self._without_tags(self._own_thinking.finish())
        text += "".join(self._held_text)
        thinking += "".join(self._held_thinking)
        self._thinking = False
        self._held_text.clear()
        self._held_thinking.clear()
        self._is_plain = self._opening is None
        return text, thinking

    def _split(self, text: str) -> tuple[str, str]:
        clean: list[str] = []
        thought: list[str] = []
        at = 0
        while at < len(text):
            held, out = (
                (self._held_thinking, thought) if self._thinking else (self._held_text, clean)
            )
            at, opens = _until_tag(text, at, held, out)
            if opens is not None:
                self._thinking = opens
        return "".join(clean), "".join(thought)


def _until_tag(text: str, at: int, held: list[str], out: list[str]) -> tuple[int, bool | None]:
    """Move text into ``out`` until a tag is complete.

    Args:
        text: Text without control characters.
        at: The offset to start at.
        held: The beginnings of tags so far; changed.
        out: Receives the clean text.

    Returns:
        Where it stopped, and what the tag does: True opens a block, False closes one, None means
        that the text came to its end first.
    """
    while at < len(text):
        if not held:
            found = _bracket.search(text, at)
            if found is None:
                out.append(text[at:])
                return len(text), None
            out.append(text[at : found.start()])
            held.append(found[0])
            at = found.end()
            continue
        character = text[at]
        at += 1
        candidate = held[-1] + character
        known = candidate.lower()
        if known in _OPENS:
            held.pop()
            return at, _OPENS[known]
        if known in _BEGINNINGS:
            held[-1] = candidate
        elif character in _BRACKETS:
            held.append(character)
        else:
            out += held
            out.append(character)
            held.clear()
    return at, None
