"""Generates the parts of the docs that repeat the code: configuration, routes, errors, events.

``python scripts/docs.py`` (``just docs``) writes; a test asks ``stale()`` and fails with a hint.
Text between two markers is replaced, everything around it is written by hand::

    <!-- generated: routes -->
    <!-- end -->
"""

import inspect
import json
import os
import re
import sys
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import django
import msgspec

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mochi_project.settings")
django.setup()

from chat.activity.events import ACTIVITY_EVENTS  # noqa: E402 - after setup
from chat.stream.attached_file import AttachedFile  # noqa: E402 - after setup
from chat.stream.events import EVENTS, FinishedCall  # noqa: E402 - after setup
from chat.stream.usage import CallUsage, TurnUsage  # noqa: E402
from mochi_project.api import api  # noqa: E402
from mochi_project.errors.statuses import retry_after, statuses  # noqa: E402
from scripts import cluster, code_map, reference  # noqa: E402
from scripts.reference import table  # noqa: E402
from sessions_app.errors import MochiError  # noqa: E402
from sessions_app.messages import Usage  # noqa: E402

MARKED = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

# From the lowest app to the highest: the order of errors in the docs.
APPS = (
    *("sessions_app", "models_app", "tools_app", "prompts_app", "chat", "agents_app"),
    *("cluster_app", "dialects_app", "search_app", "transfer_app", "usage_app", "mochi_project"),
)
# Codes without an error class: of the guard and the web framework.
OTHER_ERRORS = {
    "TOOL_EXECUTION_DENIED": "The user did not let the tool run. In `tool_result` only.",
    "TOOL_EXECUTION_FAILED": "The tool ran and failed. In `tool_result` only.",
    "NOT_FOUND": "There is nothing at this path.",
    "METHOD_NOT_ALLOWED": "The path is there, but not for this method; see `Allow`.",
    "PAYLOAD_TOO_LARGE": "The body is larger than the message's setting allows "
    "(`MOCHI_MAX_BODY_BYTES`, `MOCHI_MAX_HISTORY_BYTES`, `MOCHI_MAX_IMPORT_BYTES`).",
    "TOO_MANY_LARGE_BODIES": "Four bodies over `MOCHI_MAX_BODY_BYTES` are being read already.",
    "UNSUPPORTED_MEDIA_TYPE": "The body is not declared as `application/json`.",
    "FORBIDDEN": "The `Host`, the `Origin` or the proxy is not allowed; the message says why.",
    "UNAUTHENTICATED": "The server wants a bearer token.",
    "REQUEST_TIMEOUT": "The body took longer than 30 seconds to arrive.",
    "HEADERS_TOO_LARGE": "The headers are larger than 64 KiB.",
    "BAD_REQUEST": "The body is not JSON, or not unambiguous JSON.",
    "INTERNAL_ERROR": "A defect of this server; its log says more.",
}


def main() -> int:
    """Write every stale file, and print its name."""
    for path, text in documents():
        if _read(path) != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")
    return 0


def stale() -> list[str]:
    """Return the files that differ from the code."""
    return [str(path.relative_to(ROOT)) for path, text in documents() if _read(path) != text]


def documents() -> Iterator[tuple[Path, str]]:
    """Yield every file that is generated, or has generated parts, with its text."""
    yield ROOT / ".env.example", reference.env_example()
    written = sections()
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = _read(path)
        if MARKED.search(text):
            yield path, MARKED.sub(lambda found: found[1] + written[found[2]] + found[3], text)


def sections() -> dict[str, str]:
    """Return the generated sections by the name in their markers."""
    return {
        "folders": code_map.folder_tables(),
        "decisions": code_map.decision_list(),
        "failures": cluster.failures(),
        "configuration": reference.markdown_table(),
        "routes": routes(),
        "api": operations(),
        "errors": errors(),
        "events": events(),
        "changes": changes(),
        "typescript": typescript(),
        "trace_attributes": reference.attribute_table(),
        "metrics": reference.metric_table(),
    }


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


# Errors


