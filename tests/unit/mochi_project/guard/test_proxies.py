"""Whose word counts about who asks."""

import pytest

from mochi_project.configuration.loading import load_settings
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.guard.proxies import TrustedProxies, proxy_header


def scope_of(peer, *headers):
    return {"client": (peer, 50000) if peer else None, "headers": list(headers)}


def told(*values, name=b"x-forwarded-for"):
    return [(name, value) for value in values]


@pytest.mark.parametrize(
    ("peer", "trusted"),
    [
        ("127.0.0.1", True),
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("10.2.0.1", False),
        ("fd00::1", False),
        ("testclient", False),
        (None, True),
    ],
)
def test_peers_are_trusted_by_address_network_or_as_a_unix_socket(peer, trusted):
    proxies = TrustedProxies(["127.0.0.1", "10.1.0.0/16", "unix"])
    assert proxies.trust_peer_of(scope_of(peer)) is trusted


def test_a_connection_that_has_ended_is_no_unix_sockets():
    proxies = TrustedProxies(["unix"])
    assert proxies.trust_peer_of({**scope_of(None), "server": ("/run/mochi.sock", None)})
    assert not proxies.trust_peer_of({**scope_of(None), "server": ("127.0.0.1", 8000)})


def test_nobody_is_trusted_who_is_not_named():
    proxies = TrustedProxies([])
    assert not proxies.trust_peer_of(scope_of("127.0.0.1"))
    assert not proxies.trust_peer_of(scope_of(None))
    assert not proxies.trust_peer_of({"headers": []})


@pytest.mark.parametrize(
    ("headers", "client"),
    [
        ([], "127.0.0.1"),
        (told(b"203.0.113.7"), "203.0.113.7"),
        (told(b"6.6.6.6, 203.0.113.7"), "203.0.113.7"),
        (told(b"6.6.6.6", b"203.0.113.7, 10.0.0.1"), "203.0.113.7"),
        (told(b"203.0.113.7:4711"), "203.0.113.7"),
        (told(b"10.0.0.1"), "10.0.0.1"),
        (told(b"6.6.6.6, unknown"), "127.0.0.1"),
        (told(b"6.6.6.6, unknown, 10.0.0.2"), "10.0.0.2"),
        (told(b"2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64"),
        (told(b'for="[2001:db8:1:2::9]:80";proto=https', name=b"forwarded"), "2001:db8:1:2::/64"),
        (told(b"for=6.6.6.6;by=x, For=203.0.113.7", name=b"forwarded"), "203.0.113.7"),
        (told(b"for=_hidden", name=b"forwarded"), "127.0.0.1"),
        (told(b", ,"), "127.0.0.1"),
    ],
)
def test_a_trusted_proxy_tells_who_asks(headers, client):
    proxies = TrustedProxies(["127.0.0.0/8", "10.0.0.0/8"])
    assert proxies.client_of(scope_of("127.0.0.1", *headers)) == client


def test_what_others_tell_of_who_they_are_counts_for_nothing():
    proxies = TrustedProxies(["10.0.0.1"])
    for peer in ("127.0.0.1", "203.0.113.7"):
        assert proxies.client_of(scope_of(peer, *told(b"6.6.6.6"))) == peer
    assert proxies.client_of(scope_of(None, *told(b"6.6.6.6"))) == "unix"
    assert proxies.client_of(scope_of("testclient")) == "testclient"


@pytest.mark.parametrize(
    "name",
    [
        b"forwarded",
        b"via",
        b"x-real-ip",
        b"x-client-ip",
        b"cf-connecting-ip",
        b"x-forwarded-for",
        b"x-forwarded-proto",
        b"x-forwarded-anything",
    ],
)
def test_headers_of_proxies_are_known(name):
    assert proxy_header([(b"host", b"localhost"), (name, b"")]) == name.decode()


def test_other_headers_are_none_of_a_proxy():
    assert proxy_header([(b"host", b"localhost"), (b"x-forward", b""), (b"viaduct", b"")]) is None


@pytest.mark.parametrize("value", ["localhost", "127.0.0.1/64", "10.0.0.0/8,*", "Unix"])
def test_a_proxy_that_can_not_be_one_stops_the_start(value, monkeypatch):
    monkeypatch.setenv("MOCHI_TRUSTED_PROXIES", value)
    with pytest.raises(ConfigurationError, match=r"MOCHI_TRUSTED_PROXIES must list IP addresses"):
        load_settings()


@pytest.mark.parametrize("value", ["0.0.0.0/0", "127.0.0.1, ::/0"])
def test_not_everybody_is_a_proxy(value, monkeypatch):
    monkeypatch.setenv("MOCHI_TRUSTED_PROXIES", value)
    with pytest.raises(ConfigurationError, match=r"MOCHI_TRUSTED_PROXIES can't list every address"):
        load_settings()


def test_a_socket_that_every_user_may_open_is_no_proxys(monkeypatch):
    monkeypatch.setenv("MOCHI_TRUSTED_PROXIES", "unix")
    monkeypatch.setenv("MOCHI_UNIX_SOCKET_MODE", "0666")
    with pytest.raises(ConfigurationError, match=r"MOCHI_TRUSTED_PROXIES can't list unix with"):
        load_settings()
