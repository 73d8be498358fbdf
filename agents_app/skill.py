"""Parses ``SKILL.md``, which describes an agent and how it behaves. Pure."""

from functools import lru_cache
from typing import Any

import msgspec

MAX_FILE_BYTES = 256 * 1024
"""Larger files are not read."""

MAX_FRONT_MATTER_CHARS = 16 * 1024
MAX_DESCRIPTION_CHARS = 2_000

_FENCE = "---"
_BEGIN = "SKILL.md must begin with a line '---', then 'description: ...', then another line '---'."


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """A ``SKILL.md``, as far as it can be read.

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


@lru_cache(maxsize=128)  # to parse YAML takes a millisecond
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
        return Skill(faults=("SKILL.md is not UTF-8 text: save it as that.",))
    front_matter, body, unfenced = _split(text)
    faults = [unfenced] if unfenced else []
    fields: dict[Any, Any] = {}
    if front_matter is not None:
        fields, fault = _fields_of(front_matter)
        faults += [fault] if fault else []
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


def _fields_of(front_matter: str) -> tuple[dict[Any, Any], str | None]:
    """Return what the front matter says, and what is wrong with it."""
    if len(front_matter) > MAX_FRONT_MATTER_CHARS:
        return {}, (
            f"The front matter is longer than {MAX_FRONT_MATTER_CHARS // 1024} KiB: keep only "
            "'description' and 'model' there."
        )
    from agents_app.front_matter import FaultyFrontMatter, read  # noqa: PLC0415 - brings YAML along

    try:
        fields = read(front_matter)
    except FaultyFrontMatter as fault:
        return {}, str(fault)
    if not isinstance(fields, dict):
        return {}, f"The front matter has no 'name: value' lines. {_BEGIN}"
    return fields, None


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
    """Return whether it is Unicode: YAML can write half of a surrogate pair."""
    return not any("\ud800" <= character <= "\udfff" for character in value)
