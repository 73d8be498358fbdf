import json
from typing import Annotated, Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, override_settings
from django.urls import path
from ninja import Header, NinjaAPI, Path, Query, Status
from pydantic import BaseModel, ConfigDict, Field

from mochi_project.errors.handlers import install_error_handlers
from mochi_project.fast_django.ninja_operation import without_detours


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str = Field(alias="the_text", min_length=2)
    number: int = 1


def key_of(request: HttpRequest) -> str | None:
    return "someone" if request.headers.get("X-Key") == "right" else None


def api_with(name: str) -> NinjaAPI:
    api = NinjaAPI(urls_namespace=name, docs_url=None)
    install_error_handlers(api)

    @api.post("/text/{name}")
    async def text(
        request: HttpRequest,
        name: str,
        body: Body,
        optional: Annotated[str | None, Header(alias="X-Optional", max_length=3)] = None,
    ) -> dict[str, Any]:
        return {"name": name, "text": body.text, "number": body.number, "optional": optional}

    @api.get("/short/{name}")
    async def short(
        request: HttpRequest,
        name: Annotated[str, Path(max_length=3)],
        limit: Annotated[int, Query(ge=1)] = 5,
    ) -> dict[str, Any]:
        return {"name": name, "limit": limit}

    @api.get("/number/{number}")
    async def number(
        request: HttpRequest, number: int, wanted: Annotated[str, Header(alias="X-Wanted")]
    ) -> dict[str, Any]:
        return {"number": number, "wanted": wanted}

    @api.get("/status", response={202: None})
    async def status(request: HttpRequest) -> Status[None]:
        return Status(202, None)

    @api.get("/headers")
    async def headers(request: HttpRequest, response: HttpResponse) -> dict[str, Any]:
        response["X-Set"] = "by the route"
        return {}

    @api.get("/guarded", auth=key_of)
    async def guarded(request: HttpRequest) -> dict[str, Any]:
        return {}

    @api.get("/sync/{name}")
    def sync(request: HttpRequest, name: str) -> dict[str, Any]:
        return {"name": name}

    @api.get("/broken")
    async def broken(request: HttpRequest) -> dict[str, Any]:
        raise RuntimeError("secret words")

    return api


stock = api_with("stock")
ours = api_with("ours")
ours.add_decorator(without_detours, mode="view")


class UrlConf:
    urlpatterns = (path("stock/", stock.urls), path("ours/", ours.urls))


def post(body: object) -> dict[str, Any]:
    return {"method": "POST", "data": json.dumps(body), "content_type": "application/json"}


@pytest.mark.parametrize(
    ("asked", "request_of"),
    [
        ("text/ä", post({"the_text": "hello", "number": 3})),
        ("text/a", post({"the_text": "hello"}) | {"headers": {"x-optional": "abc"}}),
        ("text/a", post({"the_text": "h", "colour": "red"}) | {"headers": {"x-optional": "long"}}),
        ("text/a", post({"text": "hello"})),
        ("text/a", post([])),
        ("text/a", post({"the_text": "hello"}) | {"data": b""}),
        ("text/a", post({"the_text": "hello"}) | {"data": b"{"}),
        ("text/a", {"method": "GET"}),
        ("short/abc?limit=2", {}),
        ("short/abcd?limit=0", {}),
        ("short/abc?limit=x", {}),
        ("number/5", {"headers": {"x-wanted": "yes"}}),
        ("number/five", {}),
        ("status", {}),
        ("headers", {}),
        ("guarded", {}),
        ("guarded", {"headers": {"x-key": "right"}}),
        ("sync/a", {}),
        ("broken", {}),
    ],
)
async def test_routes_answer_exactly_as_they_do_without_it(
    asked: str, request_of: dict[str, Any]
) -> None:
    answers = []
    for name in ("stock", "ours"):
        with override_settings(ROOT_URLCONF=UrlConf, MIDDLEWARE=[]):
            client = AsyncClient(raise_request_exception=False)
            response = await client.generic(
                **{"method": "GET"} | request_of, path=f"/{name}/{asked}"
            )
        answers.append((response.status_code, response.content, dict(response.headers)))
    assert answers[0] == answers[1]
    assert b"secret" not in answers[1][1]
