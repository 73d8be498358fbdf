"""Lists the folders of each app for ``docs/architecture.md``, and the recorded decisions.

Layers are those of the import contracts in ``pyproject.toml``; a description is the first
paragraph of a docstring.
"""

import ast
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]


def folder_tables() -> str:
    """Return a table for each app, its folders and modules from the highest layer to the lowest."""
    return "\n".join(
        f"### `{app}`\n\n{_description(ROOT / app)}\n\n{_table(app, layers)}"
        for app, layers in _layers_of_apps().items()
    )


def decision_list() -> str:
    """Return the decisions as links, by number."""
    lines = []
    for page in sorted((ROOT / "docs/decisions").glob("[0-9]*.md")):
        number, _, title = page.read_text("utf-8").split("\n")[0].removeprefix("# ").partition(". ")
        lines.append(f"{number}. [{title}]({page.name})\n")
    return "".join(lines)


def _layers_of_apps() -> dict[str, list[str]]:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    layers = {
        contract["containers"][0]: contract["layers"]
        for contract in tools["importlinter"]["contracts"]
        if "containers" in contract
    }
    return {app: layers[app] for app in tools["importlinter"]["root_packages"] if app in layers}


def _table(app: str, layers: Sequence[str]) -> str:
    lines = ["| Layer | Where | What it does |", "| --- | --- | --- |"]
    for layer, names in zip(range(len(layers), 0, -1), layers, strict=True):
        lines += [f"| {layer} | `{shown}` | {does} |" for shown, does in _entries(app, names)]
    return "\n".join(lines) + "\n"


def _entries(app: str, names: str) -> Iterator[tuple[str, str]]:
    for written in sorted(names.replace("|", " ").split()):
        name = written.strip("()")  # what need not be there
        folder = ROOT / app / name
        path = folder if folder.is_dir() else folder.with_suffix(".py")
        if name != written and not path.exists():
            continue
        shown = path.relative_to(ROOT).as_posix() + ("/" if folder.is_dir() else "")
        yield shown, _description(path).replace("|", "\\|")


def _description(path: Path) -> str:
    module = path / "__init__.py" if path.is_dir() else path
    text = ast.get_docstring(ast.parse(module.read_text("utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("``", "`")
