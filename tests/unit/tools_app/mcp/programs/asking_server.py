"""A shop that asks people: written with the official SDK, over stdio, or HTTP if given a port.

With ``--old`` in front it knows no protocol after 2025-11-25, and asks while its calls run.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

from mcp import UrlElicitationRequiredError
from mcp.server.mcpserver import MCPServer, RequestStateSecurity, Resolve
from mcp.server.mcpserver.resolve import Elicit
from mcp_types import ElicitRequestURLParams, ToolAnnotations
from pydantic import BaseModel, Field

server = MCPServer(
    "shop", request_state_security=RequestStateSecurity(keys=["a key that outlives processes 0123"])
)


class Order(BaseModel):
    size: Literal["small", "large"] = "small"
    count: Annotated[int, Field(ge=1)] = 1
    password: str = ""


class Colour(BaseModel):
    colour: str


def ask_order() -> Elicit[Order]:
    return Elicit("Which size?", Order)


def ask_colour() -> Elicit[Colour]:
    return Elicit("Which colour?", Colour)


@server.tool(annotations=ToolAnnotations(destructive_hint=False))
def order(item: str, path: str, chosen: Annotated[Order, Resolve(ask_order)]) -> str:
    """Order something, and write it down."""
    with Path(path).open("a") as file:
        file.write(f"{item} {chosen.size} {chosen.count} {chosen.password}\n")
    return f"ordered {chosen.count} {item}"


@server.tool()
def paint(
    order: Annotated[Order, Resolve(ask_order)], colour: Annotated[Colour, Resolve(ask_colour)]
) -> str:
    """Ask two questions."""
    return f"{order.size} in {colour.colour}"


@server.tool()
def pay(path: str, url: str = "https://shop.example/pay?order=1") -> str:
    """Have an address opened first, up to 2025-11-25."""
    paid = Path(path)
    if not paid.exists():
        paid.touch()
        params = ElicitRequestURLParams(message="Please pay.", url=url, elicitation_id="pay-1")
        raise UrlElicitationRequiredError([params])
    return "paid"


def speak_old(program: list[str]) -> None:
    """Run the server, and refuse the discovery of newer protocols in its place."""
    child = subprocess.Popen(program, stdin=subprocess.PIPE)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message.get("method") == "server/discover":
            error = {"code": -32601, "message": "Method not found"}
            answer = {"jsonrpc": "2.0", "id": message["id"], "error": error}
            print(json.dumps(answer), flush=True)
        else:
            child.stdin.write(line)
            child.stdin.flush()
    child.stdin.close()
    child.wait()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--old"]:
        speak_old([sys.executable, *sys.argv[:1]])
    elif len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
