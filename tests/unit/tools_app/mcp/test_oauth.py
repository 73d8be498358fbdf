"""Hostile servers gain nothing: neither addresses of this network, nor tokens of others."""

import json

import pytest

from mochi_project.addresses import is_public_web
from tests.unit.tools_app.mcp.http_servers import older_server, reply
from tests.unit.tools_app.mcp.oauth_servers import AuthorizationServer, protected, serving
from tools_app.errors import ToolServerUnavailable
from tools_app.mcp.logins import LoginFailed, come_back_of


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
