"""Hostile servers gain nothing: neither addresses of this network, nor tokens of others."""

import json

import pytest

from mochi_project.addresses import is_public_web
from tests.unit.tools_app.mcp.http_servers import older_server, reply
from tests.unit.tools_app.mcp.oauth_servers import (
    AuthorizationServer,
    answer_json,
    protected,
    serving,
)
from tools_app.errors import ToolServerUnavailable
from tools_app.mcp.logins import LoginFailed, come_back_of

METADATA = "/.well-known/oauth-protected-resource/mcp"


@pytest.fixture
def strict(lab):
    """Return a lab that asks only public addresses, as servers outside of tests do."""
    lab.start(addresses=is_public_web)
    return lab


async def begin(lab, server, **oauth):
    await lab.configure(docs={"url": server.url, "oauth": oauth})
    return await lab.logins.begin("docs")


async def log_in(lab, server, **oauth):
    begun = await begin(lab, server, **oauth)
    await lab.logins.finish(come_back_of(server.logins.authorize(begun.url)))


async def test_metadata_in_the_servers_network_are_not_fetched(strict):
    async with protected() as server:
        with pytest.raises(ToolServerUnavailable, match="at an address that is not fetched"):
            await begin(strict, server)

        assert server.logins.asked == []


async def test_an_authorization_server_that_the_operator_names_may_be_there(strict):
    async with protected() as server:
        begun = await begin(strict, server, issuer=server.logins.url)

        assert begun.url.startswith(f"{server.logins.url}/authorize?")


@pytest.mark.parametrize("endpoint", ["token_endpoint", "registration_endpoint"])
async def test_endpoints_elsewhere_in_the_servers_network_are_not_asked(strict, endpoint):
    stolen = []
    async with protected() as server, serving(lambda *args: stolen.append(args)) as thief:
        server.logins.metadata = {endpoint: f"{thief}/steal"}

        with pytest.raises((ToolServerUnavailable, LoginFailed), match="is not fetched"):
            await log_in(strict, server, issuer=server.logins.url)

        assert stolen == []


async def test_a_challenge_can_name_no_address_in_the_servers_network(strict):
    asked = []
    async with protected() as server, serving(lambda *args: asked.append(args)) as inside:
        server.challenge = f'Bearer resource_metadata="{inside}/secret"'

        with pytest.raises(ToolServerUnavailable, match="at an address that is not fetched"):
            await begin(strict, server, issuer=server.logins.url)

        assert asked == []


@pytest.mark.parametrize(
    "page", ["http://login.example/authorize", "javascript:alert(1)", "file:///etc/passwd"]
)
async def test_a_login_page_is_https_or_on_this_machine(lab, page):
    async with protected() as server:
        server.logins.metadata = {"authorization_endpoint": page}

        with pytest.raises(ToolServerUnavailable):
            await begin(lab, server)

        status = await lab.server("docs")
        assert status.login is not None
        assert status.login.url is None


async def test_metadata_of_another_issuer_are_refused(lab):
    async with protected() as server:
        server.logins.metadata = {"issuer": "https://login.example"}

        with pytest.raises(ToolServerUnavailable, match="issuer"):
            await begin(lab, server)

        assert not [path for path, _ in server.logins.asked if path == "/register"]


async def test_a_secret_is_sent_to_its_issuer_alone(lab):
    async with protected() as server:
        oauth = {
            "client_id": "me",
            "client_secret": "hush-hush-hush",
            "issuer": "http://127.0.0.1:1",
        }
        for grant in ("authorization_code", "client_credentials"):
            await lab.configure(docs={"url": server.url, "oauth": {**oauth, "grant": grant}})
            result = await lab.call("docs__run")
            assert not result.success

        assert not [form for path, form in server.logins.asked if path == "/token"]


async def test_a_secret_is_not_sent_to_the_server_if_its_issuer_has_no_metadata(lab):
    sent = []

    def hostile(method, path, headers, body):
        sent.append((path, headers.get("authorization"), body))
        return reply(401, b"", {"WWW-Authenticate": server.challenge}) if path == "/mcp" else None

    async with (
        serving(lambda *_: None) as issuer,
        protected() as server,
        serving(hostile, server.handle) as origin,
    ):
        server.challenge = f'Bearer resource_metadata="{server.url[:-4]}{METADATA}"'
        server.resource, server.logins.url = f"{origin}/mcp", issuer
        oauth = {"client_id": "me", "client_secret": "hush-hush-hush", "issuer": issuer}
        await lab.configure(docs={"url": server.resource, "oauth": oauth})

        with pytest.raises(ToolServerUnavailable, match="than its 'issuer'"):
            await lab.logins.begin("docs")

        assert "/token" not in [path for path, *_ in sent]


