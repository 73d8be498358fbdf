"""Requests that servers and proxies read differently are refused, and hide no other request.

The cases are those of llhttp's own tests (https://github.com/nodejs/llhttp, ``test/request``:
``transfer-encoding.md``, ``content-length.md``, ``invalid.md``), written anew for this server; a
name says which. Behind each stands a request that makes a session, should anybody serve it.
"""

import socket
from typing import Any

import pytest

pytestmark = pytest.mark.conformance

HEAD = b"POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY = b'{"model":"qwen3:14b"}'
HIDDEN = HEAD + b"Content-Length: 21\r\n\r\n" + BODY
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"15\r\n" + BODY + b"\r\n0\r\n\r\n"


def lengths(*values: bytes) -> bytes:
    return HEAD + b"".join(b"Content-Length: %b\r\n" % value for value in values) + b"\r\n" + BODY


def coded(*lines: bytes) -> bytes:
    return HEAD + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + CHUNKS


def chunks(data: bytes) -> bytes:
    return HEAD + CHUNKED + b"\r\n" + data


AMBIGUOUS = {
    # transfer-encoding.md
    "length-then-chunked": coded(b"Content-Length: 4", b"Transfer-Encoding: chunked"),
    "chunked-then-length": coded(b"Transfer-Encoding: chunked", b"Content-Length: 4"),
    "identity-with-length": coded(b"Transfer-Encoding: identity", b"Content-Length: 4"),
    "empty-encoding-with-length": coded(b"Transfer-Encoding:", b"Content-Length: 4"),
    "three-empty-encodings": coded(b"Content-Length: 4", *[b"Transfer-Encoding:"] * 3),
    "pigeons": coded(b"Transfer-Encoding: pigeons"),
    "chunked-is-not-the-last": coded(b"Transfer-Encoding: chunked, deflate"),
    "chunked-then-identity": coded(b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"),
    "chunked-twice-without-a-comma": coded(b"Transfer-Encoding: chunkedchunked"),
    "something-before-chunked": coded(b"Transfer-Encoding: xchunked"),
    "something-after-chunked": coded(b"Transfer-Encoding: chunkedx"),
    "quoted-chunked": coded(b'Transfer-Encoding: "chunked"'),
    "control-before-chunked": coded(b"Transfer-Encoding: \x0bchunked"),
    "space-before-the-colon": coded(b"Transfer-Encoding : chunked"),
    "tab-before-the-colon": coded(b"Transfer-Encoding\t: chunked"),
    "underscore": coded(
        b"Content-Length: 4", b"Transfer_Encoding: chunked", b"Transfer-Encoding :"
    ),
    "extension-without-semicolon": chunks(b"2 erfrferferf\r\n{}\r\n0 rrrr\r\n\r\n"),
    "nothing-after-semicolon": chunks(b"2;\r\n{}\r\n0\r\n\r\n"),
    "unbalanced-quotes": chunks(b'2;a="b; c\r\n{}\r\n0\r\n\r\n'),
    "line-feed-in-an-extension": chunks(b"2;a\nb\r\n{}\r\n0\r\n\r\n"),
    "spaces-after-a-size": chunks(b"2  \r\n{}\r\n0\r\n\r\n"),
    "spaces-before-a-size": chunks(b" 2\r\n{}\r\n0\r\n\r\n"),
    "sign-before-a-size": chunks(b"+2\r\n{}\r\n0\r\n\r\n"),
    "prefix-before-a-size": chunks(b"0x2\r\n{}\r\n0\r\n\r\n"),
    "no-size": chunks(b"\r\n{}\r\n0\r\n\r\n"),
    "size-overflow": chunks(b"ffffffffffffffff2\r\n{}\r\n0\r\n\r\n"),
    "size-ends-with-line-feed": chunks(b"2\n{}\r\n0\r\n\r\n"),
    "chunk-is-longer-than-its-size": chunks(b"2\r\n{}}\r\n0\r\n\r\n"),
    "chunk-ends-with-line-feed": chunks(b"2\r\n{}\n0\r\n\r\n"),
    "chunk-without-an-end": chunks(b"2\r\n{}0\r\n\r\n"),
    "length-among-the-trailers": chunks(CHUNKS[:-2] + b"Content-Length: 4\r\n\r\n"),
    # content-length.md
    "two-lengths": lengths(b"21", b"4"),
    "two-equal-lengths": lengths(b"21", b"21"),
    "list-of-lengths": lengths(b"21, 21"),
    "length-overflow": lengths(b"1000000000000000000000"),
    "spaces-in-a-length": lengths(b"2 1"),
    "empty-length": lengths(b""),
    "signed-length": lengths(b"+21"),
    "negative-length": lengths(b"-21"),
    "hexadecimal-length": lengths(b"0x15"),
    "length-with-a-return-in-its-name": HEAD + b"Content\rLength: 21\r\n\r\n" + BODY,
    # invalid.md
    "headers-separated-by-return": HEAD + b"Foo: 1\rContent-Length: 21\r\n\r\n" + BODY,
    "headers-separated-by-line-feed": HEAD + b"x:x\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    "empty-headers-separated-by-return": HEAD + b"x:\rTransfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    "empty-headers-separated-by-line-feed": HEAD + b"x:\nContent-Length: 21\r\n\r\n" + BODY,
    "headers-that-end-with-a-return": HEAD + b"\rZ" + HIDDEN,
    "only-line-feeds": HIDDEN.replace(b"\r\n", b"\n"),
    "folded-header": HEAD + b"Foo: bar\r\n Content-Length: 21\r\n\r\n" + BODY,
    "folded-name": HEAD + b"Content-Length\r\n : 21\r\n\r\n" + BODY,
    "space-after-the-start-line": HIDDEN.replace(b"Host:", b" Host:"),
    "header-without-a-name": HEAD + b": 21\r\n\r\n" + BODY,
    "no-token-in-a-name": HEAD + b"Fo@: 1\r\nContent-Length: 21\r\n\r\n" + BODY,
    "control-in-a-name": HEAD + b"Foo\x01: 1\r\nContent-Length: 21\r\n\r\n" + BODY,
    "null-in-a-value": HEAD + b"Foo: 1\x002\r\nContent-Length: 21\r\n\r\n" + BODY,
    "unknown-method": HIDDEN.replace(b"POST", b"POSTX"),
    "method-of-another-protocol": HIDDEN.replace(b"POST", b"ANNOUNCE"),
    "unknown-version": HIDDEN.replace(b"HTTP/1.1", b"HTTP/5.6"),
    "no-version": HIDDEN.replace(b" HTTP/1.1", b""),
    "text-in-a-binary-version": HIDDEN.replace(b"HTTP/1.1", b"HTTP/2.0"),
    "two-hosts": HIDDEN.replace(b"Host: localhost", b"Host: localhost\r\nHost: 127.0.0.1"),
}

PLAIN = {
    "length": lengths(b"21"),
    "length-with-zeroes": lengths(b"0021"),
    "chunks": chunks(CHUNKS),
    "upper-case": coded(b"TRANSFER-ENCODING: Chunked"),
    "upper-case-size": chunks(
        CHUNKS.replace(b"15", b"00015").replace(b"\r\n0\r\n", b"\r\n000\r\n")
    ),
    "two-chunks": chunks(b"a\r\n" + BODY[:10] + b"\r\nB\r\n" + BODY[10:] + b"\r\n0\r\n\r\n"),
    "extensions": chunks(CHUNKS.replace(b"15", b'15;a;b=c;d="e \\"f\\""', 1)),
    "trailers": chunks(CHUNKS[:-2] + b"Vary: *\r\nHost: evil.example\r\n\r\n"),
    "empty-lines-before": b"\r\n\r\n" + lengths(b"21"),
}


def sessions(edge_server: Any) -> set[str]:
    return {path.name for path in edge_server.sessions_on_disk() if path.suffix == ".json"}


def exchange(edge_server: Any, data: bytes) -> bytes:
    """Send bytes at once, and return all that comes back until the server hangs up."""
    with edge_server.connect() as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        received = b""
        while piece := sock.recv(65536):
            received += piece
    return received


@pytest.mark.parametrize("request_bytes", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_what_can_be_read_in_two_ways_is_refused_and_hides_nothing(
    edge_server: Any, request_bytes: bytes
) -> None:
    before = sessions(edge_server)
    received = exchange(edge_server, request_bytes + HIDDEN)
    assert received.startswith(b"HTTP/1.1 400 "), received
    assert received.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in received
    assert sessions(edge_server) == before


@pytest.mark.parametrize("request_bytes", PLAIN.values(), ids=PLAIN)
def test_what_can_be_read_in_one_way_only_is_served_and_so_is_what_follows(
    edge_server: Any, request_bytes: bytes
) -> None:
    before = sessions(edge_server)
    with edge_server.connect() as sock:
        sock.sendall(request_bytes + HIDDEN.replace(b"Host:", b"Connection: close\r\nHost:"))
        received = b""
        while piece := sock.recv(65536):
            received += piece
    assert received.count(b"HTTP/1.1 ") == received.count(b"HTTP/1.1 201 ") == 2
    assert len(sessions(edge_server) - before) == 2
