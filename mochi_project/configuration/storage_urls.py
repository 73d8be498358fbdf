"""Defines the types of the URLs of stores, which are checked without importing their libraries."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from mochi_project.configuration.extras import require_extra
from sessions_app.store.redis_url import parse_redis_url

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
