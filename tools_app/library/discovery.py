"""Discovers the tools of a folder in this process, for users of the library."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools_app.errors import ToolNotFound
from tools_app.functions.loading import LoadedFolder, load_folder
from tools_app.toolset import InvalidTool, ToolListing


class ToolDiscoveryService:
    """Finds the tools of a folder.

    The modules are imported in this process, on first use: a module that hangs, hangs its caller.
    (The server imports them in tool processes.) The folder and its parent are appended to
    ``sys.path``.

    Args:
        tools_dir: The folder. A folder that does not exist has no tools.
    """

    def __init__(self, tools_dir: str | os.PathLike[str]) -> None:
        self.tools_dir = Path(tools_dir)
        self._found: tuple[LoadedFolder, ToolListing] | None = None
        self._lock = threading.RLock()

    def discover_tools(self) -> Mapping[str, Callable[..., Any]]:
        """Return the functions by name; the folder is loaded once."""
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
            ToolNotFound: There is no such tool, or it is invalid.
        """
        try:
            return self.discover_tools()[name]
        except KeyError:
            raise ToolNotFound(name) from None

    def get_groups(self) -> Mapping[str, Sequence[str]]:
        """Return the names of tools by group."""
        return self._discovered()[1].groups

    def is_destructive(self, name: str) -> bool:
        """Return whether the tool counts as destructive; an unknown one does."""
        tool = self._discovered()[1].tools.get(name)
        return tool is None or tool.destructive

    @property
    def invalid(self) -> Sequence[InvalidTool]:
        """Return what can't be offered, with the reasons."""
        return self._discovered()[1].invalid

    def _discovered(self) -> tuple[LoadedFolder, ToolListing]:
        with self._lock:
            if self._found is None:
                loaded = load_folder(self.tools_dir)
                self._found = (loaded, loaded.report())
            return self._found
