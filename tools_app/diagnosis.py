"""Explains for each file of a tools folder which tools it defines, or why none. Pure."""

from collections.abc import Sequence

import msgspec

from tools_app.toolset import InvalidTool, ToolListing

INIT_FILE = "__init__.py"
_NOT_EXPORTED = (
    "None of its functions is a tool. Import them in __init__.py and list them in __all__ there."
)
_NO_ALL = (
    'It is skipped, because it has no __all__. Add __all__ = ["name_of_the_function"] if its '
    "functions are meant to be tools."
)
_EMPTY_INIT = "It exports no tool. List the functions that are to be tools in its __all__."


class FileDiagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The tools and faults of one file.

    Attributes:
        file: The file, relative to the folder.
        tools: The tools that it defines.
        invalid: What it defines and can't be offered, with the reasons.
        hint: What to change if it gave neither.
    """

    file: str
    tools: Sequence[str] = ()
    invalid: Sequence[InvalidTool] = ()
    hint: str | None = None


def diagnose(files: Sequence[str], listing: ToolListing) -> list[FileDiagnosis]:
    """Return the diagnosis of each file, ordered by name.

    There are no hints if the folder was not loaded, which the listing says with a fault of no file:
    it is not trusted, or can't be read.

    Args:
        files: The Python files of the folder, relative to it.
        listing: The tools that were discovered in the folder.
    """
    named = {tool.file for tool in listing.tools.values() if tool.file}
    named |= {entry.file for entry in listing.invalid}
    is_loaded = "" not in named
    return [
        _diagnose(file, files, listing, with_hint=is_loaded) for file in sorted({*files, *named})
    ]


def _diagnose(
    file: str, files: Sequence[str], listing: ToolListing, *, with_hint: bool
) -> FileDiagnosis:
    tools = sorted(name for name, tool in listing.tools.items() if tool.file == file)
    invalid = [entry for entry in listing.invalid if entry.file == file]
    hint = None
    if with_hint and not tools and not invalid:
        hint = _hint(file, files, listing)
    return FileDiagnosis(file=file, tools=tools, invalid=invalid, hint=hint)


def _hint(file: str, files: Sequence[str], listing: ToolListing) -> str | None:
    if file == INIT_FILE:
        return None if listing.tools or listing.invalid else _EMPTY_INIT
    return _NOT_EXPORTED if INIT_FILE in files else _NO_ALL
