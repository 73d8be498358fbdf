"""Drives the MCP client of a running mochi-server through one scenario of MCP's conformance suite.

The suite starts this program with the address of its own MCP server as the last argument, and says
in variables which scenario it plays. By hand, with the clients of ``openai_clients/install``:

    mochi-server --test-mode --port 5099 --data-dir /tmp/data
    export PYTHONPATH=$PWD SUITE=.clients/node_modules/@modelcontextprotocol/conformance
    CLIENT=".venv/bin/python tests/functional/mcp_conformance/client.py"
    .clients/node/bin/node $SUITE/dist/index.js client --scenario tools_call --verbose \
        --command "$CLIENT http://localhost:5099 /tmp/data"

All it does goes through the routes that front ends have: the server is added to ``mcp.json``,
logged in to where it asks for that (the suite's authorization page redirects at once), and every
tool is called in a turn of a scripted model. What servers ask for in between is accepted as it is.
"""

import json
import os
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
from httpx_sse import EventSource

from scripted_app.instances import smallest_instance

MODEL = "qwen3:14b"
MOST_LOGINS = 4
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")


class Front:
    """A front end of the server, for one MCP server of a name of its own."""

    def __init__(self, url: str) -> None:
        self.http = httpx.Client(base_url=f"{url}/api/v1", timeout=30, trust_env=False)
        self.name = f"suite-{secrets.token_hex(4)}"
        self.logins = 0

    def status(self) -> dict[str, Any]:
        servers = self.http.get("/mcp/servers").raise_for_status().json()["servers"]
        return next(server for server in servers if server["name"] == self.name)

    def log_in(self) -> bool:
        """Log in, if the server needs that; return whether it was done."""
        login = self.status()["login"]
        if login is None or not login["needed"] or self.logins == MOST_LOGINS:
            return False
        self.logins += 1
        begun = self.http.post(f"/mcp/servers/{self.name}/login")
        if begun.is_error:
            print("The login was refused:", begun.text)
            return False
        page = httpx.get(begun.json()["authorization_url"], follow_redirects=True, trust_env=False)
        print("Logged in:", page.status_code)
        return page.is_success

    def settle(self) -> None:
        """Wait until the server is no longer starting, and log in where it asks for that."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if self.status()["state"] not in {"starting", "backing_off"} and not self.log_in():
                return
            time.sleep(0.05)

    def call(self, tool: str, arguments: dict[str, Any]) -> None:
        """Let a scripted model call a tool, again after a login that the call asks for."""
        for _ in range(MOST_LOGINS):
            print(tool, self.turn(tool, arguments))
            if not self.log_in():
                return
            self.settle()

    def turn(self, tool: str, arguments: dict[str, Any]) -> list[Any]:
        """Run a turn with the call, and return its results."""
        settings = {"tools": [tool], "execution_policy": "never_confirm"}
        session = self.http.post("/sessions", json={"model": MODEL, "tool_settings": settings})
        chat = f"/chat/{session.raise_for_status().json()['session_id']}"
        script = {
            "per_request": True,
            "messages": [
                {"tool_call": [{"name": tool, "args": arguments}]},
                {"text_message": {"text": "Done."}},
            ],
        }
        message = f"<|instruction_start|>{json.dumps(script)}<|instruction_end|>"
        body = {"message": message}
        with self.http.stream("POST", f"{chat}/stream", json=body) as answer:
            return list(self.results(chat, answer))

    def results(self, chat: str, answer: httpx.Response) -> Iterator[Any]:
        for event in EventSource(answer).iter_sse():
            data = json.loads(event.data) if event.data else {}
            if event.event == "tool_call_confirmation_required":
                accepted = {"confirmation_id": data["confirmation_id"], "approved": True}
                more = {"content": {}} if data.get("kind") == "input" else {}  # all defaults
                self.http.post(f"{chat}/confirm-tool", json=accepted | more).raise_for_status()
            if event.event == "tool_result":
                yield data.get("result") or data.get("error_message")


def entry(url: str) -> dict[str, Any]:
    """Return the entry of ``mcp.json``, with the credentials that the scenario gives."""
    fields = ("client_id", "client_secret", "issuer")
    oauth = {name: CONTEXT[name] for name in fields if name in CONTEXT}
    if "client_secret" in oauth and "issuer" not in oauth:  # which an operator knows
        well_known = urljoin(url, "/.well-known/oauth-protected-resource/mcp")
        found = httpx.get(well_known, trust_env=False).raise_for_status().json()
        oauth["issuer"] = found["authorization_servers"][0]
    if "client-credentials" in os.environ["MCP_CONFORMANCE_SCENARIO"]:
        oauth["grant"] = "client_credentials"
    return {"url": url} | ({"oauth": oauth} if oauth else {})


def play(front: Front) -> None:
    """Start the server, and call each of its tools."""
    front.http.post(f"/mcp/servers/{front.name}/restart")
    front.settle()
    status = front.status()
    print(status)
    chosen = {call["name"]: call["arguments"] for call in CONTEXT.get("toolCalls", ())}
    for tool in status["tools"]:
        schema = front.http.get(f"/tools/{tool}").raise_for_status().json()["json_schema"]
        plain = tool.removeprefix(f"{front.name}__")
        front.call(tool, chosen.get(plain) or smallest_instance(schema))


def main(server: str, data_dir: str, url: str) -> None:
    front, config = Front(server), Path(data_dir, "mcp.json")
    config.write_text(json.dumps({"mcpServers": {front.name: entry(url)}}))
    try:
        play(front)
    finally:
        config.unlink()
        front.http.get("/mcp/servers")  # which disconnects: the suite waits for that


if __name__ == "__main__":
    main(*sys.argv[1:])
