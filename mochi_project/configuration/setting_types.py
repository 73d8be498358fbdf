"""Defines the types of settings, with their validators; what one app has is in its own module."""

import ipaddress
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationInfo

from mochi_project.configuration.constants import WINGS
from mochi_project.configuration.extras import require_extra
from sessions_app.store.redis_url import parse_redis_url

UNIX_PEER = "unix"
"""The name of a Unix socket's peers, which have no address."""

SECRET_KEY_LENGTH = 32
"""The fewest characters: who guesses the key can have a worker run any code."""

ROOT_PATH = re.compile(r"(?!/api(?:/|$))(?:/[A-Za-z0-9._~-]+)+")
"""A path of links: no empty part, which could name another host, nor the API's own first part."""


def _http_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an http:// or https:// URL")
    _ = parts.port  # raises ValueError when it is no port number
    return value.rstrip("/")


def _public_url(value: str) -> str:
    parts = urlsplit(_http_url(value))
    path = parts.path.rstrip("/")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("must be the address alone: without a user, a query and a fragment")
    if path and not ROOT_PATH.fullmatch(path):
        raise ValueError("must have no path, or one like /mochi, not below /api")
    return f"{parts.scheme}://{parts.netloc.lower()}{path}"


def _expanded(value: Path) -> Path:
    try:
        return value.expanduser()
    except RuntimeError as error:  # ~nobody/data
        raise ValueError(f"can't be used: {error}") from error


def split_list(value: Any) -> Any:
    """Return the items of a setting that is a comma-separated or JSON list."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError as error:
            raise ValueError("must be a JSON list or a comma-separated list") from error
    return [item.strip() for item in value.split(",") if item.strip()]


def _checked_origins(origins: list[str]) -> list[str]:
    for origin in origins:
        parts = urlsplit(origin)
        if not parts.scheme or not parts.netloc or parts.path.strip("/"):
            raise ValueError("must list origins, each as scheme://host[:port]")
    return [origin.rstrip("/") for origin in origins]


def _hard_to_guess(value: SecretStr) -> SecretStr:
    if len(value.get_secret_value()) < SECRET_KEY_LENGTH:
        raise ValueError(
            f"must have at least {SECRET_KEY_LENGTH} characters (`openssl rand -hex 32` makes one)"
        )
    return value


def _fitting_a_header(value: SecretStr) -> SecretStr | None:
    """Return a token that can be sent in a header; None for an empty one."""
    secret = value.get_secret_value()
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ValueError("must be ASCII without spaces, so that it fits an HTTP header")
    return value if secret else None


def _checked_root_path(value: str) -> str:
    path = value.rstrip("/")
    if path and not ROOT_PATH.fullmatch(path):
        raise ValueError("must be a path like /mochi (letters, digits and . _ ~ -), not below /api")
    return path


_OF_OTHER_MEANING = frozenset(
    {"authorization", "api-key", "content-length", "content-type", "cookie", "host", "origin"}
)


def _checked_owner_header(name: str) -> str:
    lowered = name.lower()
    if not re.fullmatch("[a-z0-9-]+", lowered):
        raise ValueError("must be the name of a header: letters, digits and -")
    if lowered in _OF_OTHER_MEANING or lowered.startswith(("x-api-key", "x-mochi-", "sec-")):
        raise ValueError("can't be a header with another meaning")
    return name


def _upper_case(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _checked_proxies(names: list[str], info: ValidationInfo) -> list[str]:
    """Validate names of proxies.

    Raises:
        ValueError: One is neither an IP address nor a network nor ``unix``, or is everybody.
    """
    for name in names:
        if name == UNIX_PEER:
            if info.data.get("unix_socket_mode") == "0666":
                raise ValueError("can't list unix with MOCHI_UNIX_SOCKET_MODE=0666: use 0660")
        else:
            try:
                network = ipaddress.ip_network(name, strict=False)
            except ValueError as error:
                raise ValueError(
                    "must list IP addresses or networks (10.0.0.0/8), or unix for a Unix socket"
                ) from error
            if network.prefixlen == 0:
                raise ValueError("can't list every address: nobody would need a token")
    return names


_OF_WINGS = {
    "journal_url": "cluster_app",
    "metrics": "usage_app",
    "traces": "usage_app",
    "test_mode": "scripted_app",
}
"""The settings that need an app which may be left out."""


def _checked_wings(names: list[str], info: ValidationInfo) -> list[str]:
    """Validate the names of apps to leave out, after all other settings.

    Raises:
        ValueError: One can't be left out, or another setting needs it.
    """
    if not set(names) <= set(WINGS):
        raise ValueError(f"must list apps that may be left out: {', '.join(WINGS)}")
    for setting, wing in _OF_WINGS.items():
        has_own_model = setting == "test_mode" and info.data.get("test_model_url")
        if wing in names and info.data.get(setting) and not has_own_model:
            hint = " without MOCHI_TEST_MODEL_URL" if setting == "test_mode" else ""
            raise ValueError(f"can't list {wing}, which MOCHI_{setting.upper()} needs{hint}")
    return names


Seconds = Annotated[float, Field(gt=0, le=86_400 * 365)]
List = Annotated[list[str], BeforeValidator(split_list)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
PublicUrl = Annotated[str, AfterValidator(_public_url)]
Wings = Annotated[List, AfterValidator(_checked_wings)]
Proxies = Annotated[List, AfterValidator(_checked_proxies)]
Origins = Annotated[List, AfterValidator(_checked_origins)]
Token = Annotated[SecretStr, AfterValidator(_fitting_a_header)]
SecretKey = Annotated[SecretStr, AfterValidator(_hard_to_guess)]
OwnerHeader = Annotated[str, AfterValidator(_checked_owner_header)]
RootPathSetting = Annotated[str, AfterValidator(_checked_root_path)]
LogLevel = Annotated[
    Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], BeforeValidator(_upper_case)
]
DataPath = Annotated[Path, AfterValidator(_expanded)]


EXTRA = "cluster"
OBJECT_SCHEMES = ("s3", "az", "gs")
_JOURNAL_LIBRARIES = ("redis", "hiredis")
_SESSIONS_LIBRARIES = ("obstore",)


def _journal_url(url: str) -> str:
    parse_redis_url(url)
    require_extra(EXTRA, _JOURNAL_LIBRARIES)
    return url


def _sessions_url(url: str) -> str:
    schemes = " or ".join(f"{scheme}://bucket/prefix" for scheme in OBJECT_SCHEMES)
    wrong = ValueError(f"must be a URL of an object store: {schemes}")
    try:
        parts = urlsplit(url)
    except ValueError:  # it quotes what may be a key
        raise wrong from None
    if parts.scheme not in OBJECT_SCHEMES or not parts.netloc:
        raise wrong
    require_extra(EXTRA, _SESSIONS_LIBRARIES)
    return url


JournalUrl = Annotated[str, AfterValidator(_journal_url)]
SessionsUrl = Annotated[str, AfterValidator(_sessions_url)]
