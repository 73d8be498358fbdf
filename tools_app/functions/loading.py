"""Loads the tools of one folder: the functions that it exports, and the faults of others.

Runs in tool processes, and in programs that use the library.
"""

import ast
import os
import stat
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import unwrap
from pathlib import Path
from types import ModuleType
from typing import Any

from sessions_app.surrogates import join_surrogates
from tools_app.functions.checks import fault_of
from tools_app.functions.importing import INIT, FolderImports
from tools_app.functions.schema import SchemaError, describe
from tools_app.toolset import InvalidTool, Tool, ToolListing

MAX_FILE_BYTES = 1 << 20
"""Larger files of a folder without ``__init__.py`` are not read."""

_OF_TOOLS = ("__all__", "__destructive__", "__owners__")
_NO_GROUPS = frozenset({*_OF_TOOLS, "__path__", "__author__", "__authors__", "__credits__"})
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")
# sys.modules and sys.path belong to the whole process. Reentrant: a tool may load a folder.
_loading = threading.RLock()


@dataclass(frozen=True, kw_only=True)
class LoadedFunction:
    """A function that can be offered as a tool.

    Attributes:
        name: The name that it is exported by, and the tool's.
        function: The function itself.
        groups: The groups it belongs to.
        destructive: Whether the policy ``confirm_destructive`` asks before it runs.
        timeout_seconds: The longest time of a call that its module declares.
        owners: The owners of data that its module declares it for; None for all.
        file: The file that defines it, relative to the folder.
    """

    name: str
    function: Callable[..., Any]
    groups: Sequence[str]
    destructive: bool
    timeout_seconds: float | None = None
    owners: Sequence[str] | None = None
    file: str


@dataclass(frozen=True, kw_only=True)
class LoadedFolder:
    """The contents of a folder: tools by name, names by group, and what is invalid."""

    tools: Mapping[str, LoadedFunction] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    invalid: Sequence[InvalidTool] = ()

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """Return the functions by name."""
        return {name: tool.function for name, tool in self.tools.items()}

    def report(self) -> ToolListing:
        """Describe the tools; a function that can't be described is listed as invalid."""
        tools, invalid = {}, list(self.invalid)
        for name, tool in self.tools.items():
            try:
                spec, parameters = describe(tool.function, name=name)
            except SchemaError as error:
                invalid.append(InvalidTool(name=name, file=tool.file, reason=str(error)))
                continue
            tools[name] = Tool(
                spec=spec,
                parameters=parameters,
                groups=tool.groups,
                destructive=tool.destructive,
                timeout_seconds=tool.timeout_seconds,
                owners=tool.owners,
                file=tool.file,
            )
        groups = {
            group: [name for name in names if name in tools] for group, names in self.groups.items()
        }
        return ToolListing(tools=tools, groups=groups, invalid=invalid)


def load_folder(
    folder: Path,
    *,
    skip: Mapping[str, str] | None = None,
    on_loading: Callable[[str], None] = lambda _name: None,
) -> LoadedFolder:
    """Import a folder's modules and return its tools (docs/tools.md); never raises because of them.

    With an ``__init__.py`` the folder is a package: its ``__all__`` names the tools. Without one,
    each ``*.py`` file with a top-level ``__all__`` is loaded, and its name is a group; no other
    file is run. A list of strings in a dunder variable (``__math__``) is a group.

    A module that fails affects only itself and the functions that come from it. Loading a folder
    again executes its modules again.

    Args:
        folder: The folder. One that does not exist has no tools. Links are followed: a user who
            can make one there can write a tool as well.
        skip: Modules that must not be run: {name relative to the folder: reason}.
        on_loading: Called with the name of each module before it runs (``__init__``,
            ``math_tools``, ``sub.module``): if the process dies, the last one was at fault.
    """
    folder = folder.absolute()
    if not folder.is_dir():
        return LoadedFolder()
    with _loading:
        imports = FolderImports(folder, skip=skip or {}, on_loading=on_loading)
        collection = _Collection(imports)
        with imports.loading():
            if os.path.lexists(folder / f"{INIT}.py"):
                package = imports.import_package()
                if package is not None:
                    with imports.busy_with(INIT):
                        collection.add(package, file=f"{INIT}.py")
            else:
                _load_files(imports, collection)
    return collection.finished()


