"""Fetches files by URL, if that is enabled (docs/decisions/0076).

Connections are made to the checked address, so a changed DNS entry (rebinding) has no effect.
Redirects are followed here, each checked like the first URL.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx

from dialects_app.shared.files import FetchFailed, FetchRefused
from mochi_project.addresses import (
    AddressPolicy,
    Resolve,
    all_allowed,
    is_address,
    is_public_web,
    system_addresses,
)
from sessions_app.errors import AttachmentTooLarge

MOST_REDIRECTS = 3
SECONDS = 20.0
"""For all of a file, redirects included."""

_SILENCE_SECONDS = 5.0
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PORT_OF = {"http": 80, "https": 443}
_HEADERS = {
    "accept": "image/*, application/pdf, text/*;q=0.5",
    "accept-encoding": "identity",
    "user-agent": "mochi-server",
}


class Fetcher:
    """Fetches files by ``http`` and ``https``, with limits of size, time and redirects.

    Uses no proxy and no cookies, so that only checked addresses are reached.

    Args:
        policy: Decides which addresses are connected to.
        resolve: Finds the addresses of hosts.
        seconds: The time limit for a file.
    """

    def __init__(
        self,
        policy: AddressPolicy = is_public_web,
        *,
        resolve: Resolve = system_addresses,
        seconds: float = SECONDS,
    ) -> None:
        self._policy = policy
        self._resolve = resolve
        self._seconds = seconds
        self._tls: ssl.SSLContext | None = None

    @asynccontextmanager
    async def fetch(self, url: str, *, max_bytes: int) -> AsyncIterator[AsyncIterator[bytes]]:
        """Fetch a file, and provide its chunks.

        Args:
            url: The URL.
            max_bytes: The maximum size.

        Raises:
            FetchRefused: Its address is not allowed.
            FetchFailed: It can't be fetched.
            AttachmentTooLarge: The file is larger.
        """
        try:
            if self._tls is None:  # it reads all certificates: 100 ms
                self._tls = await asyncio.to_thread(httpx.create_ssl_context, trust_env=False)
            async with asyncio.timeout(self._seconds), AsyncExitStack() as stack:
                client = await stack.enter_async_context(
                    httpx.AsyncClient(
                        verify=self._tls,
                        timeout=_SILENCE_SECONDS,
                        trust_env=False,
                        follow_redirects=False,
                    )
                )
                response = await self._follow_redirects(client, stack, _parsed(url))
                yield _pieces(response, max_bytes)
        except TimeoutError as error:
            raise FetchFailed("It took too long.") from error
        except httpx.HTTPError as error:
            raise FetchFailed(f"The connection failed ({type(error).__name__}).") from error

    async def _follow_redirects(
        self, client: httpx.AsyncClient, stack: AsyncExitStack, url: httpx.URL
    ) -> httpx.Response:
        """Return the first response that is not a redirect, before its body is read."""
        for _ in range(MOST_REDIRECTS + 1):
            request = await self._request(client, url)
            response = await client.send(request, stream=True)
            stack.push_async_callback(response.aclose)
            if response.status_code not in _REDIRECTS:
                return _usable(response)
            client.cookies.clear()
            url = _next(url, response.headers.get("location"))
        raise FetchFailed(f"It is redirected more than {MOST_REDIRECTS} times.")

    async def _request(self, client: httpx.AsyncClient, url: httpx.URL) -> httpx.Request:
        """Return a request to a checked address with the host's name."""
        port = url.port or _PORT_OF[url.scheme]
        try:
            host = url.raw_host.decode("ascii")
            addresses = await self._resolve(host, port)
            addresses = sorted(addresses, key=lambda address: ":" in address)  # IPv4 first
        except (OSError, UnicodeError) as error:
            raise FetchFailed("Its host is not known.") from error
        if not all_allowed(self._policy, addresses, port):
            raise FetchRefused("It does not lead to a web server of the public Internet.")
        return client.build_request(
            "GET",
            url.copy_with(host=addresses[0], fragment=None),
            headers={**_HEADERS, "host": url.netloc.decode("ascii")},
            extensions={} if is_address(host) else {"sni_hostname": host},
        )


def _parsed(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise FetchRefused("It is not a URL.") from error
    if parsed.scheme not in _PORT_OF or not parsed.host:
        raise FetchRefused("It is not an 'https' or 'http' URL.")
    if parsed.port is not None and not 0 < parsed.port < 1 << 16:
        raise FetchRefused("Its port is none.")
    if parsed.userinfo:
        raise FetchRefused("A URL with a user's name or password is not fetched.")
    return parsed


def _next(url: httpx.URL, location: str | None) -> httpx.URL:
    if not location:
        raise FetchFailed("It is redirected to nowhere.")
    try:
        joined = str(url.join(location))
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise FetchRefused("It redirects to something that is not a URL.") from error
    to = _parsed(joined)
    if url.scheme == "https" and to.scheme != "https":
        raise FetchRefused("It is redirected from 'https' to 'http'.")
    return to


def _usable(response: httpx.Response) -> httpx.Response:
    if response.status_code != 200:
        raise FetchFailed(f"Its server answered {response.status_code}.")
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise FetchFailed("Its server sends it compressed.")
    return response


async def _pieces(response: httpx.Response, max_bytes: int) -> AsyncIterator[bytes]:
    declared = response.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > max_bytes:
        raise AttachmentTooLarge(max_bytes)
    size = 0
    async for piece in response.aiter_raw():
        size += len(piece)
        if size > max_bytes:
            raise AttachmentTooLarge(max_bytes)
        yield piece
