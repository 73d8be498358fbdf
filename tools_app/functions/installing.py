"""Names the command that gives this server further packages, as it was started."""

import os
import shlex
import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def install_command(packages: Sequence[str]) -> str:
    """Return a command for a shell; an installed tool keeps what it was installed with.

    What uv leaves tells how the server was started: the receipt of an installed tool, ``UV`` and
    ``UV_RUN_RECURSION_DEPTH`` for what it runs (https://docs.astral.sh/uv/reference/environment/).
    """
    receipt = Path(sys.prefix, "uv-receipt.toml")
    if receipt.is_file():
        try:
            listed = tomllib.loads(receipt.read_text("utf-8"))["tool"]["requirements"]
            own, *others = map(_requirement, listed)
        except (OSError, ValueError, LookupError, TypeError):  # of another version of uv
            own, others = "mochi-server", []
        return shlex.join(["uv", "tool", "install", *_with([*others, *packages]), own])
    if "UV" in os.environ:
        runs = ["uv", "run"] if "UV_RUN_RECURSION_DEPTH" in os.environ else ["uvx"]
        return shlex.join([*runs, *_with(packages), "mochi-server"])
    pip = [sys.executable, "-m", "pip", "install"]
    uv = ["uv", "pip", "install", "--python", sys.prefix]
    return shlex.join([*(pip if find_spec("pip") else uv), *packages])


def _with(packages: Sequence[str]) -> list[str]:
    return [word for package in packages for word in ("--with", package)]


def _requirement(entry: Mapping[str, Any]) -> str:
    """Return a requirement of a receipt as ``uv tool install`` takes it."""
    places = [entry[kind] for kind in ("directory", "editable", "path", "url") if kind in entry]
    places += [f"git+{entry['git']}"] if "git" in entry else []
    extras = f"[{','.join(entry['extras'])}]" if "extras" in entry else ""
    return f"{[*places, entry['name']][0]}{extras}{entry.get('specifier', '')}"
