"""What the guides tell people to type and to expect is there: commands, routes, settings, JSON."""

import ast
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, get_commands, load_command_class
from jsonschema import Draft202012Validator

from chat.activity.events import ACTIVITY_EVENTS
from chat.stream.events import EVENTS
from mochi_project import cli
from mochi_project.api import api
from mochi_project.configuration.constants import CORE, WINGS
from mochi_project.configuration.loading import MochiSettings
from mochi_project.errors.statuses import statuses

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for page in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
    if page.name not in ("CHANGELOG.md", "performance.md")
]
GENERATED = re.compile(r"<!-- generated: \w+ -->.*?<!-- end -->", re.DOTALL)
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
ROUTE = re.compile(r"\b(GET|POST|PUT|PATCH|DELETE)\s(/(?:api/)?v1/[\w/{}:.-]*)")
REFUSED = re.compile(r"\b[45]\d\d,? `([A-Z][A-Z_]+)`")
VARIABLE = re.compile(r"\bMOCHI_[A-Z][A-Z_]+[A-Z]\b")
EVENT = re.compile(r"^event: (\w+)\ndata: (\{.*\})$", re.MULTILINE)
MARKED = re.compile(r"<!-- json: (\w+) -->\n```json\n(.*?)```", re.DOTALL)
ADDRESS = re.compile(r"(?:localhost|127\.0\.0\.1):\d+(/[\w/.-]*)")
BODY = re.compile(r"-d '(.*?)'", re.DOTALL)
OTHER_USE = re.compile(r"docker build -t ")  # of the name
GUIDE = re.compile(r"`mochi-server docs ([\w-]+)`")
FILE_OF_GUIDE = re.compile(r"\bdocs/(?:decisions/\d+|[\w-]+\.md)")
# Files that people get with the package beside its modules.
SHIPPED = [
    path
    for folder in ("examples/chat-page", "mochi_project/examples")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".css", ".html", ".js", ".json", ".md", ".example")
]
PAYLOADS = {event.event: event.__name__ for event in (*ACTIVITY_EVENTS, *EVENTS)}
# Names that programs of others give, or tools get, and that the guides take up.
OTHER_VARIABLES = {"MOCHI_API_KEY", "MOCHI_KEY", "MOCHI_OWNER"}
# Served, and not described by the document.
NOT_IN_DOCUMENT = ("/api/v1/docs", "/api/v1/openapi.json")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@cache
def text_of(page: Path) -> str:
    return GENERATED.sub("", page.read_text("utf-8"))


@cache
def openapi() -> dict[str, Any]:
    return api.get_openapi_schema()


def fenced(page: Path, language: str) -> list[str]:
    return [code for kind, code in BLOCK.findall(text_of(page)) if kind == language]


