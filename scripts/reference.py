"""Generates ``.env.example`` and the tables of variables, metrics and spans in the docs.

``scripts/docs.py`` writes the files; tests keep them equal.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic.fields import FieldInfo

from mochi_project.configuration.config import FORMER_NAMES, ServerSettings
from mochi_project.configuration.constants import ENV_PREFIX
from mochi_project.configuration.loading import MochiSettings
from models_app.vendors.registry import KNOWN_VENDORS
from usage_app.metrics.names import METRICS, METRICS_BY_OWNER
from usage_app.traces.names import ATTRIBUTES, Attribute

HEADER = """\
# Configuration of mochi-server. Copy this file to .env where you start the server, and take the #
# away from what you change. Variables of the environment win over this file, flags over both.
# A .env is read where its folder is trusted: run `mochi-server trust` there.
# Written by `just docs` from settings.py of each app.
"""

KEYS = "\n# Keys of providers (docs/providers.md)\n" + "".join(
    f"# {variable}=\n" for vendor in KNOWN_VENDORS for variable in vendor.key_variables
)


def variables() -> Iterator[tuple[str, str, str]]:
    """Yield ``(variable, default, description)`` of every setting; an empty default is none."""
    former = {name: f" (formerly `{_variable(old)}`)" for old, name in FORMER_NAMES.items()}
    # The server's own come first, although they are the last of the class.
    for name, field in (ServerSettings.model_fields | MochiSettings.model_fields).items():
        description = f"{field.description or ''}{former.get(name, '')}"
        yield _variable(name), _default_of(field), description


def env_example() -> str:
    """Return the text of ``.env.example``."""
    parts = [
        f"\n# {description}\n# {variable}={default}\n"
        for variable, default, description in variables()
    ]
    return HEADER + "".join(parts) + KEYS


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    cells = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def markdown_table() -> str:
    """Return the table of all variables."""
    rows = (
        (f"`{variable}`", f"`{default}`" if default else "", description)
        for variable, default, description in variables()
    )
    return table(("Variable", "Default", "Description"), rows)


def metric_table() -> str:
    """Return the table of metrics: name, type, labels and meaning."""
    rows = (
        (f"`{each.name}`", each.kind, ", ".join(f"`{it}`" for it in each.labels), each.help)
        for each in (*METRICS, *METRICS_BY_OWNER)
    )
    return table(("Metric", "Type", "Labels", "What it says"), rows)


def attribute_table() -> str:
    """Return the table of attributes of spans: the newest names, the former ones, the meaning."""
    return table(("Attribute", "Spans", "Meaning"), map(_attribute, ATTRIBUTES))


def _attribute(attribute: Attribute) -> tuple[str, str, str]:
    former = [f"`{name}`" for name in attribute.former if name != attribute.name]
    meaning = attribute.meaning
    if former:
        meaning += f"; up to 1.36 also {', '.join(former)}"
    if attribute.is_content:
        meaning += "; only where contents are asked for"
    return f"`{attribute.name}`", ", ".join(attribute.spans), meaning


def _variable(name: str) -> str:
    return f"{ENV_PREFIX}{name.upper()}"


def _default_of(field: FieldInfo) -> str:
    default: Any = field.get_default(call_default_factory=True)
    if default is None or default in ([], {}):
        return ""
    if isinstance(default, list):
        return ",".join(default)
    return json.dumps(default) if isinstance(default, bool) else str(default)
