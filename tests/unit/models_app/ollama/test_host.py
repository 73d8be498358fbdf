"""Addresses of Ollama servers, as people write them."""

import pytest

from models_app.ollama.host import parse_host


@pytest.mark.parametrize(
    ("written", "url"),
    [
        (None, "http://localhost:11434"),
        ("", "http://localhost:11434"),
        ("http://localhost:11434/", "http://localhost:11434"),
        ("192.168.1.5", "http://192.168.1.5:11434"),
        ("192.168.1.5:80", "http://192.168.1.5:80"),
        ("https://ollama.example", "https://ollama.example"),
        ("https://ollama.example/behind/a/proxy/", "https://ollama.example/behind/a/proxy"),
        ("http://[::1]:11434", "http://[::1]:11434"),
        ("[::1]", "http://[::1]:11434"),
        ("gpu-box/ollama/", "http://gpu-box:11434/ollama"),
        ("gpu-box:80/ollama", "http://gpu-box:80/ollama"),
        (":8080", "http://127.0.0.1:8080"),
    ],
)
def test_an_address_becomes_a_base_url(written, url):
    assert parse_host(written).url == url
    assert parse_host(written).headers == {}


def test_credentials_are_kept_apart():
    host = parse_host("https://ann:p%3Aw@ollama.example")
    assert host.url == "https://ollama.example"
    assert host.headers == {"Authorization": "Basic YW5uOnA6dw=="}


@pytest.mark.parametrize("written", ["ftp://x", "http://x:port", "file:///etc", "htp:", "htp:/x"])
def test_what_is_no_http_address_is_refused(written):
    with pytest.raises(ValueError):
        parse_host(written)