def _load_files(imports: FolderImports, collection: "_Collection") -> None:
    imports.import_without_init()
    # Copies have names like "good (1).py", which sort before "good.py": the original is first.
    for path in sorted(
        imports.folder.glob("*.py"), key=lambda each: (not each.stem.isidentifier(), each)
    ):
        if path.name.startswith("."):
            continue
        with imports.busy_with(path.stem):
            if imports.is_skipped(path.stem) or not _claims_tools(path, imports):
                continue
            module = imports.import_file(path.stem)
            if module is not None:
                collection.add(module, file=path.name, group=path.stem)


def _claims_tools(path: Path, imports: FolderImports) -> bool:
    """Return whether the file has a top-level ``__all__``; an unreadable file is a failure."""
    try:
        data = _read(path)
    except OSError as error:
        imports.fail(path.stem, path.name, f"The file can't be read: {error.strerror}.")
        return False
    if data is None or (b"__all__" not in data and b"\0" not in data):
        return False
    fault = _unreadable(path, data)
    if fault is None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(data)
        except SyntaxError as error:
            fault = f"{type(error).__name__}: {error.msg} (line {error.lineno})"
            imports.requirements.read(path.stem, path.name, data)
        except (ValueError, RecursionError, MemoryError) as error:
            fault = f"It can't be read as Python: {type(error).__name__}: {error}"
        else:
            return any(_assigns_all(statement) for statement in tree.body)
    imports.fail(path.stem, path.name, fault)
    return False


def _read(path: Path) -> bytes | None:
    """Return at most ``MAX_FILE_BYTES`` + 1 bytes of a regular file; None for another kind."""
    # O_NONBLOCK: never wait for the writer of a FIFO.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        data = b""
        while len(data) <= MAX_FILE_BYTES and (more := os.read(descriptor, MAX_FILE_BYTES + 1)):
            data += more
        return data
    finally:
        os.close(descriptor)


def _unreadable(path: Path, data: bytes) -> str | None:
    if len(data) > MAX_FILE_BYTES:
        return f"The file is larger than {MAX_FILE_BYTES} bytes: keep data in other files."
    if b"\0" in data or data.startswith(_BYTE_ORDER_MARKS):
        return "The file is not UTF-8 text: save it as that."
    if "." in path.stem:
        return "A module's name has no dots: rename the file."
    return None


