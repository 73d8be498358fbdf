"""Defines system prompts, and the rules for their names and contents. Pure: reads no file."""

import re
from typing import Self

import msgspec

from sessions_app.errors import ValidationFailed
from sessions_app.http.wire_patterns import PROMPT_FILE
from sessions_app.text_rules import require_prompt

PREVIEW_LENGTH = 100

_FILENAME = re.compile(str(PROMPT_FILE["pattern"]))
_ELLIPSIS = "..."


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """Represents a system prompt: the name of its file, and the whole text."""

    filename: str
    content: str


class PromptSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Represents a prompt in a list.

    Attributes:
        filename: The name of its file.
        preview: The beginning of the text on one line, 100 characters at most.
        word_count: How many words the whole text has.
    """

    filename: str
    preview: str
    word_count: int

    @classmethod
    def of(cls, prompt: Prompt) -> Self:
        """Summarize the prompt."""
        words = prompt.content.split()
        return cls(filename=prompt.filename, preview=_preview(words), word_count=len(words))


def is_filename(name: str) -> bool:
    """Return whether a prompt's file may have this name."""
    return len(name) <= 100 and _FILENAME.fullmatch(name) is not None


def validate_filename(filename: str) -> None:
    """Refuse a name that no prompt may have. Names are refused, never repaired.

    Raises:
        ValidationFailed: With ``field`` ``"filename"``.
    """
    if not is_filename(filename):
        raise ValidationFailed(
            "A prompt's filename is 1 to 100 ASCII letters, digits, '_', '.' and '-', starts with "
            "a letter or digit, and ends in '.md' or '.txt'.",
            field="filename",
        )


def validate_content(content: str) -> None:
    """Refuse a text that can't be a system prompt.

    Raises:
        ValidationFailed: Blank, 10,000 characters or longer, or not encodable as UTF-8; with
            ``field`` ``"content"``.
    """
    if not content.strip():
        raise ValidationFailed("A system prompt needs some text.", field="content")
    require_prompt(content, field="content")
    if any("\ud800" <= character <= "\udfff" for character in content):
        raise ValidationFailed(
            "The text holds half of a surrogate pair, which is not a character.", field="content"
        )


def _preview(words: list[str]) -> str:
    text = " ".join(words)
    is_whole = len(text) <= PREVIEW_LENGTH
    return text if is_whole else text[: PREVIEW_LENGTH - len(_ELLIPSIS)] + _ELLIPSIS
