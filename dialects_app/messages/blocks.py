"""Converts the blocks of a message's content to texts, images and files. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dialects_app.messages.body import Block, Blocks
from dialects_app.shared.fields import refuse, required
from dialects_app.shared.files import GivenFile, source_of

_FILES = frozenset({"image", "document"})
_SILENT = frozenset({"thinking", "redacted_thinking"})
"""Blocks that are read elsewhere, or that only their maker can read."""


class Content(msgspec.Struct, frozen=True):
    """The content of a message, or of a tool's result.

    Attributes:
        texts: Its texts, in order.
        files: Its images and files.
        references: The tools that may be called from now on.
        left_out: A warning for each block that was left out.
    """

    texts: list[str]
    files: list[GivenFile]
    references: list[str]
    left_out: list[str]

    @property
    def text(self) -> str:
        """Return the texts, with blank lines between them."""
        return "\n\n".join(text for text in self.texts if text)


def read_content(content: Blocks | None, path: str, *, but: Sequence[str] = ()) -> Content:
    """Return what a content holds.

    Args:
        content: A text, or blocks.
        path: Its path in the request.
        but: The types of blocks that the caller reads itself.

    Raises:
        ValidationFailed: A block is invalid; ``field`` is its path.
    """
    found = Content([], [], [], [])
    if isinstance(content, str):
        found.texts.append(content)
        return found
    for index, block in enumerate(content or ()):
        kind, place = block.get("type"), f"{path}[{index}]"
        if not isinstance(kind, str):
            refuse(f"{place}.type", f"Missing required parameter: '{place}.type'.")
        if kind in _FILES:
            _read_file(block, kind, place, found)
        elif kind == "tool_reference":
            name = required(block, "tool_name", place)
            found.references.append(name)
            found.texts.append(f"Tool {name} can be called now.")
        elif kind not in but and kind not in _SILENT:
            _read_text(block, kind, place, found)
    return found


def _read_text(block: Block, kind: str, path: str, found: Content) -> None:
    if kind == "text":
        found.texts.append(required(block, "text", path))
    elif kind == "search_result":
        inner = _inner(block.get("content"), f"{path}.content", found)
        found.texts.append(_labelled(block, inner.text))
    elif kind == "server_tool_use":
        called = json.dumps(block.get("input"), ensure_ascii=False)
        found.texts.append(f"[called {block.get('name')} with {called}]")
    elif kind.endswith("_tool_result"):
        result = json.dumps(block.get("content"), ensure_ascii=False)
        found.texts.append(f"[result: {result}]")
    else:
        found.left_out.append(f"{path}: a block of the type {kind[:40]!r} is left out")


def _read_file(block: Block, kind: str, path: str, found: Content) -> None:
    """Read an image or a document, which may be a text."""
    source, path = block.get("source"), f"{path}.source"
    if not isinstance(source, Mapping):
        refuse(path, f"Missing required parameter: '{path}'.")
    form, is_image = source.get("type"), kind == "image"
    name = block.get("title")
    if form == "text" and not is_image:
        found.texts.append(_labelled(block, required(source, "data", path)))
    elif form == "content" and not is_image:
        inner = _inner(source.get("content"), f"{path}.content", found)
        found.texts.append(_labelled(block, inner.text))
    elif form in ("base64", "url"):
        field = "data" if form == "base64" else "url"
        value, place = required(source, field, path), f"{path}.{field}"
        found.files.append(
            GivenFile(
                path=place,
                source=source_of(f"file_{field}", value, place, is_image=is_image),
                name=name if isinstance(name, str) else None,
                is_image=is_image,
            )
        )
    else:
        refuse(
            f"{path}.type",
            f"Sources of the type {str(form)[:40]!r} are not taken, only 'base64', 'url' and, for "
            "documents, 'text' and 'content'.",
        )


def _inner(content: Any, path: str, found: Content) -> Content:
    """Read blocks within a block, whose images and files are those of the message."""
    is_list = isinstance(content, list) and all(isinstance(each, dict) for each in content)
    if content is not None and not isinstance(content, str) and not is_list:
        refuse(path, f"Invalid type for '{path}': expected a text or blocks.")
    inner = read_content(content, path)
    found.files.extend(inner.files)
    found.left_out.extend(inner.left_out)
    return inner


def _labelled(block: Block, text: str) -> str:
    """Return a text below a line with the title and the source of its block."""
    given = (block.get("title"), block.get("source"), block.get("context"))
    label = " - ".join(each for each in given if isinstance(each, str) and each)
    return "\n".join(filter(None, (label, text)))
