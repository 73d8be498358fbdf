import errno
import gc
import importlib
import json
import pkgutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from django.core.exceptions import SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from django.test import override_settings
from django.urls import path, re_path
from ninja import Query, Router
from ninja.errors import HttpError
from pydantic import AfterValidator, BaseModel, Field

from mochi_project.app import mochi_apps
from mochi_project.errors.handlers import (
    ForgetfulAPI,
    field_of,
    install_error_handlers,
    unknown_path_view,
)
from mochi_project.errors.statuses import envelope, retry_after, statuses
from mochi_project.fast_django.handler import AsyncHandler
from mochi_project.http.strict_json import StrictJsonParser
from sessions_app.bounds import MOST_ERRORS
from sessions_app.errors import MochiError, SessionBusy, SessionNotFound, ValidationFailed

pytestmark = pytest.mark.conformance


class Options(BaseModel):
    seed: int = 0


class Body(BaseModel):
    message: str = Field("hi", min_length=1)
    options: list[Options] = []


def refuse(value: str) -> str:
    raise ValueError(f"can't be {value!r}")


class Refused(BaseModel):
    names: list[Annotated[str, AfterValidator(refuse)]]


class Policies(BaseModel):
    policies: dict[str, str]


class Filters(BaseModel):
    limit: int = Field(10, ge=1)


api = ForgetfulAPI(urls_namespace="error-tests", parser=StrictJsonParser(), docs_url=None)
install_error_handlers(api)
router = Router()


@router.post("/echo")
async def echo(request: HttpRequest, body: Body) -> dict[str, Any]:
    return body.model_dump()


@router.post("/policies")
async def policies(request: HttpRequest, body: Policies) -> None:
    pass


@router.post("/refused")
async def refused(request: HttpRequest, body: Refused) -> None:
    pass


@router.get("/list/{number}")
async def listing(request: HttpRequest, number: int, filters: Query[Filters]) -> dict[str, Any]:
    return {"number": number, "limit": filters.limit}


class Unlisted(MochiError):
    code = "NOBODY_LISTED_ME"


RAISES: dict[str, Exception] = {
    "busy": SessionBusy("a1b2c3d4e5", turn_id="t1"),
    "missing": SessionNotFound("a1b2c3d4e5"),
    "invalid": ValidationFailed("Say something.", field="message"),
    "crash": RuntimeError("secret-in-a-crash"),
    "unlisted": Unlisted("?"),
    "read_only": OSError(errno.EROFS, "secret-path"),
    "full": OSError(errno.ENOSPC, "secret-path"),
    "disk": OSError(errno.EIO, "secret-path"),
    "other": OSError(errno.EBADF, "secret-path"),
    "http404": Http404("secret-in-404"),
    "suspicious": SuspiciousOperation("secret-suspicion"),
    "forbidden": HttpError(403, "Not you."),
    "teapot": HttpError(418, "I am a teapot."),
}


@router.get("/raise/{name}")
async def raising(request: HttpRequest, name: str) -> None:
    raise RAISES[name]


api.add_router("", router)


async def plain_view(request: HttpRequest, status: int) -> HttpResponse:
    return HttpResponse("<h1>secret-html</h1>", status=status)


async def crashing_view(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("secret-in-a-crash")


async def host_view(request: HttpRequest) -> HttpResponse:
    return HttpResponse(request.get_host())


class UrlConf:
    urlpatterns = (
        path("api/", api.urls),
        path("plain/<int:status>", plain_view),
        path("crash", crashing_view),
        path("host", host_view),
        re_path("", unknown_path_view),
    )
    handler400 = "mochi_project.errors.handlers.bad_request_view"
    handler403 = "mochi_project.errors.handlers.forbidden_view"
    handler404 = "mochi_project.errors.handlers.not_found_view"
    handler500 = "mochi_project.errors.handlers.server_error_view"


@pytest.fixture(autouse=True, params=[False, True], ids=["", "debug"])
def _urls(request: pytest.FixtureRequest) -> Iterator[None]:
    with override_settings(ROOT_URLCONF=UrlConf, DEBUG=request.param):
        yield


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=AsyncHandler())
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


