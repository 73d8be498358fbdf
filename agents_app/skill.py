"""``SKILL.md``: what an agent is for and how it shall behave (seed 000 section 14.3). Pure."""

from typing import Any

import msgspec
import yaml

MAX_FILE_BYTES = 256 * 1024
"""Larger files are not read."""

MAX_FRONT_MATTER_CHARS = 16 * 1024
MAX_DESCRIPTION_CHARS = 2_000
MAX_DEPTH = 20

_FENCE = "---"
_BEGIN = "SKILL.md must begin with a line '---', then 'description: ...', then another line '---'."


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """What a ``SKILL.md`` says, as far as it can be read.

    Attributes:
        description: What the agent is for, on one line; a model chooses by it.
        model: The model that the agent wants, if it wants a certain one.
        system_prompt: How the agent shall behave.
        faults: What is wrong with the file: sentences that say what to change.
    """

    description: str = ""
    model: str | None = None
    system_prompt: str = ""
    faults: tuple[str, ...] = ()


TOO_LARGE = Skill(faults=(f"SKILL.md is larger than {MAX_FILE_BYTES // 1024} KiB: shorten it.",))


class _FaultyFrontMatter(Exception):
    """The front matter can't be read; the message is a sentence that says what to change."""


def parse_skill(data: bytes) -> Skill:
    """Read a ``SKILL.md``. Never raises: what is wrong with it is in ``faults``.

    Takes milliseconds, whatever the file holds.

    Args:
        data: The file's content.
    """
    if len(data) > MAX_FILE_BYTES:
        return TOO_LARGE
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return Skill(faults=("SKILL.md is no text in UTF-8: save it as that.",))
    front_matter, body, unfenced = _split(text)
    faults = [unfenced] if unfenced else []
    fields: dict[Any, Any] = {}
    if front_matter is not None:
        try:
            fields = _fields_of(front_matter)
        except _FaultyFrontMatter as fault:
            faults.append(str(fault))
    readable = not faults
    description, model = "", None
    if readable:
        description = _description_of(fields, faults)
        model = _model_of(fields, faults)
    if not body and (readable or front_matter is not None):
        faults.append("SKILL.md has no system prompt: write it below the second line '---'.")
    return Skill(description=description, model=model, system_prompt=body, faults=tuple(faults))


def _split(text: str) -> tuple[str | None, str, str | None]:
    """Return the front matter, the text below it, and what is wrong with how they are set apart."""
    first, _, rest = text.lstrip().partition("\n")
    if first.rstrip() != _FENCE:
        return None, text.strip(), f"The front matter is missing. {_BEGIN}"
    begin = 0
    while begin <= len(rest):
        end = rest.find("\n", begin)
        end = len(rest) if end < 0 else end
        if rest[begin:end].rstrip() == _FENCE:
            return rest[:begin], rest[end:].strip(), None
        begin = end + 1
    return None, "", f"The front matter has no end. {_BEGIN}"


def _fields_of(front_matter: str) -> dict[Any, Any]:
    if len(front_matter) > MAX_FRONT_MATTER_CHARS:
        raise _FaultyFrontMatter(
            f"The front matter is longer than {MAX_FRONT_MATTER_CHARS // 1024} KiB: keep only "
            "'description' and 'model' there."
        )
    try:
        loader = _FrontMatterLoader(front_matter)
        try:
            fields = loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = f" (line {error.problem_mark.line + 2})" if error.problem_mark else ""
        raise _FaultyFrontMatter(
            f"The front matter is no YAML: {error.problem}{line}. Put texts that contain ':' or "
            "'#' into quotes."
        ) from error
    except yaml.YAMLError as error:
        raise _FaultyFrontMatter(
            "The front matter contains characters that no text has: remove them."
        ) from error
    except (ValueError, OverflowError) as error:  # numbers and dates that are none
        raise _FaultyFrontMatter(
            "The front matter can't be understood: keep only 'description' and 'model' there, "
            "with texts in quotes."
        ) from error
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        raise _FaultyFrontMatter(f"The front matter has no 'name: value' lines. {_BEGIN}")
    return fields


def _description_of(fields: dict[Any, Any], faults: list[str]) -> str:
    value = fields.get("description")
    if value is None:
        faults.append("The front matter has no description: add a line 'description: ...'.")
        return ""
    if not isinstance(value, str) or not _is_text(value):
        faults.append("The description must be a text: put it into quotes.")
        return ""
    # Models read it as one item of a list: a line of its own would look like another item.
    description = " ".join(value.split())
    if not description:
        faults.append("The description is empty: say what the agent is for.")
    if len(description) > MAX_DESCRIPTION_CHARS:
        faults.append(
            f"The description is longer than {MAX_DESCRIPTION_CHARS} characters: shorten it. "
            "What the agent must know belongs below the second line '---'."
        )
        return ""
    return description


def _model_of(fields: dict[Any, Any], faults: list[str]) -> str | None:
    value = fields.get("model")
    if value is None:
        return None
    if not isinstance(value, str) or not _is_text(value):
        faults.append("The model must be a text: put its name into quotes, or remove the line.")
        return None
    return value.strip() or None


def _is_text(value: str) -> bool:
    """Whether it is Unicode: YAML can write half of a surrogate pair."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


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
