"""Imports the modules of one folder so that a module that fails does not affect the others.

Runs in tool processes, and in programs that use the library.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import keyword
import linecache
import os
import re
import sys
import traceback
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NoReturn, TypeGuard

import typing_extensions

from sessions_app.surrogates import join_surrogates
from tools_app.functions.requirements import Requirements
from tools_app.text import shortened, words_of
from tools_app.toolset import InvalidTool

PREFIX = "mochi_tools_"
MAX_REASON_CHARS = 500
INIT = "__init__"

_installed: dict[Path, "FolderImports"] = {}


class Placeholder:
    """Stands for a name from a module that could not be imported."""

    def __init__(self, name: str, file: str, reason: str) -> None:
        self.reason = f"It comes from {file}, which can't be imported: {reason}"
        self._message = f"{name!r} comes from {file}, which can't be imported: {reason}"

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Raise ImportError, so that a function that needs the name fails with the reason."""
        raise ImportError(self._message)


class _Stub(ModuleType):
    """A module that could not be imported: each of its names is a placeholder."""

    def __getattr__(self, name: str) -> Placeholder:
        if name.startswith("__"):
            raise AttributeError(name)
        file, reason = self.__dict__["__mochi_failure__"]
        return Placeholder(name, file, reason)


class _FreshSource(importlib.machinery.SourceFileLoader):
    """Compiles the file, without a bytecode cache.

    Python takes cached bytecode for current if size and second of change are the same, so a quick
    edit could be missed. And users' folders get no ``__pycache__`` of ours.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class _GuardedLoader(importlib.abc.Loader):
    """Reports which module runs; makes a stub of one that fails while its folder is loaded."""

    def __init__(self, loader: importlib.abc.Loader, name: str, imports: "FolderImports") -> None:
        self._loader = loader
        self._name = name
        self._imports = imports

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._imports.execute(self._loader, self._name, module)

    def __getattr__(self, name: str) -> Any:  # get_source, get_filename, ...
        return getattr(self._loader, name)


class FolderImports(importlib.abc.MetaPathFinder):
    """The import environment of one folder.

    The folder is a package, with its own name if that is free. The folder and its parent are also
    appended to ``sys.path``: ``import math_tools`` finds a sibling, and a sibling ``random.py``
    never hides Python's own. Both stay after loading, since functions import, too.

    Attributes:
        package: The name of the folder as a package.
        failures: Modules that could not be imported, by name, with the reasons.
        requirements: What the modules need.
    """

    def __init__(
        self,
        folder: Path,
        *,
        skip: Mapping[str, str],
        on_loading: Callable[[str], None],
    ) -> None:
        self.folder = folder
        self.failures: dict[str, InvalidTool] = {}
        self._skip = skip
        self._on_loading = on_loading
        self._inside = f"{folder}{os.sep}"
        self._running: list[str] = []
        self._reported: str | None = None
        self._loading = False
        self._roots: set[str] = set()
        self._added: list[str] = []
        if (previous := _installed.get(folder)) is not None:
            previous.uninstall()
        self.package = _free_name(folder)
        self.requirements = Requirements(self.package, folder.name)
        self._install()

    def _install(self) -> None:
        _installed[self.folder] = self
        for directory in (str(self.folder.parent), str(self.folder)):
            if directory not in sys.path:
                sys.path.append(directory)
                self._added.append(directory)
        # After the finders of built-in modules, before PathFinder.
        behind = (*_installed.values(), importlib.machinery.PathFinder)
        finders = sys.meta_path
        finders.insert(
            next((at for at, finder in enumerate(finders) if finder in behind), len(finders)), self
        )
        importlib.invalidate_caches()

    def uninstall(self) -> None:
        """Remove the folder's modules from ``sys.modules``, so that the next import runs them."""
        _installed.pop(self.folder, None)
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for directory in self._added:
            if directory in sys.path:
                sys.path.remove(directory)
        self._forget({self.package, *self._roots})
        linecache.checkcache()

    def _forget(self, roots: Collection[str]) -> None:
        for name, module in list(sys.modules.items()):
            root = name.partition(".")[0]
            if root in roots and (root == self.package or self.file_of(module) is not None):
                del sys.modules[name]

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Guard the imports within: a failing module becomes a stub, listed in ``failures``."""
        for other in _installed.values():
            if other is not self:
                # ``import helper`` means this folder's, not that of one loaded before.
                other._forget([root for root in other._roots if self._has(root)])  # noqa: SLF001
        self._loading = True
        try:
            with _typed_dicts_for_pydantic():
                yield
        finally:
            self._loading = False

    @contextmanager
    def busy_with(self, name: str) -> Iterator[None]:
        """Report that the module runs now, and afterwards the one before it."""
        self._running.append(name)
        self._report()
        try:
            yield
        finally:
            self._running.pop()
            self._report()

    def _report(self) -> None:
        if self._running and self._running[-1] != self._reported:
            self._reported = self._running[-1]
            self._on_loading(self._reported)

    def fail(self, name: str, file: str, reason: str) -> None:
        """Record why a module can't be used."""
        entry = InvalidTool(
            name=join_surrogates(name), file=join_surrogates(file), reason=join_surrogates(reason)
        )
        self.failures.setdefault(name, entry)

    def is_skipped(self, name: str) -> bool:
        """Return whether the module must not run; record it as failed if so."""
        if name in self._skip:
            self.fail(name, f"{name}.py", self._skip[name])
        return name in self._skip

    def import_package(self) -> ModuleType | None:
        """Import the folder's ``__init__.py``; return None if that failed."""
        init = str(self.folder / f"{INIT}.py")
        loader = _GuardedLoader(_FreshSource(self.package, init), INIT, self)
        spec = importlib.util.spec_from_file_location(
            self.package, init, loader=loader, submodule_search_locations=[str(self.folder)]
        )
        if spec is None:
            raise ImportError(f"{init} can't be imported.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[self.package] = module
        loader.exec_module(module)
        return None if INIT in self.failures else module

    def import_without_init(self) -> None:
        """Make a package of a folder without ``__init__.py``."""
        spec = importlib.machinery.ModuleSpec(self.package, None, is_package=True)
        spec.submodule_search_locations = [str(self.folder)]
        sys.modules[self.package] = importlib.util.module_from_spec(spec)

    def import_file(self, name: str) -> ModuleType | None:
        """Import a module of the folder; return None if that failed."""
        try:
            module = importlib.import_module(f"{self.package}.{name}")
        except (
            ImportError,
            KeyError,
        ) as error:  # deleted meanwhile, or removed from sys.modules by itself
            self.fail(name, f"{name}.py", _reason_of(error, ""))
        return None if name in self.failures else module

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find modules of the folder, under whatever name they are imported."""
        name = self._name_in_folder(fullname)
        if name is None:
            return self._find_beside(fullname, path)
        find = importlib.machinery.PathFinder.find_spec
        spec = find(fullname, path, target)
        if spec is not None and any(o.has_file(spec.origin) for o in _installed.values()):
            spec = spec if self.has_file(spec.origin) else find(fullname, [str(self.folder)])
        if spec is None or spec.loader is None or not self.has_file(spec.origin):
            return None
        root = fullname.partition(".")[0]
        if root != self.package:
            self._roots.add(root)
        loader: importlib.abc.Loader = spec.loader
        if isinstance(loader, importlib.machinery.SourceFileLoader) and spec.origin:
            loader = _FreshSource(fullname, spec.origin)
            spec.cached = None
        spec.loader = _GuardedLoader(loader, name, self)
        return spec

    def _find_beside(
        self, fullname: str, path: Sequence[str] | None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find modules beside the folder, and in its directories that are not packages.

        Only to bypass their bytecode caches, which may not match the sources. The libraries of a
        virtual environment in there are left to Python.
        """
        root = fullname.partition(".")[0]
        near = [base / root for base in (self.folder.parent, self.folder)]
        inside = tuple(f"{at}{os.sep}" for at in near)
        if path is None:
            is_near = any(at.with_name(f"{root}.py").exists() or at.is_dir() for at in near)
        else:
            is_near = any(f"{place}{os.sep}".startswith(inside) for place in path)
        if not is_near:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return None
        origin = spec.origin or ""
        if not origin.startswith((*inside, f"{near[0]}.py")):
            return None
        spec.loader = _FreshSource(fullname, origin)
        spec.cached = None
        return spec

    def execute(self, loader: importlib.abc.Loader, name: str, module: ModuleType) -> None:
        """Run a module of the folder; while the folder is loaded, never raises."""
        if not self._loading:
            loader.exec_module(module)
            return
        file, path = self.file_of(module) or module.__name__, module.__file__ or ""
        with self.busy_with(name):
            reason = self._skip.get(name)
            if reason is None:
                try:
                    loader.exec_module(module)
                except BaseException as error:  # noqa: BLE001 - SystemExit, too, fails one module only
                    reason = _reason_of(error, path)
                    self.requirements.add_failure(name, file, error)
        if path.endswith(".py"):
            with suppress(OSError):  # deleted meanwhile
                self.requirements.read(name, file, Path(path).read_bytes())
        if reason is not None:
            self.fail(name, file, reason)
            _make_stub(module, file, reason)

    def file_of(self, module: ModuleType | None) -> str | None:
        """Return the module's file relative to the folder; None if it is elsewhere."""
        file = getattr(module, "__file__", None)
        return file[len(self._inside) :] if self.has_file(file) else None

    def has_file(self, file: str | None) -> TypeGuard[str]:
        """Return whether the file is in the folder."""
        return isinstance(file, str) and file.startswith(self._inside)

    def _name_in_folder(self, fullname: str) -> str | None:
        root, _, rest = fullname.partition(".")
        if root == self.package:
            return rest or None
        if rest:
            return fullname if root in self._roots else None
        return fullname if self._has(fullname) else None

    def _has(self, name: str) -> bool:
        candidates = (self.folder / f"{name}.py", self.folder / name / f"{INIT}.py")
        return any(path.exists() for path in candidates)


@contextmanager
def _typed_dicts_for_pydantic() -> Iterator[None]:
    """Make ``from typing import TypedDict`` work with pydantic before Python 3.12, too.

    Pydantic refuses that of Python 3.11, and requires the one of ``typing_extensions``.
    """
    if sys.version_info >= (3, 12):
        yield
        return
    own = typing.TypedDict
    typing.TypedDict = typing_extensions.TypedDict
    try:
        yield
    finally:
        typing.TypedDict = own


def _make_stub(module: ModuleType, file: str, reason: str) -> None:
    namespace = vars(module)
    for name in [name for name in namespace if not str(name).startswith("__")]:
        del namespace[name]
    namespace["__all__"] = []
    namespace["__mochi_failure__"] = (file, reason)
    module.__class__ = _Stub


def _free_name(folder: Path) -> str:
    """Return a package name for the folder: its own, if that is free."""
    name = folder.name
    if name.isidentifier() and not keyword.iskeyword(name) and not _is_taken(name, folder):
        return name
    name = PREFIX + re.sub(r"\W", "_", name)
    free, number = name, 2
    while free in sys.modules:
        free, number = f"{name}_{number}", number + 1
    return free


def _is_taken(name: str, folder: Path) -> bool:
    if name in sys.modules or name in sys.stdlib_module_names:
        return True
    spec = importlib.util.find_spec(name)
    # A directory without ``__init__.py`` somewhere on the path does not count as a library.
    return (
        spec is not None
        and spec.origin is not None
        and not spec.origin.startswith(f"{folder}{os.sep}")
    )


def _reason_of(error: BaseException, file: str) -> str:
    """Return the reason of a failed import, with the line in the file."""
    if isinstance(error, SyntaxError):
        where = f"line {error.lineno}" if error.filename == file else f"{error.filename}"
        return shortened(f"{type(error).__name__}: {error.msg} ({where})", MAX_REASON_CHARS)
    if isinstance(error, SystemExit):
        text = "It ends the process (sys.exit) while it is imported"
    else:
        text = str(error) if type(error) is ModuleNotFoundError else words_of(error)
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == file
    ]
    return shortened(f"{text} (line {lines[-1]})" if lines else text, MAX_REASON_CHARS)
