"""Bounds what is read over HTTP: no redirects, no endless bodies.

Whatever answers a request becomes a stream of events, which the SDK understands: the messages of
the body, or a JSON-RPC error that says what the response means.

Importing this module imports the SDK's types.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial

import httpx2
from httpx2 import EventSource, codes
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from tools_app.mcp.config import HttpSpec
from tools_app.mcp.elicitation import CALL
from tools_app.mcp.http_errors import lacks_scope, login_sentence, refusal, words_of_body
from tools_app.mcp.limits import MAX_MESSAGE_BYTES
from tools_app.mcp.login import ServerLogin
from tools_app.mcp.messages import in_thread_if_large, read_messages
from tools_app.mcp.oauth_spec import origin_of
from tools_app.mcp.redaction import redacted
from tools_app.mcp.remote import CallHeaders, mapping

_CONNECT_SECONDS = 10.0
_GOODBYE_SECONDS = 1.0
LOGIN_NEEDED = -32040
"""Our code of an error that a person can help with: JSON-RPC leaves such codes to servers."""
_ANSWERED = "mochi_answered"
"""The name of the extension of a response with the status that it came with."""
_PLAIN_STATUSES = frozenset({codes.BAD_REQUEST, codes.NOT_FOUND})
"""Statuses that say nothing beyond the JSON-RPC error that comes with them."""


def http_client(
    spec: HttpSpec, call_headers: CallHeaders | None = None, login: ServerLogin | None = None
) -> httpx2.AsyncClient:
    """Return a client that follows no redirects and reads no endless bodies. Blocks.

    Args:
        spec: The server.
        call_headers: Returns further headers of a request, in the context of its caller.
        login: Has the token to send; None for a server without logins.
    """

    async def prepare(request: httpx2.Request) -> None:
        if call_headers is not None:
            request.headers.update(call_headers())
        if request.method == "DELETE":  # the end of a session need not be acknowledged
            request.extensions["timeout"] = httpx2.Timeout(_GOODBYE_SECONDS).as_dict()

    return httpx2.AsyncClient(
        headers={**spec.headers, "Accept-Encoding": "identity"},
        # A call may be silent until its own timeout, and a stream for ever.
        timeout=httpx2.Timeout(_CONNECT_SECONDS, read=None),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        max_redirects=1,  # of which there are none: a request that is sent again counts as one
        auth=None if login is None else _TokenAuth(login),
        event_hooks={"request": [prepare], "response": [partial(_rewrite, spec.secrets, login)]},
    )


class _TokenAuth(httpx2.Auth):
    """Sends the token of a login, to its origin alone, and notes what becomes of it.

    The SDK's own sends one request at a time, and waits for people (docs/decisions/0189).
    """

    def __init__(self, login: ServerLogin) -> None:
        self._login = login

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request, once more with a new token if the first one was refused."""
        if origin_of(str(request.url)) != self._login.origin:
            raise httpx2.UnsupportedProtocol("The token is not sent to another origin.")
        token = self._authorize(request, await self._login.token())
        response = yield request
        status, challenge = _refusal_of(response)
        if status is not None:
            renewed = await self._login.renewed(
                token, challenge, lacks_scope=status == codes.FORBIDDEN
            )
            if renewed is not None:
                token = self._authorize(request, renewed)
                response = yield request
                status, challenge = _refusal_of(response)
        if status is not None:
            await self._login.note_refusal(token, challenge, lacks_scope=status == codes.FORBIDDEN)

    def _authorize(self, request: httpx2.Request, token: str | None) -> str | None:
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token}"
            self._login.sent = token
        return token


def _refusal_of(response: httpx2.Response) -> tuple[int | None, str]:
    """Return the status of a response that asks for a login, and how it does."""
    status = response.extensions.get(_ANSWERED, response.status_code)
    challenge = response.headers.get("www-authenticate", "")
    if status == codes.UNAUTHORIZED or lacks_scope(status, challenge):
        return status, challenge
    return None, ""


async def _rewrite(
    secrets: frozenset[str], login: ServerLogin | None, response: httpx2.Response
) -> None:
    """Refuse compressed bodies, bound others, and make them readable for the SDK."""
    secrets = secrets if login is None else login.secrets
    response.extensions[_ANSWERED] = response.status_code
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("The answer is compressed, which was not requested.")
    source = httpx2.Response(
        response.status_code,
        headers=response.headers,
        stream=response.stream,
        request=response.request,
    )
    kind = response.headers.get("content-type", "").lower()
    is_stream = kind.startswith("text/event-stream") and not response.is_error
    call_id = _call_id(response.request)
    pieces = _events(source, call_id) if is_stream else _body(source)
    if response.is_redirect:
        response.headers.pop("location", None)  # so that the SDK does not follow it
    if call_id:
        response.status_code = codes.OK
        response.headers["content-type"] = "text/event-stream"
        pieces = pieces if is_stream else _reply(source, secrets, login)
    response.stream = _Rewritten(source, pieces)


