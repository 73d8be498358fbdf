"""Names the command that gives this server further packages, as it was started."""

import os
import shlex
import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl


def install_command(packages: Sequence[str]) -> str:
    """Return a command for a shell; an installed tool keeps what it was installed with.

    What uv leaves tells how the server was started: the receipt of an installed tool, ``UV`` and
    ``UV_RUN_RECURSION_DEPTH`` for what it runs (https://docs.astral.sh/uv/reference/environment/).
    """
    receipt = Path(sys.prefix, "uv-receipt.toml")
    if receipt.is_file():
        try:
            first, *rest = tomllib.loads(receipt.read_text("utf-8"))["tool"]["requirements"]
            own = _words(first, editable="--editable")
            others = [w for e in rest for w in _words(e, "--with", editable="--with-editable")]
        except (OSError, ValueError, LookupError, TypeError):  # of another version of uv
            own, others = ["mochi-server"], []
        return shlex.join(["uv", "tool", "install", *others, *_with(packages), *own])
    if "UV" in os.environ:
        runs = ["uv", "run"] if "UV_RUN_RECURSION_DEPTH" in os.environ else ["uvx"]
        return shlex.join([*runs, *_with(packages), "mochi-server"])
    pip = [sys.executable, "-m", "pip", "install"]
    uv = ["uv", "pip", "install", "--python", sys.prefix]
    return shlex.join([*(pip if find_spec("pip") else uv), *packages])


def _with(packages: Sequence[str]) -> list[str]:
    return [word for package in packages for word in ("--with", package)]


def _words(entry: Mapping[str, Any], *flags: str, editable: str) -> list[str]:
    """Return a requirement of a receipt as ``uv tool install`` takes it."""
    name = entry["name"] + (f"[{','.join(entry['extras'])}]" if "extras" in entry else "")
    places = [entry[kind] for kind in ("directory", "editable", "path", "url") if kind in entry]
    if "git" in entry:  # URL?subdirectory=FOLDER&rev=REF
        url, _, query = entry["git"].partition("?")
        marks = {"rev": "@", "tag": "@", "branch": "@", "subdirectory": "#subdirectory="}
        fields = dict(parse_qsl(query))
        places = ["".join(["git+", url, *(marks[m] + fields[m] for m in marks if m in fields)])]
    requirement = f"{name} @ {places[0]}" if places else name + entry.get("specifier", "")
    return [*([editable] if "editable" in entry else flags), requirement]
