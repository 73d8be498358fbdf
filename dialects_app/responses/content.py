"""Parses the content of input items: text, or parts of text. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dialects_app.shared.fields import refuse, required
from dialects_app.shared.files import FILE_PARTS, GivenFile, given_file

TEXT_PARTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
_NOT_TAKEN = {
    "input_image": "Images can't be taken here, only text.",
    "input_file": "Files can't be taken here, only text.",
    "computer_screenshot": "Screenshots can't be sent to this server: send an 'input_image'.",
    "input_audio": "Audio can't be sent to this server.",
}
_SHOWN = 40
"""Characters of what a client sent that an error repeats."""


def text_of(content: Any, path: str, *, between: str = "\n") -> str:
    """Return the text of an item's content.

    Args:
        content: The text itself, or a list of parts.
        path: Its path in the request.
        between: The separator of parts.

    Raises:
        ValidationFailed: It has other content.
    """
    if content is None:
        refuse(path, f"Missing required parameter: '{path}'.")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        refuse(path, "Text or a list of content parts is wanted here.")
    return between.join(_part(part, f"{path}[{at}]") for at, part in enumerate(content))


def texts_and_files_of(content: Any, path: str) -> tuple[Sequence[str], Sequence[GivenFile]]:
    """Return the texts of an item's content, one for each part, and its images and files.

    Raises:
        ValidationFailed: It has other content.
    """
    if not isinstance(content, list):
        return [text_of(content, path)], ()
    texts: list[str] = []
    files: list[GivenFile] = []
    for at, part in enumerate(content):
        place = f"{path}[{at}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind in FILE_PARTS:
            files.append(given_file(part, place))
        else:
            texts.append(_part(part, place))
    return texts, files


def _part(part: Any, path: str) -> str:
    if not isinstance(part, dict):
        refuse(path, "A content part is an object.")
    kind = "input_text" if part.get("type") is None else part["type"]
    if isinstance(kind, str) and kind in _NOT_TAKEN:
        refuse(f"{path}.type", _NOT_TAKEN[kind])
    if kind == "refusal":
        return required(part, "refusal", path)
    if not isinstance(kind, str) or kind not in TEXT_PARTS:
        refuse(f"{path}.type", f"Content parts of the type {shown(kind)} are not taken.")
    return required(part, "text", path)


def read_each(
    parts: Any, path: str, read: Callable[[Mapping[str, Any], str], str]
) -> Sequence[str]:
    """Apply ``read`` to each object of a list, which may be null.

    Raises:
        ValidationFailed: It is not a list of objects.
    """
    if parts is None:
        return ()
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        refuse(path, "A list of objects is wanted here.")
    return [read(part, f"{path}[{at}]") for at, part in enumerate(parts)]


def shown(value: object) -> str:
    """Return a client's value as quoted in errors."""
    return repr(value if not isinstance(value, str) else value[:_SHOWN])[: _SHOWN + 2]
