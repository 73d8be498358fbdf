"""Sends the requests of a login: to checked addresses, with limits of size and time.

Who is asked for metadata, tokens and registrations is said by strangers, so this is as careful as
with the URLs of images (docs/decisions/0076,
docs/decisions/0190).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from mochi_project.addresses import (
    AddressPolicy,
    Resolve,
    all_allowed,
    is_address,
    is_public_web,
    is_this_machine,
    system_addresses,
)
from tools_app.mcp.oauth_spec import origin_of
from tools_app.mcp.redaction import redacted
from tools_app.mcp.remote import RemoteError

MAX_BYTES = 1 << 20
SECONDS = 10.0


class OAuthWire:
    """Sends single requests, without redirects, cookies and proxies.

    Args:
        client: Sends them.
        origins: The origins that the operator named, whose addresses are not checked.
        policy: Decides which other addresses are connected to.
        resolve: Finds the addresses of hosts.
    """

    def __init__(
        self,
        client: httpx2.AsyncClient,
        origins: frozenset[str],
        policy: AddressPolicy = is_public_web,
        resolve: Resolve = system_addresses,
    ) -> None:
        self._client = client
        self._origins = origins
        self._policy = policy
        self._resolve = resolve

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; return the response with its body.

        Raises:
            RemoteError: Its address is not allowed, or there is no usable response.
        """
        shown = redacted(f"{origin_of(str(request.url))}{request.url.path}", ())
        try:
            async with asyncio.timeout(SECONDS):
                return await self._send(request, shown)
        except TimeoutError as error:
            raise RemoteError(f"{shown} did not answer within {SECONDS:g} s.") from error
        except httpx2.HTTPError as error:
            raise RemoteError(f"{shown} can't be reached ({type(error).__name__}).") from error

    async def _send(self, request: httpx2.Request, shown: str) -> httpx2.Response:
        request.headers["Accept-Encoding"] = "identity"
        response = await self._client.send(await self._checked(request, shown), stream=True)
        try:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise RemoteError(f"{shown} sent a compressed answer, which was not requested.")
            body = bytearray()
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > MAX_BYTES:
                    raise RemoteError(f"{shown} sent more than {MAX_BYTES:,} bytes.")
        finally:
            await response.aclose()
        # A new response, without the next request of a redirect.
        return httpx2.Response(
            response.status_code, headers=response.headers, content=bytes(body), request=request
        )

    async def _checked(self, request: httpx2.Request, shown: str) -> httpx2.Request:
        """Return the request to an address that was checked, with the host's name."""
        url = request.url
        if origin_of(str(url)) in self._origins:
            return request
        refused = RemoteError(f"Its metadata is at an address that is not fetched: {shown}")
        host, port = url.raw_host.decode("ascii"), url.port or {"http": 80}.get(url.scheme, 443)
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise RemoteError(f"The host of {shown} is not known.") from error
        is_private = url.scheme == "https" or all_allowed(is_this_machine, addresses, port)
        if url.userinfo or not is_private or not all_allowed(self._policy, addresses, port):
            raise refused
        address = min(addresses, key=lambda each: ":" in each)  # IPv4 first
        return httpx2.Request(
            request.method,
            url.copy_with(host=address),
            headers=request.headers,
            content=request.content,
            extensions={} if is_address(host) else {"sni_hostname": host},
        )


@asynccontextmanager
async def oauth_wire(
    origins: frozenset[str], policy: AddressPolicy = is_public_web
) -> AsyncIterator[OAuthWire]:
    """Open what sends the requests of one login."""
    # In a thread: it reads the trusted certificates.
    client = await asyncio.to_thread(
        lambda: httpx2.AsyncClient(trust_env=False, follow_redirects=False, timeout=SECONDS)
    )
    async with client:
        yield OAuthWire(client, origins, policy)