def error_of(response: httpx.Response) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/json; charset=utf-8"
    assert b"secret" not in response.content
    assert b"Traceback" not in response.content
    error = response.json()["error"]
    assert set(error) == {"code", "message", "details"}
    assert isinstance(error["details"]["retryable"], bool)
    assert error["message"]
    return dict(error)


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        ("busy", 409, "SESSION_BUSY"),
        ("missing", 404, "SESSION_NOT_FOUND"),
        ("invalid", 422, "VALIDATION_ERROR"),
        ("crash", 500, "INTERNAL_ERROR"),
        ("unlisted", 500, "NOBODY_LISTED_ME"),
        ("read_only", 507, "STORAGE_READ_ONLY"),
        ("full", 507, "STORAGE_FULL"),
        ("disk", 503, "STORAGE_UNAVAILABLE"),
        ("other", 500, "INTERNAL_ERROR"),
        ("http404", 404, "NOT_FOUND"),
        ("suspicious", 400, "BAD_REQUEST"),
        ("forbidden", 403, "FORBIDDEN"),
        ("teapot", 418, "BAD_REQUEST"),
    ],
)
async def test_what_a_route_raises_is_answered_in_the_envelope(
    client: httpx.AsyncClient, name: str, status: int, code: str
) -> None:
    response = await client.get(f"/api/raise/{name}")
    assert (response.status_code, error_of(response)["code"]) == (status, code)


async def test_errors_that_pass_say_when_to_try_again(client: httpx.AsyncClient) -> None:
    busy = await client.get("/api/raise/busy")
    assert busy.headers["retry-after"] == "1"
    assert error_of(busy)["details"]["retryable"] is True
    assert "retry-after" not in (await client.get("/api/raise/missing")).headers
    assert set(retry_after()) == {
        "SESSION_BUSY",
        "TOO_MANY_TURNS",
        "TOO_MANY_LISTENERS",
        "TOO_MANY_LARGE_ANSWERS",
        "TOO_MANY_LARGE_BODIES",
        "IMPORT_RUNNING",
        "SHUTTING_DOWN",
    }


async def test_a_crash_is_logged_with_its_traceback(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    await client.get("/api/raise/crash")
    record = next(r for r in caplog.records if r.name == "mochi_project.errors.handlers")
    assert record.exc_info is not None
    assert "GET /api/raise/crash" in record.getMessage()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"message": ""}, "message"),
        ({"message": 3}, "message"),
        ({"options": [{"seed": 1}, {"seed": "x"}]}, "options.1.seed"),
        ([], "body"),
        ("text", "body"),
    ],
)
async def test_a_field_that_is_wrong_is_named_as_the_caller_wrote_it(
    client: httpx.AsyncClient, body: Any, field: str
) -> None:
    response = await client.post("/api/echo", json=body)
    error = error_of(response)
    assert (response.status_code, error["code"]) == (422, "VALIDATION_ERROR")
    assert error["details"]["field"] == field
    assert error["details"]["errors"][0]["field"] == field
    assert error["message"].startswith(f"{field}: ")


async def test_a_refused_request_is_forgotten(client: httpx.AsyncClient) -> None:
    def requests() -> int:
        gc.collect()
        return sum(issubclass(type(each), HttpRequest) for each in gc.get_objects())

    before = requests()
    for _ in range(5):
        response = await client.post("/api/refused", json={"names": ["x"]})
        assert error_of(response)["message"] == "names.0: can't be 'x'"
    assert requests() < before + 5  # the last one may still be ending


async def test_of_many_errors_the_first_are_listed_and_all_are_counted(
    client: httpx.AsyncClient,
) -> None:
    response = await client.post("/api/refused", json={"names": ["x"] * 15_000})
    error = error_of(response)
    assert error["message"].endswith("; and 14997 more")
    assert len(error["details"]["errors"]) == MOST_ERRORS
    assert error["details"]["error_count"] == 15_000


async def test_a_name_is_repeated_by_its_beginning(client: httpx.AsyncClient) -> None:
    response = await client.post("/api/echo", json={"options": [{"seed": "x"}], "a" * 90_000: 1})
    assert len(response.content) < 1000
    response = await client.post("/api/policies", json={"policies": {"a" * 90_000: 1}})
    assert error_of(response)["details"]["field"] == "policies." + "a" * 100


async def test_path_and_query_parameters_are_named_too(client: httpx.AsyncClient) -> None:
    wrong_path = error_of(await client.get("/api/list/x"))
    assert wrong_path["details"]["field"] == "number"
    wrong_query = error_of(await client.get("/api/list/1?limit=0"))
    assert wrong_query["details"]["field"] == "limit"
    assert field_of(("query", "filters", "limit")) == "filters.limit"
    assert field_of(("body",)) == "body"
    assert field_of(("body", "payload", "tool_policies", "x", "[key]")) == "tool_policies.x"


