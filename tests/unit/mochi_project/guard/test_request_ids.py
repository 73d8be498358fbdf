"""Answers below ``/v1`` bear an id, the request's own one if it is fit to be repeated."""

import pytest

from mochi_project.guard.guard import Guard
from mochi_project.guard.request_ids import request_id
from tests.unit.mochi_project.guard.asking import TOKEN, App, ask, settings

NAME = b"x-request-id"


@pytest.mark.parametrize("given", [b"req-1", b"3f2a", b"a" * 128, b"01H.x:y_z"])
def test_the_id_that_a_request_has_is_kept(given: bytes) -> None:
    assert request_id(given) == given


@pytest.mark.parametrize(
    "given", [None, b"", b"-a", b"a b", b"a\r\nb", b"a\nb", b"\xff", b"a,b", b"<a>", b"a" * 129]
)
def test_an_id_that_had_better_not_be_repeated_is_replaced(given: bytes | None) -> None:
    made = request_id(given)

    assert made.startswith(b"req_")
    assert made != request_id(given)


@pytest.mark.parametrize("path", ["/v1/models", "/v1", "/v1/no/such"])
async def test_answers_below_v1_bear_one(app: App, path: str) -> None:
    guard = Guard(app, settings())

    assert (await ask(guard, path=path)).headers[NAME].startswith(b"req_")
    assert (await ask(guard, (NAME, b"mine"), path=path)).headers[NAME] == b"mine"


async def test_one_that_was_sent_twice_harms_nobody(app: App) -> None:
    reply = await ask(Guard(app, settings()), (NAME, b"a"), (NAME, b"b"), path="/v1/models")

    assert (reply.status, reply.headers[NAME]) == (200, b"b")


async def test_refusals_bear_one_too(app: App) -> None:
    guard = Guard(app, settings(), token=TOKEN)

    refused = await ask(guard, (NAME, b"mine"), path="/v1/models")
    foreign = await ask(guard, path="/v1/models", host=b"evil.example")

    assert (refused.status, refused.headers[NAME]) == (401, b"mine")
    assert foreign.status == 403
    assert foreign.headers[NAME].startswith(b"req_")


async def test_the_id_of_the_application_goes_first(app: App) -> None:
    app.headers = [(b"X-Request-Id", b"its own")]

    reply = await ask(Guard(app, settings()), path="/v1/models")

    assert [value for name, value in reply.header_list if name == NAME] == [b"its own"]


async def test_other_routes_bear_none(app: App) -> None:
    assert NAME not in (await ask(Guard(app, settings()), (NAME, b"mine"))).headers