def _assigns_all(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        targets = [statement.target]
    else:
        return False
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


class _Collection:
    """Collects the tools, groups and faults of a folder's modules."""

    def __init__(self, imports: FolderImports) -> None:
        self._imports = imports
        self._tools: dict[str, LoadedFunction] = {}
        self._groups: dict[str, list[str]] = {}
        self._invalid: list[InvalidTool] = []
        self._declared: dict[str, frozenset[str] | None] = {}

    def add(self, module: ModuleType, *, file: str, group: str | None = None) -> None:
        """Add the module's exports; ``group`` is a group that all of them belong to."""
        exported = _names(getattr(module, "__all__", None))
        if exported is None:
            reason = "__all__ must be a list of the names of its tools, and there is none."
            self._refuse(group or INIT, file, reason)
            return
        groups = {group: list(exported)} if group else {}
        for name, members in _groups_of(module).items():
            groups[name] = groups.get(name, []) + members
        added = {
            name
            for name in dict.fromkeys(exported)
            if self._add_function(name, module, file, [g for g in groups if name in groups[g]])
        }
        for name, members in groups.items():
            known = self._groups.setdefault(name, [])
            known += [m for m in dict.fromkeys(members) if m in added and m not in known]
            for stranger in [member for member in members if member not in exported]:
                reason = f"The group {name!r} lists it, and __all__ does not: add it to __all__."
                self._refuse(stranger, file, reason)

    def finished(self) -> LoadedFolder:
        """Return the folder, with failed modules first among what is invalid."""
        failed = self._imports.requirements.explained(self._imports.failures)
        return LoadedFolder(
            tools=self._tools, groups=self._groups, invalid=[*failed, *self._invalid]
        )

    def _add_function(self, name: str, module: ModuleType, file: str, groups: list[str]) -> bool:
        """Add one function, or record its fault; return whether it was added."""
        try:
            value = getattr(module, name)
        except BaseException:  # noqa: BLE001 - a module may have a __getattr__ of its own
            self._refuse(name, file, "__all__ lists it, and it is not defined.")
            return False
        try:
            fault = fault_of(name, value)
            own = sys.modules.get(str(getattr(unwrap(value), "__module__", "")))
            names = {name, str(getattr(value, "__name__", name))}
        except Exception as error:  # noqa: BLE001 - the object may define attributes of its own
            fault, own, names = f"It can't be examined: {type(error).__name__}.", None, set()
        if fault is None and name in self._tools:
            other = self._tools[name].file
            fault = f"{other} has a tool of this name already: rename one of the two."
        if fault is not None:
            self._refuse(name, file, fault)
            return False
        own_file = self._imports.file_of(own)
        if own is None or own_file is None:
            own = module  # from a library: the module that exports it declares what it does
        self._tools[name] = LoadedFunction(
            name=name,
            function=value,
            groups=tuple(groups),
            destructive=self._is_destructive(names, own, offered_by=module),
            timeout_seconds=self._timeout_of(names, own, own_file or file),
            owners=self._owners_of(own, own_file or file),
            file=own_file or file,
        )
        return True

    def _timeout_of(self, names: set[str], own: ModuleType, file: str) -> float | None:
        """Return the module's ``__timeout__``: a number, or numbers by the names of functions."""
        declared = vars(own).get("__timeout__")
        if isinstance(declared, dict):
            for stranger in declared.keys() - vars(own).keys():
                self._refuse(str(stranger), file, "__timeout__ names it, and it is not defined.")
            declared = next((declared[name] for name in names if name in declared), None)
        if declared is None:
            return None
        if isinstance(declared, int | float) and declared is not True and 0 < declared < 1e9:
            return float(declared)
        reason = "It must be seconds above 0, or a dict of such by the names of functions; "
        self._refuse("__timeout__", file, f"{reason}until then it counts as if it were not there.")
        return None

    def _owners_of(self, own: ModuleType, file: str) -> Sequence[str] | None:
        """Return the module's ``__owners__``: nobody's function if they can't be understood."""
        if "__owners__" not in vars(own):
            return None
        owners = _names(vars(own)["__owners__"])
        if owners is None:
            reason = "It must be a list of names of owners; until then nobody may call its tools."
            self._refuse("__owners__", file, reason)
        return owners or ()

    def _is_destructive(self, names: set[str], own: ModuleType, *, offered_by: ModuleType) -> bool:
        """Return whether a module declares it so, or one declares nothing (``__init__.py`` may)."""
        declared = self._destructive_of(own)
        offered = self._destructive_of(offered_by)
        if offered is None and own is not offered_by and self._is_init(offered_by):
            offered = frozenset()
        return declared is None or offered is None or not names.isdisjoint(declared | offered)

    def _is_init(self, module: ModuleType) -> bool:
        return self._imports.file_of(module) == f"{INIT}.py"

    def _destructive_of(self, module: ModuleType) -> frozenset[str] | None:
        if module.__name__ not in self._declared:
            self._declared[module.__name__] = self._read_destructive(module)
        return self._declared[module.__name__]

    def _read_destructive(self, module: ModuleType) -> frozenset[str] | None:
        if "__destructive__" not in vars(module):
            return None
        file = self._imports.file_of(module) or f"{INIT}.py"
        listed = _names(vars(module)["__destructive__"])
        if listed is None:
            reason = "It must be a list of names; until then it counts as if it were not there."
            self._refuse("__destructive__", file, reason)
            return None
        for name in listed:
            if name not in vars(module):
                self._refuse(name, file, "__destructive__ lists it, and it is not defined.")
        return frozenset(listed)

    def _refuse(self, name: str, file: str, reason: str) -> None:
        entry = InvalidTool(
            name=join_surrogates(name), file=join_surrogates(file), reason=join_surrogates(reason)
        )
        if entry not in self._invalid:
            self._invalid.append(entry)


def _names(value: object) -> list[str] | None:
    """Return a list or tuple of strings as a list; None for anything else."""
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return list(value)
    return None


def _groups_of(module: ModuleType) -> dict[str, list[str]]:
    groups = {}
    for variable, value in vars(module).items():
        names = _names(value)
        is_dunder = variable.startswith("__") and variable.endswith("__") and len(variable) > 4
        if is_dunder and variable not in _NO_GROUPS and names is not None:
            groups[variable[2:-2]] = names
    return groups
