"""Logs in to MCP servers through the SDK, which knows OAuth: metadata, registration, PKCE, refresh.

The SDK's flow waits for a person inside the request that was refused. Here it is run for itself,
with the refusal that was seen, and stopped where the person comes in: the request for the tokens,
which lacks only the code, is kept for whoever gets that (docs/decisions/0189).

Importing this module imports the SDK.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.auth.utils import (
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    issuers_match,
    union_scopes,
    validate_authorization_response_iss,
)
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import LATEST_PROTOCOL_VERSION
from pydantic import AnyUrl, BaseModel, ValidationError

from mochi_project.addresses import AddressPolicy, is_public_web
from tools_app.mcp.config import HttpSpec
from tools_app.mcp.http_errors import lacks_scope, words_of_body
from tools_app.mcp.login_records import (
    Client,
    Document,
    LoginRecord,
    PendingLogin,
    TokenRequest,
)
from tools_app.mcp.oauth_spec import OAuthSpec, origin_of
from tools_app.mcp.oauth_wire import oauth_wire
from tools_app.mcp.redaction import MAX_TEXT_CHARS, redacted
from tools_app.mcp.remote import LoginRefused, RemoteError

LOGIN_SECONDS = 600.0
_CODE = "the-code"
_TOKEN = re.compile(r"[!-~]+")
_MOST_SECONDS = 1 << 40
_SECRET_FIELDS = ("code", "code_verifier", "refresh_token", "client_secret")
_TEMPORARY = frozenset({408, 425, 429})
Model = TypeVar("Model", bound=BaseModel)


@dataclass(slots=True)
class Grant:
    """Tokens, and for whom they are; also the port by which the SDK reads and writes both."""

    tokens: OAuthToken | None = None
    client_info: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens."""
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Replace the tokens."""
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the registration of this server."""
        return self.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Replace the registration of this server."""
        self.client_info = client_info


class OAuth:
    """Runs the flows of one server.

    Args:
        spec: The server.
        policy: Decides which addresses are fetched, beside those that the operator named.
    """

    def __init__(self, spec: HttpSpec, policy: AddressPolicy = is_public_web) -> None:
        self._spec = spec
        self._oauth = spec.oauth or OAuthSpec()
        self._policy = policy
        named = [spec.url, *([self._oauth.issuer] if self._oauth.issuer else [])]
        self._origins = frozenset(map(origin_of, named))

    async def begin(
        self, record: LoginRecord, *, redirect_uri: str, scope: str, now: float
    ) -> PendingLogin:
        """Prepare a login: find the authorization server, register there, make the address.

        Raises:
            RemoteError: It can't be prepared.
        """
        refusal = _refusal(record.challenge or "", union_scopes(self._oauth.scope, scope))
        grant = Grant(_parsed(OAuthToken, record.tokens), self._client(record, redirect_uri))
        opened: list[str] = []

        async def open_page(url: str) -> None:
            opened.append(url)

        async def come_back() -> AuthorizationCodeResult:
            metadata = provider.context.oauth_metadata
            [state] = parse_qs(urlsplit(opened[0]).query)["state"]  # only ours
            issuer = None if metadata is None else str(metadata.issuer)
            return AuthorizationCodeResult(code=_CODE, state=state, iss=issuer)

        metadata = OAuthClientMetadata(
            client_name="mochi-server",
            redirect_uris=[AnyUrl(redirect_uri)],
            token_endpoint_auth_method=self._oauth.token_endpoint_auth_method,
            application_type="web" if redirect_uri.startswith("https:") else "native",
        )
        provider = OAuthClientProvider(
            self._spec.url,
            metadata,
            grant,
            open_page,
            come_back,
            client_metadata_url=self._oauth.client_metadata_url,
        )
        request = await self._run(provider, refusal, until=lambda: bool(opened))
        if request is None:
            raise RemoteError("Its authorization server offers no login.")
        self._check_issuer(provider, request)  # it may lead to the server, for want of metadata
        url = _checked_page(opened[0])
        query = parse_qs(urlsplit(url).query)
        return PendingLogin(
            state=query["state"][0],
            url=url,
            expires_at=now + LOGIN_SECONDS,
            request=_token_request(request),
            client=_client_of(provider),
            scope=query.get("scope", [None])[0],
            is_step_up=refusal.status_code == httpx2.codes.FORBIDDEN,
        )

    async def finish(
        self, pending: PendingLogin, code: str, issuer: str | None, now: float
    ) -> Mapping[str, Any]:
        """Exchange the code for tokens; return what they change in the record of the login.

        Raises:
            RemoteError: There are none.
        """
        try:
            metadata = _parsed(OAuthMetadata, pending.client.metadata)
            validate_authorization_response_iss(issuer, metadata)
        except OAuthFlowError as error:
            raise LoginRefused(
                "The answer came from another authorization server than the one that was asked."
            ) from error
        asked = pending.request
        form = {**asked.form, "code": code}
        request = httpx2.Request("POST", asked.url, headers=dict(asked.headers), data=form)
        async with oauth_wire(self._origins, self._policy) as wire:
            response = await wire.send(request)
        self._raise_if_refused(response)
        tokens = _parsed(OAuthToken, response.content)
        if tokens is None:
            raise RemoteError("Its authorization server sent no valid tokens.")
        tokens.scope = tokens.scope or pending.scope  # RFC 6749, section 5.1
        return _granted(tokens, pending.client, now)

    async def renew(self, record: LoginRecord, challenge: str, now: float) -> Mapping[str, Any]:
        """Get a new token; return what it changes in the record of the login.

        Args:
            record: What is known.
            challenge: The ``WWW-Authenticate`` of a refusal, if there was one.
            now: The present time.

        Raises:
            LoginRefused: There is none any more.
            RemoteError: There is none now.
        """
        grant = Grant(_parsed(OAuthToken, record.tokens))
        old = grant.tokens
        if self._oauth.by_itself:
            provider: OAuthClientProvider = self._own_credentials(grant)
            refusal = _refusal(challenge, self._oauth.scope)
        else:
            provider, refusal = self._refresh(record, grant), None
        await self._run(provider, refusal)
        if grant.tokens is None or grant.tokens is old:
            raise RemoteError("Its authorization server sent no valid tokens.")
        return _granted(grant.tokens, _client_of(provider), now)

    async def revoke(self, client: Client, tokens: Document) -> None:
        """Have the authorization server forget tokens, if it can (RFC 7009).

        Raises:
            RemoteError: It could not be asked.
        """
        metadata = _parsed(OAuthMetadata, client.metadata)
        if metadata is None or metadata.revocation_endpoint is None:
            return
        provider = OAuthClientProvider(
            self._spec.url, OAuthClientMetadata(redirect_uris=None), Grant()
        )
        provider.context.client_info = information = _information(client)
        form = {
            "token": tokens.get("refresh_token") or tokens["access_token"],
            "client_id": information.client_id,
        }
        form, headers = provider.context.prepare_token_auth(form, {})
        endpoint = str(metadata.revocation_endpoint)
        async with oauth_wire(self._origins, self._policy) as wire:
            await wire.send(httpx2.Request("POST", endpoint, headers=headers, data=form))

    def _refresh(self, record: LoginRecord, grant: Grant) -> OAuthClientProvider:
        if record.client is None or grant.tokens is None or not grant.tokens.refresh_token:
            raise LoginRefused("Its login has expired.")
        grant.client_info = _information(record.client)
        provider = OAuthClientProvider(
            self._spec.url, OAuthClientMetadata(redirect_uris=None), grant
        )
        provider.context.oauth_metadata = _parsed(OAuthMetadata, record.client.metadata)
        provider.context.protected_resource_metadata = _parsed(
            ProtectedResourceMetadata, record.client.resource
        )
        provider.context.token_expiry_time = 1.0  # long ago, so that it is renewed
        return provider

    def _own_credentials(self, grant: Grant) -> ClientCredentialsOAuthProvider:
        oauth = self._oauth
        method = oauth.method if oauth.method != "none" else "client_secret_basic"
        return ClientCredentialsOAuthProvider(
            self._spec.url,
            grant,
            oauth.client_id or "",
            oauth.client_secret or "",
            token_endpoint_auth_method=method,
            issuer=oauth.issuer,
        )

    async def _run(
        self,
        provider: OAuthClientProvider,
        refusal: httpx2.Response | None,
        *,
        until: Callable[[], bool] = lambda: False,
    ) -> httpx2.Request | None:
        """Run the SDK's flow, to its end or to the first request after ``until``.

        The request that it authenticates is not sent: its refusal was seen before.
        """
        version = {MCP_PROTOCOL_VERSION_HEADER: LATEST_PROTOCOL_VERSION}
        request = httpx2.Request("POST", self._spec.url, headers=version)
        try:
            async with (
                oauth_wire(self._origins, self._policy) as wire,
                aclosing(provider.async_auth_flow(request)) as flow,
            ):
                sent = await anext(flow)
                while not until():
                    if sent is request and refusal is None:
                        return None
                    if sent is request and refusal is not None:
                        response, refusal = refusal, None
                        response.request = request
                    else:
                        self._check_issuer(provider, sent)
                        response = await wire.send(sent)
                        if sent.method == "POST":
                            self._raise_if_refused(response)
                    sent = await flow.asend(response)
                return sent
        except (OAuthFlowError, ValueError) as error:
            words = redacted(str(error), self._spec.secrets)
            raise RemoteError(f"The login can't be made: {words}") from error

    def _check_issuer(self, provider: OAuthClientProvider, request: httpx2.Request) -> None:
        """Send credentials only to the issuer that ``mcp.json`` names, if it does."""
        metadata, issuer = provider.context.oauth_metadata, self._oauth.issuer
        if issuer is None or request.method != "POST":
            return
        if metadata is None or not issuers_match(str(metadata.issuer), issuer):
            raise RemoteError("It leads to another authorization server than its 'issuer'.")

    def _client(self, record: LoginRecord, redirect_uri: str) -> OAuthClientInformationFull | None:
        """Return as whom this server is known, unless the way back has changed since."""
        oauth = self._oauth
        if oauth.client_id is not None:
            return OAuthClientInformationFull(
                client_id=oauth.client_id,
                client_secret=oauth.client_secret,
                redirect_uris=[AnyUrl(redirect_uri)],
                token_endpoint_auth_method=oauth.method,
                issuer=oauth.issuer,
            )
        if record.client is None:
            return None
        known = _information(record.client)
        return known if AnyUrl(redirect_uri) in (known.redirect_uris or ()) else None

    def _raise_if_refused(self, response: httpx2.Response) -> None:
        status = response.status_code
        if response.is_success:
            return
        form = dict(parse_qsl(response.request.content.decode()))
        secrets = {*self._spec.secrets, *(form[name] for name in _SECRET_FIELDS if name in form)}
        words = redacted(words_of_body(response.content), secrets)
        message = f"Its authorization server answered {status}: {words or 'nothing'}"
        is_final = 400 <= status < 500 and status not in _TEMPORARY
        raise LoginRefused(message) if is_final else RemoteError(message)


def _refusal(challenge: str, scope: str | None) -> httpx2.Response:
    """Return the refusal with which a flow begins, with further scopes."""
    seen = httpx2.Response(401, headers={"WWW-Authenticate": challenge})
    is_step_up = lacks_scope(httpx2.codes.FORBIDDEN, challenge)
    values = {
        "error": "insufficient_scope" if is_step_up else None,
        "resource_metadata": extract_resource_metadata_from_www_auth(seen),
        "scope": union_scopes(extract_scope_from_www_auth(seen), scope),
    }
    fields = ", ".join(f'{name}="{value}"' for name, value in values.items() if value)
    headers = {"WWW-Authenticate": f"Bearer {fields}".strip()}
    return httpx2.Response(403 if is_step_up else 401, headers=headers)


def _granted(tokens: OAuthToken, client: Client, now: float) -> Mapping[str, Any]:
    # The error of a header that can't be sent would repeat the token.
    if not _TOKEN.fullmatch(tokens.access_token) or (tokens.expires_in or 0) > _MOST_SECONDS:
        raise RemoteError("Its authorization server sent no valid tokens.")
    expires_at = None if tokens.expires_in is None else now + tokens.expires_in
    return {"tokens": _dumped(tokens), "expires_at": expires_at, "client": client}


def _checked_page(url: str) -> str:
    parts = urlsplit(url)
    is_here = parts.hostname in {"localhost", "127.0.0.1", "::1"}
    if parts.scheme != "https" and not (parts.scheme == "http" and is_here):
        shown = redacted(url, (), limit=MAX_TEXT_CHARS)
        raise RemoteError(f"Its login page is neither https nor on this machine: {shown}")
    return url


def _token_request(request: httpx2.Request) -> TokenRequest:
    form = dict(parse_qsl(request.content.decode()))
    headers = {
        name: value
        for name, value in request.headers.items()
        if name not in {"host", "content-length"}
    }
    return TokenRequest(url=str(request.url), headers=headers, form=form)


def _client_of(provider: OAuthClientProvider) -> Client:
    context = provider.context
    information = _dumped(context.client_info)
    if information is None:
        raise RemoteError("Its authorization server knows no client.")
    return Client(
        information=information,
        metadata=_dumped(context.oauth_metadata),
        resource=_dumped(context.protected_resource_metadata),
    )


def _information(client: Client) -> OAuthClientInformationFull:
    return OAuthClientInformationFull.model_validate(dict(client.information))


def _dumped(value: BaseModel | None) -> dict[str, Any] | None:
    return None if value is None else value.model_dump(mode="json", exclude_none=True)


def _parsed(kind: type[Model], value: Mapping[str, Any] | bytes | None) -> Model | None:
    if value is None:
        return None
    try:
        if isinstance(value, bytes):
            return kind.model_validate_json(value)
        return kind.model_validate(dict(value))
    except ValidationError:
        return None
