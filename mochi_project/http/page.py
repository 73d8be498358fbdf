"""Builds pages for people who follow a link from elsewhere.

They have no script, are not stored, and tell nobody where they were opened from, as their addresses
hold secrets (docs/decisions/0199).
"""

import hashlib
from base64 import b64encode

from django.http import HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mochi_project.errors.statuses import ERROR_HEADER

_STYLE = (
    "body{font:1.1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:2rem auto;padding:0 1rem;"
    "color-scheme:light dark}pre{white-space:pre-wrap;overflow-wrap:anywhere;padding:1rem;"
    "border:1px solid;border-radius:.5rem}button{font:inherit;padding:.6rem 1.4rem;"
    "margin-right:1rem}"
)
_HASH = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_HASH}'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}


def plain_page(
    status: int, title: str, content: SafeString | str = "", *, code: str = "NOT_FOUND"
) -> HttpResponse:
    """Return a page.

    Args:
        status: Its status.
        title: Its title and heading, not escaped.
        content: What follows; escaped, unless it is marked as safe.
        code: The error, if the status is that of one.
    """
    html = format_html(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{}</title>'
        '<meta name="viewport" content="width=device-width"><style>{}</style></head>'
        "<body><h1>{}</h1>{}</body></html>",
        title,
        SafeString(_STYLE),
        title,
        content,
    )
    response = HttpResponse(html, status=status, headers=_HEADERS)
    if status >= 400:  # it is the whole answer: neither an envelope nor a line with the path
        response[ERROR_HEADER] = code
        # private: HttpResponse._has_been_logged, as in mochi_project/errors/handlers.py.
        vars(response)["_has_been_logged"] = True
    return response
