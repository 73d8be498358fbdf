"""Finds tools whose schemas a model was not sent: `find_tools`, and the list of their names. Pure.

What was loaded is read from the conversation: the results of `find_tools`, and of other tools.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sessions_app.decoding import convert_to
from sessions_app.messages import Message, ToolMessage, ToolSpec
from tools_app.errors import INVALID_ARGUMENTS
from tools_app.toolset import Tool, ToolResult

MOST_LOADED = 30
"""The schemas that are sent at once: those that were loaded last."""
LINE_LENGTH = 80
_K1, _B = 1.2, 0.75
_NAME_WEIGHT = 3
_WORD = re.compile(r"[^\W_]+")
_INNER_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MARK = "- "


class FindTools(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `find_tools`."""

    query: Annotated[
        str, Meta(min_length=1, max_length=1000, description="what it should do, or its name")
    ]
    limit: Annotated[int, Meta(ge=1, le=10, description="how many to load at most")] = 5


FIND_TOOLS = ToolSpec(
    name="find_tools",
    description=(
        "Load tools that are listed in your instructions and whose parameters you do not see: by "
        "words for what they do, or by name. You can call what is found from then on."
    ),
    parameters=msgspec.json.schema_components([FindTools])[1]["FindTools"],
)


def answer(arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> ToolResult:
    """Answer a call of `find_tools`; takes milliseconds where there are hundreds of tools."""
    try:
        asked = convert_to(arguments, FindTools)
    except msgspec.ValidationError as error:
        return ToolResult(success=False, error_message=f"{error}.", error_code=INVALID_ARGUMENTS)
    loadable = [tool for tool in tools.values() if not tool.delegated]
    found = find(asked.query, loadable, asked.limit)
    if not found:
        return ToolResult(success=True, result="No tool fits. Use other words, or a listed name.")
    lines = "\n".join(_MARK + _line(tool) for tool in found)
    return ToolResult(success=True, result=f"You can call these tools now:\n{lines}")


def loaded_by(message: Message) -> Iterator[str]:
    """Yield the names of the tools that a message loads: those found, and one that was called."""
    if not isinstance(message, ToolMessage):
        return
    if message.tool_name != FIND_TOOLS.name:
        yield message.tool_name
        return
    for line in message.content.splitlines():
        if line.startswith(_MARK):
            yield line.removeprefix(_MARK).partition(":")[0]


def list_of(tools: Sequence[Tool]) -> str:
    """Return the system text that names tools, by group, each with its first line."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for tool in tools:
        groups[tool.server or next(iter(tool.groups), "tools")].append(_line(tool))
    parts = [f"[{group}]\n" + "\n".join(lines) for group, lines in groups.items()]
    head = (
        f"There are more tools. Load those that you need with {FIND_TOOLS.name}. What follows the "
        "names was written by the authors of the tools, not by the user:"
    )
    return "\n\n".join([head, *parts])


def find(query: str, tools: Sequence[Tool], limit: int) -> Sequence[Tool]:
    """Return the tools that fit a query best, by BM25; those that it names come first."""
    documents = [_document(tool) for tool in tools]
    lengths = [document.total() for document in documents]
    mean = sum(lengths) / max(len(tools), 1) or 1.0
    scores = [0.0] * len(tools)
    for word in set(_words(query)):
        counts = [document[word] for document in documents]
        holding = sum(map(bool, counts))
        rarity = math.log(1 + (len(tools) - holding + 0.5) / (holding + 0.5))
        for at, count in enumerate(counts):
            norm = count + _K1 * (1 - _B + _B * lengths[at] / mean)
            scores[at] += rarity * count * (_K1 + 1) / norm
    named = set(re.split(r"[\s,;\"'`]+", query))
    ranked = sorted(range(len(tools)), key=lambda at: (tools[at].name not in named, -scores[at]))
    return [tools[at] for at in ranked if scores[at] > 0 or tools[at].name in named][:limit]


def _document(tool: Tool) -> Counter[str]:
    texts = [tool.spec.description, *tool.parameters]
    texts += [str(parameter.get("description", "")) for parameter in tool.parameters.values()]
    return Counter([*_words(tool.name) * _NAME_WEIGHT, *_words(" ".join(texts))])


def _words(text: str) -> list[str]:
    words = _WORD.findall(_INNER_CAPITAL.sub(" ", text).casefold())
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words]


def _line(tool: Tool) -> str:
    first = next(iter(tool.spec.description.strip().splitlines()), "")
    return f"{tool.name}: {' '.join(first.split())[:LINE_LENGTH]}"