@pytest.mark.parametrize(
    "tokens", [{"access_token": "hush\r\nX: y"}, {"access_token": "hush", "expires_in": 10**400}]
)
async def test_tokens_that_can_not_be_used_are_refused_and_not_repeated(lab, tokens):
    async with protected() as server:
        server.logins.token = lambda _: answer_json(200, {"token_type": "bearer", **tokens})

        with pytest.raises(LoginFailed, match="sent no valid tokens"):
            await log_in(lab, server)

        assert not (await lab.call("docs__run")).success
        assert "hush" not in (await lab.server("docs")).error


@pytest.mark.parametrize("status", [200, 500])
async def test_errors_do_not_repeat_the_token_that_was_sent(lab, status):
    def echo(method, path, headers, body):
        if b"tools/call" not in body:
            return None
        error = {"code": 1, "message": f"debug: {headers['authorization']}"}
        return answer_json(status, {"jsonrpc": "2.0", "id": json.loads(body)["id"], "error": error})

    async with protected() as server, serving(echo, server.handle) as origin:
        server.url = f"{origin}/mcp"
        await log_in(lab, server)

        result = await lab.call("docs__run")

        assert "debug: Bearer ***" in result.error_message
        assert not [token for token in server.logins.access_tokens if token in str(result)]


async def test_errors_do_not_repeat_a_refresh_token(lab):
    def refused(form):
        return answer_json(400, {"error": "invalid_grant", "about": form["refresh_token"]})

    async with protected(lifetime=1) as server:
        await log_in(lab, server)
        server.logins.token = refused

        await lab.call("docs__run")

        error = (await lab.server("docs")).error
        assert "invalid_grant" in error
        assert "***" in error
        assert "refresh-" not in error


async def test_a_login_page_with_a_state_of_its_own_is_refused(lab):
    async with protected() as server:
        server.logins.metadata = {"authorization_endpoint": "https://login.example/?state=1"}

        with pytest.raises(ToolServerUnavailable, match="The login can't be made"):
            await begin(lab, server)


async def test_a_client_that_was_registered_by_hand_is_not_registered_again(lab):
    async with protected() as server:
        secret = "hush-hush-hush"
        server.logins.clients["me"] = {
            "redirect_uris": ["http://127.0.0.1:5099/api/v1/mcp/callback"]
        }
        begun = await begin(
            lab, server, client_id="me", client_secret=secret, issuer=server.logins.url
        )

        await lab.logins.finish(come_back_of(server.logins.authorize(begun.url)))

        assert (await lab.call("docs__run")).success
        assert list(server.logins.clients) == ["me"]
        assert secret not in begun.url


async def test_a_token_is_not_sent_to_where_its_server_redirects(lab):
    seen = []

    def elsewhere(method, path, headers, body):
        seen.append(headers.get("authorization"))
        return reply(200, b"")

    async with protected() as server, serving(elsewhere) as thief:
        begun = await begin(lab, server)
        await lab.logins.finish(come_back_of(server.logins.authorize(begun.url)))
        assert (await lab.call("docs__run")).success
        server.redirect = f"{thief}/mcp"

        result = await lab.call("docs__run")

        assert "Redirects are not followed" in result.error_message
        assert seen == []


async def test_a_token_is_of_no_use_to_another_server_of_the_same_login(lab):
    async with protected() as server, protected() as other:
        other.logins.url = server.logins.url
        begun = await begin(lab, server)
        await lab.logins.finish(come_back_of(server.logins.authorize(begun.url)))
        both = {name: {"url": each.url} for name, each in (("docs", server), ("more", other))}
        await lab.configure(**both)

        await lab.call("more__run")

        assert set(other.tokens) == {None}


async def test_old_servers_without_metadata_are_asked_at_their_own_origin(lab):
    logins = AuthorizationServer()
    tokens = []

    def mcp(method, path, headers, body):
        if path != "/mcp":
            return logins.handle(method, path, headers, body)
        tokens.append(headers.get("authorization"))
        if headers.get("authorization", "").removeprefix("Bearer ") in logins.access_tokens:
            return older_server(lambda: {"content": []})(method, json.loads(body or b"{}"), headers)
        return reply(401, b"")

    async with serving(mcp) as logins.url:
        await lab.configure(docs={"url": f"{logins.url}/mcp"})
        begun = await lab.logins.begin("docs")
        await lab.logins.finish(come_back_of(logins.authorize(begun.url)))

        assert (await lab.call("docs__run")).success


async def test_a_user_in_an_address_is_sent_as_ever(lab):
    seen = []

    def mcp(method, path, headers, body):
        seen.append(headers.get("authorization"))
        return older_server(lambda: {"content": []})(method, json.loads(body or b"{}"), headers)

    async with serving(mcp) as origin:
        await lab.configure(docs={"url": origin.replace("//", "//me:hush@") + "/mcp"})

        assert (await lab.call("docs__run")).success

    assert set(seen) == {"Basic bWU6aHVzaA=="}