def _call_id(request: httpx2.Request) -> str:
    """Return the id of a JSON-RPC request; empty for anything else."""
    if request.method != "POST":
        return ""
    message = jsonrpc_message_adapter.validate_json(request.content, by_name=False)
    return str(message.id) if isinstance(message, JSONRPCRequest) else ""


class _Rewritten(httpx2.AsyncByteStream):
    """The body of a response, made of that of the original response."""

    def __init__(self, source: httpx2.Response, pieces: AsyncGenerator[bytes]) -> None:
        self._source = source
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def aclose(self) -> None:
        await self._pieces.aclose()
        await self._source.aclose()


async def _body(source: httpx2.Response) -> AsyncGenerator[bytes]:
    size = 0
    async for piece in source.aiter_raw():
        size += len(piece)
        if size > MAX_MESSAGE_BYTES:
            raise httpx2.StreamError(f"The answer has more than {MAX_MESSAGE_BYTES:,} bytes.")
        yield piece


async def _events(source: httpx2.Response, call_id: str) -> AsyncGenerator[bytes]:
    """Yield the events of a stream, each with one message; questions name the call they are of."""
    async for event in EventSource(source, max_event_size=MAX_MESSAGE_BYTES):
        retry = f"retry: {event.retry}\n" if event.retry is not None else ""
        head = f"{retry}id: {event.id}\n" if event.id else retry
        data = event.data.encode()
        messages = await in_thread_if_large(read_messages, data)  # none in a sign of life
        for message in messages:
            if isinstance(message, JSONRPCRequest):
                meta = {**mapping((message.params or {}).get("_meta")), CALL: call_id}
                message.params = {**(message.params or {}), "_meta": meta}
        for text in map(_text, messages) if data else [b""]:
            yield _event(text, head)


async def _reply(
    source: httpx2.Response, secrets: frozenset[str], login: ServerLogin | None
) -> AsyncGenerator[bytes]:
    """Yield the messages of a body as events; an error if it is a refusal or holds no reply."""
    data, fault = b"", ""
    try:
        data = b"".join([piece async for piece in _body(source)])
    except httpx2.StreamError as too_long:
        fault = str(too_long)
    messages = await in_thread_if_large(read_messages, data)
    replies = [each for each in messages if isinstance(each, JSONRPCResponse | JSONRPCError)]
    if source.is_error or not replies:
        error = next((each.error for each in replies if isinstance(each, JSONRPCError)), None)
        words = fault or redacted(words_of_body(data), secrets)
        messages = [_login_needed(source, login, words) or _refused(source, error, words)]
    for message in messages:
        yield _event(_text(message))


def _login_needed(
    source: httpx2.Response, login: ServerLogin | None, words: str
) -> JSONRPCError | None:
    """Return the error that says who has to log in; None if nobody can help."""
    status, challenge = _refusal_of(source)
    if login is None or status is None:
        return None
    sentence = login_sentence(login.name, status, challenge)
    if not challenge.lower().startswith("bearer"):  # it may want a key of another kind
        sentence += f" {refusal(status, source.headers, words)}"
    return _failure(LOGIN_NEEDED, sentence)


def _refused(source: httpx2.Response, error: ErrorData | None, words: str) -> JSONRPCError:
    """Return a response's JSON-RPC error with what its status means, or one that says that."""
    status, message = source.status_code, refusal(source.status_code, source.headers, words)
    code = INTERNAL_ERROR if error is None else error.code
    if error is not None and status in _PLAIN_STATUSES:
        message = error.message
    is_unknown = status == codes.NOT_FOUND and code != METHOD_NOT_FOUND
    is_unknown |= status == codes.BAD_REQUEST and "session" in words.lower()
    if is_unknown and "mcp-session-id" in source.request.headers:
        code = CONNECTION_CLOSED  # the server has forgotten the session
    return _failure(code, message, None if error is None else error.data)


def _failure(code: int, message: str, data: object = None) -> JSONRPCError:
    error = ErrorData(code=code, message=message, data=data)
    return JSONRPCError(jsonrpc="2.0", id=None, error=error)


def _text(message: JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except ValueError:
        return _text(
            _failure(PARSE_ERROR, "Its answer is nested too deeply. The tool may have run.")
        )


def _event(data: bytes, head: str = "") -> bytes:
    return b"%bdata: %b\n\n" % (head.encode(), data)
