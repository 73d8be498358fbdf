"""What tests of folders of functions write into files, and how they load them."""

from collections.abc import Callable, Mapping
from pathlib import Path

from tools_app.functions.loading import LoadedFolder, load_folder

WriteTools = Callable[..., Path]

ADD = '''
__all__ = ["add"]


def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)
'''
SUBTRACT = '''
__all__ = ["subtract"]
__destructive__ = []


def subtract(a: int, b: int) -> str:
    """Subtract a number."""
    return str(a - b)
'''


def load(folder: Path, skip: Mapping[str, str] | None = None) -> LoadedFolder:
    return load_folder(folder, skip=skip)


def reasons(loaded: LoadedFolder) -> dict[str, str]:
    return {entry.name: entry.reason for entry in loaded.invalid}


def function(
    name: str, *, doc: str = '"""Do it."""', hints: str = "a: int", to: str = "str"
) -> str:
    return f"def {name}({hints}) -> {to}:\n    {doc}\n    return ''\n"
