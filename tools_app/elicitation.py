"""Defines the questions of servers to people while a tool runs (MCP's elicitation), and answers."""

import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec

from mochi_project.addresses import is_this_machine
from sessions_app.decoding import convert_to
from sessions_app.errors import ValidationFailed

MAX_QUESTIONS = 5
"""The questions of one server in a turn; further ones are declined."""
MAX_ROUNDS = 10
"""The rounds of questions of one call, over all its repeats; as in the SDKs of MCP."""
MAX_STATE_BYTES = 64 << 10
MAX_MESSAGE_CHARS = 4_000
_MAX_SCHEMA_BYTES = 64 << 10
_MAX_URL_CHARS = 4_000
_SECRETS = re.compile(
    r"pass(word|wd|phrase|code)|secret|token|credential|api.?key|private.?key|\bpin\b|\botp\b"
    r"|cvv|cvc|card.?(number|no\b)|\bssn\b|iban",
    re.IGNORECASE,
)

_Count = Annotated[int, msgspec.Meta(ge=0)]


class ElicitationRefused(Exception):
    """Raised if a request is not one that people are shown; the text says why, as a sentence."""


class _Option(msgspec.Struct, frozen=True, omit_defaults=True):
    const: str
    title: str | None = None


class _Property(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    title: str | None = None
    description: str | None = None


class _Text(_Property, frozen=True, kw_only=True, tag="string"):
    min_length: _Count | None = msgspec.field(default=None, name="minLength")
    max_length: _Count | None = msgspec.field(default=None, name="maxLength")
    format: str | None = None
    enum: Sequence[str] | None = None
    enum_names: Sequence[str] | None = msgspec.field(default=None, name="enumNames")
    one_of: Sequence[_Option] | None = msgspec.field(default=None, name="oneOf")
    default: str | None = None


class _Number(_Property, frozen=True, kw_only=True, tag="number"):
    minimum: int | float | None = None
    maximum: int | float | None = None
    default: int | float | None = None


class _Integer(_Number, frozen=True, kw_only=True, tag="integer"):
    default: int | None = None


class _Truth(_Property, frozen=True, kw_only=True, tag="boolean"):
    default: bool | None = None


class _Items(msgspec.Struct, frozen=True, omit_defaults=True):
    type: Literal["string"] | None = None
    enum: Sequence[str] | None = None
    any_of: Sequence[_Option] | None = msgspec.field(default=None, name="anyOf")


class _Choices(_Property, frozen=True, kw_only=True, tag="array"):
    items: _Items
    min_items: _Count | None = msgspec.field(default=None, name="minItems")
    max_items: _Count | None = msgspec.field(default=None, name="maxItems")
    default: Sequence[str] | None = None


class _Flat(msgspec.Struct, frozen=True, tag_field="type", tag="object"):
    properties: Mapping[str, _Text | _Number | _Integer | _Truth | _Choices]
    required: Sequence[str] = ()


Action = Literal["accept", "decline", "cancel"]


class InputRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A question of a server to a person: for the values of a form, or to open an address.

    Attributes:
        message: Its words.
        schema: The flat JSON schema of the form's values; None for an address.
        url: The address, which only the person opens; None for a form.
        server: The server.
    """

    message: str
    schema: Mapping[str, Any] | None = None
    url: str | None = None
    server: str = ""


class InputAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a person; ``content`` is what they filled in, only if they accepted a form."""

    action: Action
    content: Mapping[str, Any] | None = None


class InputNeeded(msgspec.Struct, frozen=True, kw_only=True):
    """The questions with which a call has ended, to be repeated with the answers.

    Attributes:
        requests: The questions, by the server's names for them.
        request_state: The server's state, which it gets back unchanged.
        repeats_plainly: Whether the call is repeated as it was, once addresses were opened.
    """

    requests: Mapping[str, InputRequest]
    request_state: str | None = None
    repeats_plainly: bool = False


class InputGiven(msgspec.Struct, frozen=True, kw_only=True):
    """The answers that a repeated call brings, and the server's state."""

    answers: Mapping[str, InputAnswer]
    request_state: str | None = None


AskPerson = Callable[[InputRequest], Coroutine[Any, Any, InputAnswer]]
"""Asks the person of a turn while its call runs."""


async def decline(_: InputRequest) -> InputAnswer:
    """Decline to answer, as there is nobody to ask."""
    return InputAnswer(action="decline")


def flat_schema(schema: Any) -> Mapping[str, Any]:
    """Return the schema of a form, with only what MCP allows there.

    Raises:
        ElicitationRefused: It is nested, no schema, or too large.
    """
    try:
        flat = convert_to(schema, _Flat)
        known = [name for name in flat.required if name in flat.properties]
        clean: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(flat, required=known))
        is_small = len(msgspec.json.encode(clean)) <= _MAX_SCHEMA_BYTES
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ElicitationRefused(
            "It asked with a form whose schema is not flat: only texts, numbers, truth values and "
            "lists of choices can be asked for."
        ) from error
    if not is_small:
        raise ElicitationRefused("It asked with a form that is too large.")
    return clean


def fill(content: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values of a form, with the schema's defaults for those that are missing.

    Runs in this process: a ``flat_schema`` has nothing that takes long (docs/decisions/0194).

    Raises:
        ValidationFailed: They do not fit; ``details.field`` names the value, no words contain it.
    """
    from jsonschema_rs import validator_for  # noqa: PLC0415 - few calls ask anything

    properties = {name: _fast(each) for name, each in schema["properties"].items()}
    defaults = {name: each["default"] for name, each in properties.items() if "default" in each}
    filled = {**defaults, **content}
    strict = {**schema, "properties": properties, "additionalProperties": False}
    validator = validator_for(strict, offline=True, mask="it", validate_formats=True)
    fault = next(validator.iter_errors(filled), None)
    if fault is not None:
        field = ".".join(["content", *map(str, fault.instance_path)])
        raise ValidationFailed(f"{field}: {fault.message}. The question stays open.", field=field)
    return filled


def _fast(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of values with its titled choices as an ``enum``, which is looked up."""
    choices = values.get("items", {}).get("anyOf")
    if choices is None:
        return values
    return {**values, "items": {"enum": [each["const"] for each in choices]}}


def secrets_in(schema: Mapping[str, Any] | None) -> Sequence[str]:
    """Return the names of values that look like secrets, which servers must not ask for."""
    properties: Mapping[str, Any] = (schema or {}).get("properties", {})
    return [
        name
        for name, each in properties.items()
        if _SECRETS.search(f"{name} {each.get('title', '')}".replace("_", " "))
    ]


def safe_url(url: object) -> str:
    """Return an address that a person may be shown: https, or of this machine.

    Raises:
        ElicitationRefused: It is another one, or hides where it leads.
    """
    refusal = ElicitationRefused("It asked to open an address that is neither https nor local.")
    if not isinstance(url, str) or len(url) > _MAX_URL_CHARS or not url.isprintable() or " " in url:
        raise refusal
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise refusal from error
    is_local = parts.scheme == "http" and (host == "localhost" or is_this_machine(host or "", 0))
    if not host or "@" in parts.netloc or "\\" in url or not (parts.scheme == "https" or is_local):
        raise refusal
    return url
