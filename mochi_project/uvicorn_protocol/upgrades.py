"""Ignores offers of an upgrade (``Upgrade: h2c``), see docs/decisions/0023.

llhttp treats everything after such a head as another protocol, including the request's body.
uvicorn accepts only WebSocket upgrades and otherwise serves the request without its body.
"""

# private: HttpToolsProtocol._unset_keepalive_if_required and the parser that it makes. Price:
# nothing. Why: bodies of requests that offer an upgrade would be lost; test_upgrades.py and the
# clients of tests/functional/clients run with the newest uvicorn.

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

INVALID_REQUEST = "Invalid HTTP request received."
NO_HTTP_2 = "This server speaks HTTP/1.1. For HTTP/2, put a proxy before it."


class IgnoredUpgrades(HttpToolsProtocol):
    """Ignores upgrade offers, as RFC 9110 (7.8) allows.

    The head is parsed again without the offer by a new parser, and the data after it as the
    request's body and further requests. Tunnels (``CONNECT``) are refused.
    """

    def data_received(self, data: bytes) -> None:
        """Parse what arrived."""
        self._unset_keepalive_if_required()
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._parse(rest) :]
        except httptools.HttpParserError:
            # The preface of HTTP/2, sent by clients with prior knowledge.
            reason = NO_HTTP_2 if self.parser.get_method() == b"PRI" else INVALID_REQUEST
            self.logger.warning(reason)
            self.send_400_response(reason)

    def on_headers_complete(self) -> None:
        """Start the request, unless its head has to be parsed again."""
        if not self.parser.should_upgrade():
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End the request's body, unless the head has to be parsed again."""
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def _parse(self, data: memoryview) -> int:
        """Parse data up to a head that offers an upgrade; return the number of bytes parsed."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            method = self.parser.get_method()
            if method == b"CONNECT":
                self.send_400_response("This server is not a proxy: it does not accept CONNECT.")
                return len(data)
            head = self._head_without_offer(method)
            self.parser = new_parser(self)
            self.parser.feed_data(head)
            return int(offer.args[0])
        return len(data)

    def _head_without_offer(self, method: bytes) -> bytes:
        """Return the request's head without the header ``Upgrade``."""
        first = b"%b %b HTTP/%b\r\n" % (method, self.url, self.parser.get_http_version().encode())
        lines = [
            b"%b: %b\r\n" % header for header in self.scope["headers"] if header[0] != b"upgrade"
        ]
        return b"".join((first, *lines, b"\r\n"))


def new_parser(protocol: HttpToolsProtocol) -> httptools.HttpRequestParser:
    """Return a parser as uvicorn makes it, which continues after the last request."""
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
