"""What views find in a request."""

import pytest
from django.http.request import HttpHeaders

from mochi_project.fast_django.request import RequestHeaders

META = {
    "CONTENT_TYPE": "application/json",
    "CONTENT_LENGTH": "2",
    "HTTP_HOST": "localhost",
    "HTTP_IDEMPOTENCY_KEY": "once",
    "SERVER_NAME": "localhost",
}

pytestmark = pytest.mark.conformance


@pytest.mark.parametrize(
    "name",
    ["Host", "host", "Idempotency-Key", "IDEMPOTENCY_KEY", "content-type", "Content-Length"],
)
def test_a_header_is_found_by_its_name_in_any_case(name: str) -> None:
    assert RequestHeaders(META)[name] == HttpHeaders(META)[name]
    assert name in RequestHeaders(META)


@pytest.mark.parametrize("name", ["Server-Name", "Accept", ""])
def test_what_is_no_header_of_the_request_is_not_found(name: str) -> None:
    assert name not in RequestHeaders(META)
    assert RequestHeaders(META).get(name) is None


def test_all_headers_are_those_that_django_finds() -> None:
    assert dict(RequestHeaders(META)) == dict(HttpHeaders(META))
    assert len(RequestHeaders(META)) == 4


def test_one_header_is_read_without_the_others() -> None:
    read: list[str] = []

    class Meta(dict[str, str]):
        def __getitem__(self, key: str) -> str:
            read.append(key)
            return super().__getitem__(key)

    assert RequestHeaders(Meta(META))["Host"] == "localhost"

    assert read == ["HTTP_HOST"]
