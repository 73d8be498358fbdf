import pytest
from hypothesis import given
from hypothesis import strategies as st

from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.guard.origins import AccessPolicy, normalise_origin

POLICY = AccessPolicy(
    allowed_hosts=["mochi.lan", ".example.org"],
    cors_origins=["https://app.example.com", "tauri://localhost", "http://front.lan:80/"],
)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8000",
        "LOCALHOST:8000",
        "localhost.:8000",
        "127.0.0.1",
        "127.0.0.1:8000",
        "192.168.1.20:5099",
        "0.0.0.0:8000",
        "[::1]:8000",
        "[::1]",
        "[2001:db8::7]:8000",
        "mochi.lan:8000",
        "Mochi.LAN",
        "a.example.org",
    ],
)
def test_loopback_addresses_and_configured_names_are_answered_to(host: str) -> None:
    assert POLICY.allows_host(host.encode())


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "mochi.lan.evil.example",
        "evilmochi.lan",
        "example.org",
        "evilexample.org",
        "localhost:8000:1",
        "localhost:port",
        "localhost@evil.example",
        "user@localhost",
        "[::1",
        "[evil.example]",
        "::1",
        "local host",
        "localhost\n",
        "localhost,evil.example",
        "a" * 400,
        "\u017flocalhost",
    ],
)
def test_every_other_host_is_not(host: str) -> None:
    assert not POLICY.allows_host(host.encode())


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:3000", "localhost:8000"),
        ("https://localhost", "localhost:8000"),
        ("http://127.0.0.1:5173", "127.0.0.1:8000"),
        ("http://[::1]:3000", "localhost:8000"),
        ("http://192.168.1.20:8000", "192.168.1.20:8000"),
        ("https://mochi.lan", "mochi.lan"),
        ("https://mochi.lan", "mochi.lan:443"),
        ("http://mochi.lan", "mochi.lan:80"),
        ("https://app.example.com", "localhost:8000"),
        ("https://app.example.com:443", "localhost:8000"),
        ("HTTPS://APP.example.com", "localhost:8000"),
        ("http://front.lan", "localhost:8000"),
        ("tauri://localhost", "localhost:8000"),
    ],
)
def test_own_loopback_and_configured_origins_may_call(origin: str, host: str) -> None:
    assert POLICY.allows_origin(origin.encode(), host.encode())


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("null", "localhost:8000"),
        ("", "localhost:8000"),
        ("*", "localhost:8000"),
        ("https://evil.example", "localhost:8000"),
        ("http://localhost.evil.example", "localhost:8000"),
        ("http://127.0.0.1.evil.example", "127.0.0.1:8000"),
        ("http://localhost@evil.example", "localhost:8000"),
        ("http://192.168.1.20:9000", "192.168.1.20:8000"),
        ("http://192.168.1.21:8000", "192.168.1.20:8000"),
        ("http://mochi.lan", "mochi.lan:8000"),
        ("http://app.example.com", "localhost:8000"),
        ("https://app.example.com:8443", "localhost:8000"),
        ("https://app.example.com.evil.example", "localhost:8000"),
        ("tauri://evil", "localhost:8000"),
        ("ionic://localhost", "localhost:8000"),
        ("file://", "localhost:8000"),
        ("http://localhost:3000/path", "localhost:8000"),
        ("https://" + "a" * 400, "localhost:8000"),
    ],
)
def test_every_other_origin_may_not(origin: str, host: str) -> None:
    assert not POLICY.allows_origin(origin.encode(), host.encode())


@given(st.binary(max_size=400), st.binary(max_size=400))
def test_no_bytes_make_the_policy_fail(origin: bytes, host: bytes) -> None:
    POLICY.allows_host(host)
    POLICY.allows_origin(origin, host)


@pytest.mark.parametrize("origin", ["*", "null", "app.example.com", "https://", "https://a/b c"])
def test_an_unusable_origin_stops_the_start_naming_the_variable(origin: str) -> None:
    with pytest.raises(ConfigurationError, match="MOCHI_CORS_ORIGINS"):
        AccessPolicy(cors_origins=[origin])


@pytest.mark.parametrize("host", ["*", "http://mochi.lan", "mochi lan", ""])
def test_an_unusable_host_stops_the_start_naming_the_variable(host: str) -> None:
    with pytest.raises(ConfigurationError, match="MOCHI_ALLOWED_HOSTS"):
        AccessPolicy(allowed_hosts=[host])


def test_origins_are_compared_as_browsers_write_them() -> None:
    assert normalise_origin(" https://App.Example.com:443/ ") == "https://app.example.com"
    assert normalise_origin("http://[0:0::1]:80") == "http://[::1]"
    assert normalise_origin("vscode-webview://abc123") == "vscode-webview://abc123"