def errors() -> str:
    """Return the table of error codes."""
    for module in ROOT.glob("*_app/**/errors.py"):  # some are imported with the first request
        import_module(".".join(module.relative_to(ROOT).with_suffix("").parts))
    classes: dict[str, list[type[MochiError]]] = {}
    for error in sorted(filter(_is_ours, _subclasses(MochiError)), key=_place):
        if "code" in vars(error):
            classes.setdefault(error.code, []).append(error)
    rows = []
    for code, status in statuses().items():
        found = classes.get(code, [])
        meaning = OTHER_ERRORS.get(code) or " ".join(map(_first_sentence, found))
        after = retry_after().get(code)
        rows.append([f"`{code}`", str(status), meaning, f"{after} s" if after else ""])
    return table(["Code", "Status", "Meaning", "`Retry-After`"], rows)


def _subclasses(error: type[MochiError]) -> Iterator[type[MochiError]]:
    for subclass in error.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _is_ours(error: type) -> bool:
    return error.__module__.partition(".")[0] in APPS


def _place(error: type) -> tuple[int, str, int]:
    """Return the position of a class: lowest app first, whatever the order of imports."""
    module = error.__module__
    return APPS.index(module.partition(".")[0]), module, inspect.getsourcelines(error)[1]


def _first_sentence(described: type) -> str:
    paragraph = (described.__doc__ or "").split("\n\n")[0]
    return " ".join(paragraph.split()).replace("``", "`")


# Events


def events() -> str:
    """Return the whole reference of events: every field of every payload, with its type."""
    parts = []
    for event in EVENTS:
        rows = [
            [f"`{field.name}`", _in_words(field.type) + (", may be absent" if optional else "")]
            for field, optional in _fields(event)
        ]
        parts.append(f"### `{event.event}`\n\n{_first_sentence(event)}\n\n")
        parts.append(table(["Field", "Type"], rows) + "\n")
    return "".join(parts)


def changes() -> str:
    """Return the table of events of the stream of changes: name, meaning and payload."""
    rows = [
        [
            f"`{event.event}`",
            _first_sentence(event),
            ", ".join(f"`{field.name}`" for field in msgspec.structs.fields(event)),
        ]
        for event in ACTIVITY_EVENTS
    ]
    return table(["Event", "When", "Data"], rows)


def typescript() -> str:
    """Return the events as TypeScript types."""
    usage = f"type Usage = {{ {_COUNTS}; cost_usd?: string }};"
    lines = []
    for event in EVENTS:
        fields = "; ".join(
            f"{field.name}{'?' if optional else ''}: {_in_typescript(field.type)}"
            for field, optional in _fields(event)
        )
        lines.append(f'  | {{ event: "{event.event}"; data: {{ {fields} }} }}')
    return "\n".join(["```ts", usage, "", "type MochiEvent =", *lines]) + ";\n```\n"


def _fields(event: type[msgspec.Struct]) -> list[tuple[msgspec.structs.FieldInfo, bool]]:
    omits = event.__struct_config__.omit_defaults
    return [
        (field, msgspec.UnsetType in typing.get_args(field.type) or (omits and not field.required))
        for field in msgspec.structs.fields(event)
    ]


_WORDS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_WORDS[msgspec.Raw] = "any JSON"
_COUNTS = "; ".join(f"{name}?: number" for name in Usage.__struct_fields__ if name != "cost_usd")
_STRUCTS = {
    FinishedCall: "Record<string, unknown>",
    TurnUsage: "Usage",
    CallUsage: "Usage",
    AttachedFile: (
        "{ id: string; name: string; media_type: string; size: number; "
        "width?: number; height?: number }"
    ),
}


def _in_words(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return f"{_in_words(arguments[0])}, deprecated"
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_in_words(one) for one in arguments if one is not msgspec.UnsetType)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (Sequence, list, tuple):
        return f"array of {_in_words(arguments[0])}s"
    if origin in (Mapping, dict) or annotation in _STRUCTS:
        return "object"
    return _WORDS[annotation]


def _in_typescript(annotation: Any) -> str:
    if typing.get_origin(annotation) is Annotated:
        annotation = typing.get_args(annotation)[0]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        wanted = [one for one in arguments if one is not msgspec.UnsetType]
        return " | ".join(map(_in_typescript, wanted))
    if origin is Literal:
        return " | ".join(f'"{value}"' for value in arguments)
    if origin in (Sequence, list, tuple):
        return f"{_in_typescript(arguments[0])}[]"
    if origin in (Mapping, dict):
        value = "unknown" if arguments[1] is Any else _in_typescript(arguments[1])
        return f"Record<string, {value}>"
    if annotation in _STRUCTS:
        return _STRUCTS[annotation]
    return _WORDS[annotation].replace("integer", "number").replace("any JSON", "unknown")


