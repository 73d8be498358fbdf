"""Serves the ``/keys`` routes: parse, call, encode."""

import asyncio
from functools import partial
from typing import Annotated

from django.http import HttpRequest
from ninja import Query, Status

from mochi_project.app import service
from mochi_project.keys.key import new_key
from mochi_project.keys.ring import KeyRing
from mochi_project.keys.schemas import KeyIn, KeyListOut, KeyOut, KeyTokenOut
from mochi_project.keys.store import KeyStore
from mochi_project.routing import Router
from sessions_app.http.error_schemas import ENVELOPE

router = Router(scope="admin", tags=["keys"])


@router.get(
    "/keys",
    response={200: KeyListOut, (500, 503): ENVELOPE},
    summary="List keys",
    description="All keys, also those that have ended, without their tokens.",
    operation_id="list_keys",
)
async def list_keys(request: HttpRequest) -> KeyListOut:
    """List the keys."""
    keys = await asyncio.to_thread(service(KeyStore).keys)
    return KeyListOut(keys=[KeyOut.of(key) for key in keys.values()])


@router.post(
    "/keys",
    response={201: KeyTokenOut, (422, 500, 503, 507): ENVELOPE},
    summary="Make a key",
    description=(
        "Returns the key with its token, which is shown this once. From the first key on, nobody "
        "is let in without a key or a token, not even on this machine."
    ),
    operation_id="create_key",
)
async def create_key(request: HttpRequest, body: KeyIn) -> Status[KeyTokenOut]:
    """Make a key."""
    key, token = new_key(**body.model_dump(exclude_none=True))
    await asyncio.to_thread(service(KeyStore).add, key)
    await service(KeyRing).look()
    return Status(201, KeyTokenOut.of(key, token=token))


@router.delete(
    "/keys/{key_id}",
    response={200: KeyOut, (404, 500, 503, 507): ENVELOPE},
    summary="Revoke a key",
    description=(
        "Within two seconds its requests are refused and its streams end, in all processes. Its "
        "turns are cancelled, unless `keep_turns` lets them go on."
    ),
    operation_id="revoke_key",
)
async def revoke_key(
    request: HttpRequest,
    key_id: str,
    keep_turns: Annotated[bool, Query(description="Whether what it started goes on")] = False,
) -> KeyOut:
    """Revoke a key."""
    revoke = partial(service(KeyStore).revoke, key_id, keep_turns=keep_turns)
    key = await asyncio.to_thread(revoke)
    await service(KeyRing).look()
    return KeyOut.of(key)


@router.post(
    "/keys/{key_id}/rotate",
    response={200: KeyTokenOut, (404, 500, 503, 507): ENVELOPE},
    summary="Give a key another token",
    description=(
        "The old token is refused within two seconds, and streams that were opened with it end. "
        "The turns go on."
    ),
    operation_id="rotate_key",
)
async def rotate_key(request: HttpRequest, key_id: str) -> KeyTokenOut:
    """Give a key another token."""
    key, token = await asyncio.to_thread(service(KeyStore).rotate, key_id)
    await service(KeyRing).look()
    return KeyTokenOut.of(key, token=token)
