"""``oauth`` in an entry of mcp.json: what it may say, and what is refused."""

import pytest

from tests.unit.tools_app.mcp.test_config import parse
from tools_app.mcp.config import BrokenSpec, HttpSpec
from tools_app.mcp.oauth_spec import OAuthSpec, origin_of

URL = "https://mcp.example/mcp"
HAND = {"client_id": "me", "client_secret": "${SECRET}", "issuer": "https://login.example"}


def test_a_server_over_http_may_have_a_login():
    assert parse({"url": URL}).oauth == OAuthSpec()


def test_a_header_says_who_asks_instead_of_a_login():
    spec = parse({"url": URL, "headers": {"authorization": "Bearer x"}, "oauth": HAND})

    assert isinstance(spec, HttpSpec)
    assert spec.oauth is None


def test_a_user_in_the_address_says_who_asks_too():
    assert parse({"url": "https://me:hush-hush@mcp.example/mcp"}).oauth is None


def test_a_secret_comes_from_a_variable_and_is_not_shown():
    spec = parse({"url": URL, "oauth": HAND}, environment={"SECRET": "hush-hush-hush"})

    assert spec.oauth.client_secret == "hush-hush-hush"
    assert spec.oauth.method == "client_secret_basic"
    assert "hush-hush-hush" in spec.secrets
    assert "hush" not in repr(spec) + repr(spec.oauth)


@pytest.mark.parametrize(
    ("oauth", "words"),
    [
        ({**HAND, "client_secret": "${UNSET}"}, "variable UNSET is not set"),
        ({**HAND, "client_secret": "${MOCHI_API_TOKEN}"}, "this server's own"),
        ({"client_id": "me", "client_secret": "x"}, "needs the 'client_id' and the 'issuer'"),
        ({"client_secret": "x", "issuer": URL}, "needs the 'client_id' and the 'issuer'"),
        ({"grant": "client_credentials"}, "needs a 'client_secret'"),
        ({"grant": "password"}, "oauth.grant"),
        ({"issuer": "login.example"}, "'issuer' is not"),
        ({"client_metadata_url": "http://me.example/client.json"}, "'client_metadata_url' is not"),
        ({"client_metadata_url": "https://me.example/"}, "'client_metadata_url' is not"),
        ({"token_endpoint_auth_method": "tls"}, "oauth.token_endpoint_auth_method"),
        ({"scope": ["read"]}, "oauth.scope"),
        ("yes", "oauth"),
    ],
)
def test_what_can_not_be_used_is_said(oauth, words):
    spec = parse({"url": URL, "oauth": oauth}, environment={"MOCHI_API_TOKEN": "x"})

    assert isinstance(spec, BrokenSpec)
    assert words in spec.error


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://MCP.example/mcp?x=y", "https://mcp.example:443"),
        ("http://mcp.example:80/", "http://mcp.example:80"),
        ("https://me:hush@mcp.example:8443", "https://mcp.example:8443"),
    ],
)
def test_an_origin_is_scheme_host_and_port(url, origin):
    assert origin_of(url) == origin
