"""Types of the variables' values."""

import json
import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from mochi_project.edge.proxies import checked_proxies

_OWN_TOKEN = "MOCHI_API_TOKEN"  # noqa: S105 - its name
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _http_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an http:// or https:// URL")
    _ = parts.port  # raises ValueError when it is no port number
    return value.rstrip("/")


def _expanded(value: Path) -> Path:
    try:
        return value.expanduser()
    except RuntimeError as error:  # ~nobody/data
        raise ValueError(f"can't be used: {error}") from error


def _split(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError as error:
            raise ValueError("must be a JSON list or a comma-separated list") from error
    return [item.strip() for item in value.split(",") if item.strip()]


def _checked_names(names: list[str]) -> list[str]:
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise ValueError("must list names of environment variables")
        if name.upper() == _OWN_TOKEN:
            raise ValueError(f"can't list {_OWN_TOKEN}: whoever has it can approve its own calls")
    return names


Seconds = Annotated[float, Field(gt=0, le=86_400 * 365)]
List = Annotated[list[str], BeforeValidator(_split)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
VariableNames = Annotated[List, AfterValidator(_checked_names)]
Proxies = Annotated[list[str], BeforeValidator(_split), AfterValidator(checked_proxies)]
DataPath = Annotated[Path, AfterValidator(_expanded)]
