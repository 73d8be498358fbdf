"""The tools of a folder as functions in this process: the library class for discovery."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools_app.errors import ToolNotFound
from tools_app.functions.loading import FolderLoader, LoadedFolder
from tools_app.toolset import InvalidTool, ToolListing


class ToolDiscoveryService:
    """Finds the tools of a folder (seed 000 section 13.5). Usable as a library.

    The modules are imported in this process, at the first question: a module that hangs, hangs
    its caller. The server never does this; it asks processes of their own. The folder, and the
    one that holds it, are put at the end of ``sys.path``.

    Args:
        tools_dir: The folder. A folder that does not exist has no tools.
    """

    def __init__(self, tools_dir: str | os.PathLike[str]) -> None:
        self.tools_dir = Path(tools_dir)
        self._found: tuple[LoadedFolder, ToolListing] | None = None
        self._lock = threading.RLock()

    def discover_tools(self) -> Mapping[str, Callable[..., Any]]:
        """Return the functions by name; the folder is read once."""
        loaded, listing = self._discovered()
        return {name: loaded.tools[name].function for name in listing.tools}

    def reload_tools(self) -> Mapping[str, Callable[..., Any]]:
        """Execute the folder's modules again, and return the functions by name."""
        with self._lock:
            self._found = None
            return self.discover_tools()

    def get_tool(self, name: str) -> Callable[..., Any]:
        """Return one function.

        Raises:
            ToolNotFound: There is none of this name, or it is invalid.
        """
        try:
            return self.discover_tools()[name]
        except KeyError:
            raise ToolNotFound(name) from None

    def get_groups(self) -> Mapping[str, Sequence[str]]:
        """Return the names of each group's tools."""
        return self._discovered()[1].groups

    def is_destructive(self, name: str) -> bool:
        """Whether ``confirm_destructive`` asks before this tool runs; it does of an unknown one."""
        tool = self._discovered()[1].tools.get(name)
        return tool is None or tool.destructive

    @property
    def invalid(self) -> Sequence[InvalidTool]:
        """What can't be offered, and why."""
        return self._discovered()[1].invalid

    def _discovered(self) -> tuple[LoadedFolder, ToolListing]:
        with self._lock:
            if self._found is None:
                loaded = FolderLoader(self.tools_dir).load()
                self._found = (loaded, loaded.report())
            return self._found
