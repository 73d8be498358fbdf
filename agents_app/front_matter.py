"""Reads the YAML at the head of a ``SKILL.md``: plain values only, in bounded time."""

from typing import Any

import yaml

MAX_DEPTH = 20


class FaultyFrontMatter(Exception):
    """The front matter is invalid; the message says what to change."""


def read(front_matter: str) -> Any:
    """Return the values of the front matter; ``{}`` if it is empty.

    Raises:
        FaultyFrontMatter: It is no YAML, or more of it than is allowed here.
    """
    try:
        loader = _FrontMatterLoader(front_matter)
        try:
            fields = loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = f" (line {error.problem_mark.line + 2})" if error.problem_mark else ""
        raise FaultyFrontMatter(
            f"The front matter is not YAML: {error.problem}{line}. Put texts that contain ':' or "
            "'#' into quotes."
        ) from error
    except yaml.YAMLError as error:
        raise FaultyFrontMatter(
            "The front matter contains characters that no text has: remove them."
        ) from error
    except (ValueError, OverflowError) as error:  # numbers and dates that are none
        raise FaultyFrontMatter(
            "The front matter can't be understood: keep only 'description' and 'model' there, "
            "with texts in quotes."
        ) from error
    return {} if fields is None else fields


class _FrontMatterLoader(yaml.SafeLoader):
    """Reads plain values only.

    Aliases, with which a few lines can stand for gigabytes, and tags are refused; so is a name that
    is given twice. In Python, because the C library's recursion can exhaust the stack.
    """

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise self._refusal("aliases ('*name') are not allowed", event)
        if getattr(event, "tag", None) is not None:
            raise self._refusal("tags ('!name') are not allowed", event)
        if self._depth == MAX_DEPTH:
            raise self._refusal("it is nested too deeply", event)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        names: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in names:
                    raise self._refusal(f"{key.value[:100]!r} is given twice", key)
                names.add(key.value)
        return node

    @staticmethod
    def _refusal(problem: str, where: Any) -> yaml.MarkedYAMLError:
        return yaml.MarkedYAMLError(problem=problem, problem_mark=where.start_mark)
