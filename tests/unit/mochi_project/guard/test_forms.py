"""Forms on pages of links: the only bodies that are no JSON, of pages that tell no origin."""

import pytest

from mochi_project.guard.guard import Guard
from tests.unit.mochi_project.guard.asking import JSON, TOKEN, App, ask, settings

FORM = (b"content-type", b"application/x-www-form-urlencoded")
NO_ORIGIN = (b"origin", b"null")
LINK = "/a/token"
BODY = [b"decision=approve"]


@pytest.mark.parametrize(
    "headers",
    [
        (NO_ORIGIN, (b"sec-fetch-site", b"same-origin")),
        (NO_ORIGIN,),
        ((b"origin", b"http://localhost:8000"),),
        (),
    ],
)
async def test_the_form_of_a_link_needs_no_token(
    app: App, headers: tuple[tuple[bytes, bytes], ...]
) -> None:
    guard = Guard(app, settings(), token=TOKEN)
    reply = await ask(guard, FORM, *headers, method="POST", path=LINK, body=BODY)
    assert reply.status == 200
    assert app.bodies == BODY


@pytest.mark.parametrize(
    "headers",
    [
        ((b"origin", b"https://evil.example"),),
        (NO_ORIGIN, (b"sec-fetch-site", b"cross-site")),
        (NO_ORIGIN, (b"sec-fetch-site", b"same-site")),
    ],
)
async def test_forms_of_other_pages_are_refused(
    app: App, headers: tuple[tuple[bytes, bytes], ...]
) -> None:
    reply = await ask(Guard(app, settings()), FORM, *headers, method="POST", path=LINK, body=BODY)
    assert (reply.status, reply.code) == (403, "FORBIDDEN")
    assert app.scopes == []


@pytest.mark.parametrize("sent", [JSON, (b"content-type", b"text/plain"), (b"x-other", b"1")])
async def test_a_link_takes_no_other_body(app: App, sent: tuple[bytes, bytes]) -> None:
    reply = await ask(Guard(app, settings()), sent, method="POST", path=LINK, body=BODY)
    assert (reply.status, reply.code) == (415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize("path", ["/api/v1/sessions", "/a", "/", "/a/b/c"])
async def test_no_other_path_takes_the_form_of_a_page_without_origin(app: App, path: str) -> None:
    guard = Guard(app, settings())
    reply = await ask(guard, FORM, NO_ORIGIN, method="POST", path=path, body=BODY)
    assert (reply.status, reply.code) == (403, "FORBIDDEN")
    assert (await ask(guard, FORM, method="POST", path=path, body=BODY)).status == 415
    assert app.scopes == []


async def test_a_page_without_origin_reads_nothing(app: App) -> None:
    for method in ("GET", "HEAD", "OPTIONS", "DELETE"):
        reply = await ask(Guard(app, settings()), NO_ORIGIN, method=method, path=LINK)
        assert reply.status == 403
