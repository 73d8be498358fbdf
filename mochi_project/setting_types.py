"""Types of the variables' values."""

import json
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from mochi_project.edge.proxies import checked_proxies


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


Seconds = Annotated[float, Field(gt=0, le=86_400 * 365)]
List = Annotated[list[str], BeforeValidator(_split)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
Proxies = Annotated[list[str], BeforeValidator(_split), AfterValidator(checked_proxies)]
DataPath = Annotated[Path, AfterValidator(_expanded)]
