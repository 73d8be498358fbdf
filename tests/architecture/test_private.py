"""What is private to a library is used only in a module with a comment that begins ``# private:``.

The comment names it, and says what it costs and why there is no other way (docs/decisions/0040).
"""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
APPS = {init.parent.name for init in ROOT.glob("*/__init__.py")}
MARK = re.compile(r"^ *# private:.*\n(?: *#.*\n)*", re.MULTILINE)
NOT_PRIVATE = {"_exit"}  # os._exit, which is documented


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in {"self", "cls"}


def own_names(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the private names that a module defines."""
    names = set()
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Attribute(value=value, attr=name, ctx=ast.Store()) if is_self(value):
                names.add(name)
    return names


def private_imports(nodes: Sequence[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = node.module.split(".")
            if parts[0] not in APPS:
                yield from filter(is_private, [*parts, *(alias.name for alias in node.names)])


def foreign_names(nodes: Sequence[ast.AST], own: set[str], inherited: set[str]) -> set[str]:
    """Return the private names that a module uses of others than itself and its base classes."""
    names = set(private_imports(nodes))
    for node in nodes:
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            ours = own | inherited if is_self(node.value) else own
            names |= {node.attr} - ours
    return names - NOT_PRIVATE


def test_private_parts_of_libraries_are_marked() -> None:
    sources = {
        path: path.read_text(encoding="utf-8")
        for app in APPS
        for path in (ROOT / app).rglob("*.py")
    }
    trees = {path: list(ast.walk(ast.parse(source))) for path, source in sources.items()}
    own = {path: own_names(nodes) for path, nodes in trees.items()}
    folders: dict[Path, set[str]] = {}  # a base class of ours stands beside its subclasses
    for path, names in own.items():
        folders.setdefault(path.parent, set()).update(names)

    unmarked = {
        path.relative_to(ROOT).as_posix(): names
        for path, nodes in trees.items()
        if (used := foreign_names(nodes, own[path], folders[path.parent]))
        and (names := {name for name in used if name not in "".join(MARK.findall(sources[path]))})
    }

    assert unmarked == {}
