"""Collects what the modules of a folder need and what of it is missing. Nothing is installed."""

import platform
import re
import sys
from collections.abc import Mapping

import msgspec

from sessions_app.surrogates import join_surrogates
from tools_app.functions.installing import install_command
from tools_app.toolset import InvalidTool

# The reference implementation's:
# https://packaging.python.org/en/latest/specifications/inline-script-metadata/
_BLOCK = re.compile(r"(?m)^# /// script$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
_OPEN = re.compile(r"(?m)^# /// script$(?!\n# ///$)")
_FIRST_LINE = "# /// script"


class _Block(msgspec.Struct, rename="kebab"):
    dependencies: list[str] = []
    requires_python: str = ""


class Requirements:
    """Collects the requirements of a folder's modules; ``own`` are its names as a package."""

    def __init__(self, *own: str) -> None:
        self._own = {*own, *sys.stdlib_module_names}
        self._missing: dict[str, tuple[InvalidTool, str, list[str]]] = {}
        self._faults: list[InvalidTool] = []

    def add_failure(self, name: str, file: str, error: BaseException) -> None:
        """Note the module that a failed import did not find, unless it is one of the folder."""
        if isinstance(error, ModuleNotFoundError) and error.name:
            root = join_surrogates(error.name.partition(".")[0])
            if root not in self._own:
                words = "if its package has the same name"
                self._missing[name] = (_entry(file), words, [root])

    def read(self, name: str, file: str, source: bytes) -> None:
        """Read a module's block ``# /// script`` (PEP 723); a malformed one is a fault."""
        if _FIRST_LINE.encode() not in source:
            return
        try:
            block = _block_of("\n".join(source.decode(errors="replace").splitlines()))
            if missing := [each for each in block.dependencies if not _is_installed(each)]:
                words = f"not installed: {', '.join(missing)}; for all that is missing"
                self._missing[name] = (_entry(file), words, missing)
            _check_python(block.requires_python)
        except Exception as error:  # noqa: BLE001 - told: a block must not cost the other tools
            self._faults.append(_entry(file, f"The block can't be used: {error}."))

    def explained(self, failures: Mapping[str, InvalidTool]) -> list[InvalidTool]:
        """Return the failures with what to install, then what else is missing or malformed."""
        packages = dict.fromkeys(need for *_, needs in self._missing.values() for need in needs)
        command = join_surrogates(install_command([*packages])) if packages else ""
        entries = dict(failures)
        for name, (loaded, words, _) in self._missing.items():
            entry = entries.get(name, loaded)
            reason = f"{entry.reason}; {words}: `{command}`"
            entries[name] = msgspec.structs.replace(entry, reason=reason)
        return [*entries.values(), *self._faults]


def _entry(file: str, reason: str = "The file is loaded") -> InvalidTool:
    return InvalidTool(name=_FIRST_LINE, file=join_surrogates(file), reason=reason)


def _block_of(text: str) -> _Block:
    blocks = [found["content"] for found in _BLOCK.finditer(text)]
    if len(blocks) > 1:
        raise ValueError(f"there are {len(blocks)}, keep one")
    if not blocks and _OPEN.search(text):
        raise ValueError("begin each of its lines with '# ', and close it with '# ///'")
    # The marks of the comments are "# ", or "#" of an empty line.
    toml = "\n".join(line[2:] for block in blocks for line in block.splitlines())
    return msgspec.toml.decode(toml, type=_Block)


def _is_installed(dependency: str) -> bool:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - seldom needed

    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415

    try:
        required = Requirement(dependency)
        if required.marker is not None and not required.marker.evaluate():
            return True
        return required.specifier.contains(version(required.name), prereleases=True)
    except InvalidRequirement as error:
        raise ValueError(f"{dependency!r}: {str(error).splitlines()[0]}") from error
    except PackageNotFoundError:
        return False


def _check_python(required: str) -> None:
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - seldom needed

    own = platform.python_version()
    if not SpecifierSet(required).contains(own, prereleases=True):
        raise ValueError(f"requires-python is {required!r}, and this is Python {own}")
