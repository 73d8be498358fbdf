"""Logs in to an MCP server from a terminal, with or without a running server."""

import asyncio
import sys
import webbrowser
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

from tools_app.mcp.logins import CALLBACK, LoginFailed, McpLogins, come_back_of

_LOOK_SECONDS = 0.3
_MOST_BYTES = 16_384


async def log_in(
    logins: McpLogins,
    name: str,
    *,
    scope: str,
    paste: bool,
    browser: bool,
    write: Callable[[str], object],
) -> None:
    """Show the address, open it, and wait for the person who comes back.

    Args:
        logins: The logins.
        name: The server.
        scope: Further scopes to ask for.
        paste: Whether the person gives the address that the browser is sent back to.
        browser: Whether to open the address.
        write: Prints a line.

    Raises:
        LoginFailed: The person came back without success, or not at all.
        MochiError: A login can't be begun.
    """
    pending = await logins.begin(name, scope)
    write(f"Open this address to log in to {name}:\n\n{pending.url}\n")
    if paste:
        write("Then paste the address that your browser was sent to, also if it shows an error:")
        await logins.finish(come_back_of(await asyncio.to_thread(sys.stdin.readline)))
        return
    async with _listening(logins) as is_here:
        if not is_here:
            write("The running server waits for it. Without one, use --paste.")
        if browser:
            await asyncio.to_thread(webbrowser.open, pending.url)
        await logins.wait(name, pending, every=_LOOK_SECONDS)


@asynccontextmanager
async def _listening(logins: McpLogins) -> AsyncIterator[bool]:
    """Take the place of a server that does not run; yield whether that was possible."""
    if logins.local_port is None:
        yield False
        return
    try:
        server = await asyncio.start_server(
            lambda reader, writer: _answer(logins, reader, writer),
            "127.0.0.1",
            logins.local_port,
            limit=_MOST_BYTES,
        )
    except OSError:  # which is the server's, or another program's
        yield False
        return
    async with server:
        yield True


async def _answer(
    logins: McpLogins, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer a browser's request in plain text."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        target = head.decode("latin-1").split()[1]
        status, words = await _outcome(logins, target)
        body = words.encode()
        writer.write(
            b"HTTP/1.1 %d %b\r\nContent-Type: text/plain; charset=utf-8\r\n"
            b"X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n"
            b"Content-Length: %d\r\nConnection: close\r\n\r\n%b"
            % (status, status.phrase.encode(), len(body), body)
        )
        await writer.drain()
    except (ConnectionError, EOFError, IndexError, asyncio.LimitOverrunError):
        return  # no request
    finally:
        writer.close()


async def _outcome(logins: McpLogins, target: str) -> tuple[HTTPStatus, str]:
    if target.partition("?")[0] != CALLBACK:
        return HTTPStatus.NOT_FOUND, "Nothing is here.\n"
    try:
        name = await logins.finish(come_back_of(target))
    except LoginFailed as error:
        return HTTPStatus(error.status), f"Not logged in. {error.message}\n"
    return HTTPStatus.OK, f"Logged in to {name}. You can close this page.\n"
