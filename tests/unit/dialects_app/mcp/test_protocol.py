"""What of a message must fit its headers, beyond what HTTP clients can send."""

import json

from dialects_app.mcp.protocol import MODERN_VERSION, read_message, require_match

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def test_spaces_around_a_header_are_none_of_its_value():
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
    headers = {"mcp-protocol-version": MODERN_VERSION, "mcp-method": " tools/list "}

    require_match(read_message(json.dumps(body).encode(), headers), headers)