async def test_no_body_means_an_empty_object(client: httpx.AsyncClient) -> None:
    response = await client.post("/api/echo")
    assert response.json() == {"message": "hi", "options": []}
    assert (await client.post("/api/echo", content=b"{}")).json() == response.json()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "not JSON"),
        (b'{"message": NaN}', "NaN"),
        (b'{"message": "a", "message": "b"}', "twice"),
        (b'{"message": "\\ud800"}', "surrogate"),
        (b'{"message": "\xff"}', "UTF-8"),
        (b"[" * 10_000, "nested"),
    ],
)
async def test_a_body_that_is_no_strict_json_is_400_and_says_why(
    client: httpx.AsyncClient, body: bytes, says: str
) -> None:
    response = await client.post("/api/echo", content=body)
    error = error_of(response)
    assert (response.status_code, error["code"]) == (400, "BAD_REQUEST")
    assert says in error["message"]


async def test_a_wrong_method_is_405_and_says_which_are_allowed(client: httpx.AsyncClient) -> None:
    response = await client.delete("/api/echo")
    assert (response.status_code, error_of(response)["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert response.headers["allow"] == "POST"
    assert error_of(response)["details"]["allowed"] == ["POST"]


@pytest.mark.parametrize("path", ["/", "/nowhere", "/api/nowhere", "/api/../x", "/%00", "/a%0ab"])
async def test_an_unknown_path_is_404(client: httpx.AsyncClient, path: str) -> None:
    response = await client.get(path)
    assert (response.status_code, error_of(response)["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("status", [400, 403, 404, 413, 500, 503])
async def test_bare_error_pages_are_replaced(client: httpx.AsyncClient, status: int) -> None:
    response = await client.get(f"/plain/{status}")
    assert response.status_code == status
    error_of(response)


async def test_other_plain_responses_are_left_alone(client: httpx.AsyncClient) -> None:
    assert (await client.get("/plain/200")).text == "<h1>secret-html</h1>"


async def test_a_crash_outside_ninja_and_a_disallowed_host_are_in_the_envelope(
    client: httpx.AsyncClient,
) -> None:
    with override_settings(DEBUG=False, ALLOWED_HOSTS=["mochi.lan"]):
        crash = await client.get("/crash")
        assert (crash.status_code, error_of(crash)["code"]) == (500, "INTERNAL_ERROR")
        host = await client.get("/host")
        assert (host.status_code, error_of(host)["code"]) == (400, "BAD_REQUEST")


async def test_a_query_that_is_not_utf8_is_400_in_the_envelope() -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"\xff", "headers": []}
    await AsyncHandler()(scope, receive, send)
    assert sent[0]["status"] == 400
    assert json.loads(sent[1]["body"])["error"]["code"] == "BAD_REQUEST"


def error_classes() -> set[type[MochiError]]:
    root = Path(__file__).parents[4]
    for package in (app.name for app in mochi_apps()):
        for module in pkgutil.walk_packages([str(root / package)], f"{package}."):
            if module.name.endswith(("errors", "parsing")):
                importlib.import_module(module.name)
    found: set[type[MochiError]] = set()
    waiting: list[type[MochiError]] = [MochiError]
    while waiting:
        waiting.extend(new := [c for c in waiting.pop().__subclasses__() if c not in found])
        found.update(new)
    return {error for error in found if error is not Unlisted}


def test_every_error_of_every_app_has_a_status() -> None:
    codes = {error.code for error in error_classes()}
    assert len(codes) > 8
    assert codes <= set(statuses())


def test_each_code_belongs_to_one_app_which_says_when_to_try_again() -> None:
    declared = [code for app in mochi_apps() for code in app.statuses]
    assert len(declared) == len(set(declared))
    assert all(app.retry_after.keys() <= app.statuses.keys() for app in mochi_apps())


def test_the_envelope_always_says_whether_to_retry() -> None:
    assert envelope("X", "y", details={"a": 1}) == {
        "error": {"code": "X", "message": "y", "details": {"a": 1, "retryable": False}}
    }


@pytest.mark.parametrize(
    ("path", "is_there_without"),
    [
        ("/api/raise/busy/", True),
        ("/api/raise/busy//", False),
        ("/api/none/", False),
        ("/api/none", False),
        ("/crash/", False),
    ],
)
async def test_a_slash_too_many_is_pointed_out(
    client: httpx.AsyncClient, path: str, *, is_there_without: bool
) -> None:
    response = await client.get(path)
    assert (response.status_code, error_of(response)["code"]) == (404, "NOT_FOUND")
    assert ("without the slash" in error_of(response)["message"]) == is_there_without