def in_backticks(page: Path) -> list[str]:
    return INLINE.findall(BLOCK.sub("", text_of(page)))


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words after `mochi-server` of each command that a page shows."""
    lines = [
        piece
        for block in fenced(page, "sh")
        for piece in re.split(r"\n|&& |\| ", block.replace("\\\n", " "))
    ]
    for line in [*lines, *in_backticks(page)]:
        before, is_there, words = re.sub(r"\s", " ", f"{line} ").partition("mochi-server ")
        if is_there and re.fullmatch(r"(?:.*[ /])?", before) and not OTHER_USE.search(before):
            yield shlex.split(words.rstrip(" &"), comments=True)


def complaint_about(words: list[str]) -> str | None:
    """Return what the command line says against the words, but for what was left out."""
    at = next((n for n, word in enumerate(words) if word in cli.commands()), len(words))
    unknown = {word for word in words[:at] if word.startswith("-")} - {*cli.program_flags()}
    if unknown or (at == len(words) and words and not words[0].startswith(("-", "<"))):
        return "there is no such flag or command"
    if at == len(words):
        return None
    name, *rest = words[at:]
    try:
        command = load_command_class(get_commands()[name], name)
        command.create_parser("mochi-server", name).parse_args(rest)
    except CommandError as error:
        left_out = "arguments are required" in str(error) and "ACTION" not in str(error)
        return None if left_out else str(error)
    return None


@every_page
def test_commands_and_their_flags_are_there(page: Path) -> None:
    complaints = {" ".join(words): complaint_about(words) for words in commands(page)}

    assert {words: why for words, why in complaints.items() if why} == {}


def test_commands_are_found_in_the_guides() -> None:
    assert sum(len(list(commands(page))) for page in PAGES) > 80


@every_page
def test_routes_are_there(page: Path) -> None:
    named = {(method, path) for method, path in ROUTE.findall(text_of(page))}

    assert {route for route in named if not is_route(*route)} == set()


@every_page
def test_settings_are_there(page: Path) -> None:
    known = {f"MOCHI_{name.upper()}" for name in MochiSettings.model_fields} | OTHER_VARIABLES
    named = {name for name in VARIABLE.findall(text_of(page)) if "__" not in name}

    assert named - known == set()


@every_page
def test_error_codes_are_there(page: Path) -> None:
    assert set(REFUSED.findall(text_of(page))) - set(statuses()) == set()


@every_page
def test_json_is_json(page: Path) -> None:
    for example in fenced(page, "json"):
        json.loads(example)


@every_page
def test_bodies_of_requests_are_what_their_routes_take(page: Path) -> None:
    for code in fenced(page, "sh"):
        for request in re.split(r"^(?=curl )", code, flags=re.MULTILINE):
            address, body = ADDRESS.search(request), BODY.search(request)
            if address and body:
                schema = operation_of("POST", address[1])["requestBody"]["content"]
                check(json.loads(body[1]), schema["application/json"]["schema"])


@every_page
def test_events_that_are_shown_have_their_fields(page: Path) -> None:
    for name, data in EVENT.findall(text_of(page)):
        assert name in PAYLOADS
        check(json.loads(data), {"$ref": f"#/components/schemas/{PAYLOADS[name]}"})


@every_page
def test_json_that_is_marked_fits_its_schema(page: Path) -> None:
    for schema, example in MARKED.findall(text_of(page)):
        check(json.loads(example), {"$ref": f"#/components/schemas/{schema}"})


def test_packages_that_could_clash_are_named_to_programs_that_embed_the_server() -> None:
    assert {*CORE, *WINGS} - set(in_backticks(ROOT / "docs/embedding.md")) == set()


def messages(module: Path) -> Iterator[str]:
    """Yield the texts in a module that a person may get to read: all but its docstrings."""
    tree = ast.parse(module.read_text("utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield str(node.value)


def test_messages_name_guides_by_the_command_that_shows_them() -> None:
    modules = [path for init in ROOT.glob("*/__init__.py") for path in init.parent.rglob("*.py")]
    texts = [text for module in modules if module.parts[-2] != "tests" for text in messages(module)]
    texts += [path.read_text("utf-8") for path in SHIPPED]
    texts.append(json.dumps(openapi()))
    named = {name for text in texts for name in GUIDE.findall(text)}

    assert [text for text in texts if FILE_OF_GUIDE.search(text)] == []
    assert {"events", "file-systems", "import"} <= named
    assert named - {page.stem for page in PAGES} == set()


def test_examples_are_found_in_the_guides() -> None:
    texts = "".join(map(text_of, PAGES))

    assert len(MARKED.findall(texts)) >= 7
    assert len(EVENT.findall(texts)) >= 12
    assert len(ROUTE.findall(texts)) > 80


def is_route(method: str, path: str) -> bool:
    return path.startswith(NOT_IN_DOCUMENT) or bool(operation_of(method, path))


def operation_of(method: str, path: str) -> dict[str, Any]:
    """Return the operation at a path with or without placeholders; empty if there is none."""
    for template, operations in openapi()["paths"].items():
        pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template))
        if re.fullmatch(pattern, path) and method.lower() in operations:
            found: dict[str, Any] = operations[method.lower()]
            return found
    return {}


def check(value: Any, schema: Mapping[str, Any]) -> None:
    """Fail if the value does not fit the schema, or has a field that the schema does not."""
    document = {**schema, "components": openapi()["components"]}
    errors = [error.message for error in Draft202012Validator(document).iter_errors(value)]
    assert errors == []
    if "$ref" in schema:
        target = openapi()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        assert value.keys() - target["properties"].keys() == set()
