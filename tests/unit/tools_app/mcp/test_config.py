"""mcp.json: what it may say, what is refused, and how changes of it are followed."""

import json
import os
from pathlib import Path

import pytest

from tools_app.mcp.config import (
    BrokenSpec,
    ConfigFile,
    HttpSpec,
    McpConfig,
    StdioSpec,
    parse_config,
    read_config,
)

HOME = Path("/data")


def parse(entry, *, name="srv", environment=None):
    data = json.dumps({"mcpServers": {name: entry}}).encode()
    return parse_config(data, directory=HOME, environment=environment or {}).servers[name]


def test_a_program_with_all_it_needs():
    spec = parse(
        {
            "command": "uvx",
            "args": ["mcp-server-time", "--local"],
            "env": {"KEY": "v-${TOKEN}-${TOKEN}", "PORT": 3000, "ON": True},
            "cwd": "sub",
            "alwaysAllow": ["what others know"],
        },
        environment={"TOKEN": "secret"},
    )

    assert spec == StdioSpec(
        command="uvx",
        args=("mcp-server-time", "--local"),
        env={"KEY": "v-secret-secret", "PORT": "3000", "ON": "true"},
        cwd="/data/sub",
    )


def test_an_address_with_headers():
    spec = parse(
        {"url": "https://mcp.example/mcp", "headers": {"Authorization": "Bearer ${T}"}},
        environment={"T": "abc"},
    )

    assert spec == HttpSpec(url="https://mcp.example/mcp", headers={"Authorization": "Bearer abc"})


@pytest.mark.parametrize("entry", [{"command": "x"}, {"url": "https://mcp.example/mcp"}])
def test_a_server_is_trusted_only_if_the_file_says_so(entry):
    assert not parse(entry).trusted
    assert parse({**entry, "trusted": True}).trusted
    assert isinstance(parse({**entry, "trusted": "yes"}), BrokenSpec)


def test_programs_start_where_the_file_is():
    assert parse({"command": "x"}).cwd == "/data"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({}, "either a 'command' or a 'url'"),
        ({"command": "x", "url": "http://x"}, "either a 'command' or a 'url'"),
        ({"command": ""}, "empty"),
        ({"command": "x\0"}, "NUL"),
        ({"command": 7}, "Expected `str"),
        ({"command": "x", "args": "y"}, "Expected `array"),
        ({"command": "x", "env": {"A": "${NOT_SET}"}}, "NOT_SET is not set"),
        ({"command": "x", "env": {"A": "${MOCHI_API_TOKEN}"}}, "own"),
        ({"command": "x", "env": {"MOCHI_API_TOKEN": "x"}}, "own"),
        ({"command": "x", "env": {"A": "${MOCHI_SECRET_KEY}"}}, "own"),
        ({"command": "x", "env": {"MOCHI_JOURNAL_URL": "x"}}, "own"),
        ({"command": "x", "env": {"A=B": "x"}}, "'env'"),
        ({"url": "file:///etc/passwd"}, "http"),
        ({"url": "ftp://host"}, "http"),
        ({"url": "http://"}, "http"),
        ({"url": "http://host:99999"}, "http"),
        ({"url": "http://ho st"}, "http"),
        ({"url": "http://[bad"}, "http"),
        ({"url": "http://x", "headers": {"A": "b\r\nC: d"}}, "header"),
        ({"url": "http://x", "headers": {"A:": "b"}}, "header"),
        ({"url": "http://x", "type": "sse"}, "SSE"),
        ([], "Expected `object"),
    ],
)
def test_an_entry_that_can_not_work_says_why(entry, said):
    spec = parse(entry, environment={"MOCHI_API_TOKEN": "t"})

    assert isinstance(spec, BrokenSpec)
    assert said in spec.error


@pytest.mark.parametrize("name", ["", "a b", "../x", "-a", "_a", "a__b", "a_", "x" * 65, "é"])
def test_names_that_could_not_be_told_apart_are_refused(name):
    spec = parse({"command": "x"}, name=name)

    assert isinstance(spec, BrokenSpec)


@pytest.mark.parametrize("name", ["a", "My-Server_2", "x" * 64, "a-"])
def test_names_that_servers_may_have(name):
    assert isinstance(parse({"command": "x"}, name=name), StdioSpec)


def test_one_broken_entry_costs_itself():
    data = json.dumps({"mcpServers": {"bad": {"command": 1}, "good": {"command": "x"}}}).encode()

    servers = parse_config(data, directory=HOME, environment={}).servers

    assert isinstance(servers["bad"], BrokenSpec)
    assert isinstance(servers["good"], StdioSpec)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"servers": {}}',
        b'{"mcpServers": []}',
        b"\xff\xfe",
        b"[" * 99999,
    ],
)
def test_a_broken_file_says_why(data):
    config = parse_config(data, directory=HOME, environment={})

    assert config.servers == {}
    assert config.error is not None
    assert "mcp.json" in config.error


def test_a_byte_order_mark_is_no_content():
    data = b'\xef\xbb\xbf{"mcpServers": {}}'

    assert parse_config(data, directory=HOME, environment={}) == McpConfig()


def test_no_value_is_shown():
    stdio = parse({"command": "x", "args": ["--key=s3cret"], "env": {"K": "s3cret"}})
    http = parse({"url": "http://u:s3cret@h/?k=s3cret", "headers": {"A": "s3cret"}})
    broken = parse({"command": "x", "env": {"A": ["s3cret"]}})

    assert "s3cret" not in repr((stdio, http, broken))


def test_a_file_that_is_not_there_names_no_servers(tmp_path):
    assert read_config(tmp_path / "mcp.json") == McpConfig()


@pytest.mark.parametrize("kind", ["link", "fifo", "directory", "huge"])
def test_what_is_no_file_is_not_read(tmp_path, kind):
    path = tmp_path / "mcp.json"
    if kind == "link":
        (tmp_path / "real").write_text('{"mcpServers": {}}')
        path.symlink_to("real")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.write_bytes(b" " * (1 << 20) + b" ")

    config = read_config(path)

    assert config.servers == {}
    assert config.error is not None


@pytest.mark.allow_blocking
async def test_changes_are_followed_and_a_broken_file_changes_nothing(tmp_path):
    path = tmp_path / "mcp.json"
    file = ConfigFile(path)
    assert (await file.current()).servers == {}

    path.write_text('{"mcpServers": {"a": {"command": "x"}}}')
    first = await file.current()
    assert list(first.servers) == ["a"]
    assert await file.current() is first

    path.write_text('{"mcpServers": {"a": {"comm')
    broken = await file.current()
    assert list(broken.servers) == ["a"]
    assert broken.error is not None

    path.write_text('{"mcpServers": {"b": {"command": "x"}}}')
    assert list((await file.current()).servers) == ["b"]

    path.unlink()
    assert await file.current() == McpConfig()
