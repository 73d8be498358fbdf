from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from django.core.exceptions import RequestDataTooBig
from django.core.handlers.asgi import ASGIRequest
from django.test import override_settings

from mochi_project.fast_django.request import LeanRequest

BODY = b'{"a": 1}'


def scope(**changes: Any) -> dict[str, Any]:
    return {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/chat",
        "query_string": b"a=%C3%A4&b=2",
        "headers": [
            (b"host", b"localhost:8000"),
            (b"content-type", b"application/json; charset=latin-1"),
            (b"content-length", b"8"),
            (b"x-many", b"one"),
            (b"x-many", b"two"),
            (b"x_underscore", b"no"),
            (b"cookie", b"a=b"),
        ],
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 5000),
        **changes,
    }


@pytest.mark.parametrize(
    "asked",
    [
        lambda request: request.META,
        lambda request: dict(request.headers),
        lambda request: (request.content_type, request.content_params, request.encoding),
        lambda request: (request.content_params, request.content_type),
        lambda request: (request.path, request.path_info, request.script_name, request.method),
        lambda request: (request.GET, request.COOKIES, request.scheme),
        lambda request: (request.get_host(), request.get_full_path(), request.get_port()),
        lambda request: (request.body, request.read()),
        lambda request: (request.read(3), request.read()),
        lambda request: request.resolver_match,
    ],
)
@pytest.mark.parametrize(
    "changes", [{}, {"root_path": "/behind", "path": "/behind/api"}, {"headers": []}]
)
def test_whatever_is_asked_it_answers_like_djangos_own(
    asked: Callable[[ASGIRequest], Any], changes: dict[str, Any]
) -> None:
    ours = asked(LeanRequest(scope(**changes), BytesIO(BODY)))
    assert ours == asked(ASGIRequest(scope(**changes), BytesIO(BODY)))


def test_a_query_that_is_no_utf8_is_refused_as_by_django() -> None:
    with pytest.raises(UnicodeDecodeError):
        LeanRequest(scope(query_string=b"a=\xff"), BytesIO(BODY))


def test_a_body_beyond_djangos_limit_is_refused_as_by_django() -> None:
    with override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=4):
        request = LeanRequest(scope(), BytesIO(BODY))
        with pytest.raises(RequestDataTooBig):
            _ = request.body


def test_what_stands_in_the_headers_is_read_when_it_is_asked_for() -> None:
    request = LeanRequest(scope(), BytesIO(BODY))
    assert request.body == BODY
    assert "META" not in vars(request)