# Routes

_JSON = "application/json"


def routes() -> str:
    """Return the table of all routes."""
    rows = [
        [f"`{method} {path}`", operation["summary"]]
        for path, method, operation in _operations(api.get_openapi_schema())
    ]
    return table(["Route", "What it does"], rows)


def operations() -> str:
    """Return the whole reference of routes: parameters, bodies, examples, errors."""
    schema = api.get_openapi_schema()
    parts: list[str] = []
    tag = ""
    for path, method, operation in _operations(schema):
        if operation["tags"][0] != tag:
            tag = operation["tags"][0]
            parts.append(f"## {tag[0].upper()}{tag[1:]}\n\n")
        parts.append(f"### `{method} {path}`\n\n**{operation['summary']}.**")
        parts.append(f" {operation.get('description', '')}".rstrip() + "\n\n")
        parts += _parameters(operation)
        parts += _request(operation, schema)
        parts += _answers(operation, schema)
    return "".join(parts)


def _operations(schema: Mapping[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method.upper(), operation)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]


def _parameters(operation: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        [f"`{one['name']}`", one["in"], _schema_in_words(one["schema"]), _description(one)]
        for one in operation.get("parameters", ())
        if one["in"] != "path" or "description" in one
    ]
    if rows:
        yield table(["Parameter", "In", "Type", ""], rows) + "\n"


def _description(parameter: Mapping[str, Any]) -> str:
    text = parameter.get("description") or parameter["schema"].get("description") or ""
    return " ".join(str(text).split())


def _request(operation: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    contents = operation.get("requestBody", {}).get("content", {})
    if contents and _JSON not in contents:
        yield f"The body is {' or '.join(f'`{kind}`' for kind in contents)}.\n\n"
    if _JSON not in contents:
        return
    body = _resolved(contents[_JSON]["schema"], schema)
    needed = body.get("required", ())
    rows = [
        [
            f"`{name}`",
            _schema_in_words(field) + (", required" if name in needed else ""),
            _description({"schema": field}),
        ]
        for name, field in body["properties"].items()
    ]
    yield table(["Field of the body", "Type", ""], rows) + "\n"
    yield from _example(_example_of(contents[_JSON], body))


def _answers(operation: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    statuses = sorted(map(int, operation["responses"]))
    for status in [status for status in statuses if status < 300]:
        answer = operation["responses"][status]
        content = answer.get("content", {})
        kind = "with [events](events.md)." if "text/event-stream" in content else "without a body."
        kind = "with a file." if "application/pdf" in content else kind
        yield f"Answers {status}" + (":\n\n" if _JSON in content else f", {kind}\n\n")
        if _JSON in content:
            body = _resolved(content[_JSON]["schema"], schema)
            yield from _example(_example_of(content[_JSON], body))
    codes = operation["x-error-codes"]
    refused = "; ".join(
        " ".join([str(status), ", ".join(f"`{code}`" for code in codes[str(status)])])
        for status in statuses
        if status >= 400
    )
    yield f"Errors: {refused}. Operation id: `{operation['operationId']}`.\n\n"


def _example_of(content: Mapping[str, Any], body: Mapping[str, Any]) -> Any:
    return content.get("example", body.get("example"))


def _example(value: Any) -> Iterator[str]:
    if value is not None:
        yield f"```json\n{json.dumps(value, indent=2, sort_keys=True)}\n```\n\n"


def _resolved(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow references, through the `anyOf` of something that may be absent."""
    if "anyOf" in schema:
        schema = next(one for one in schema["anyOf"] if "$ref" in one)
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def _schema_in_words(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_schema_in_words(one) for one in schema["anyOf"])
    if "$ref" in schema:
        return f"`{schema['$ref'].rsplit('/', 1)[1]}`"
    if "oneOf" in schema and "title" in schema:
        return f"`{schema['title']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {_schema_in_words(schema['items'])}s"
    kinds = schema.get("type", "anything")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


if __name__ == "__main__":
    sys.exit(main())
