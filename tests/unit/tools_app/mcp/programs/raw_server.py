"""An MCP server without the SDK that misbehaves as its first argument says. Starts quickly."""

import json
import os
import sys
import threading
import time

MODE, *ARGUMENTS = sys.argv[1:]
WRITING = threading.Lock()
FLOODING = threading.Event()
LEARNT = []
SCRIPT = json.loads(ARGUMENTS[0]) if MODE == "scripted" else {}


def send(message):
    with WRITING:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def tool(name, **more):
    return {"name": name, "description": name, "inputSchema": {"type": "object"}, **more}


def text(content, **more):
    return {"content": [{"type": "text", "text": content}], **more}


def flood():
    line = json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}) + "\n"
    while True:
        with WRITING:
            sys.stdout.write(line * 100)
            sys.stdout.flush()


def tools():
    if MODE == "names":
        names = ["../x", "plain", "a.b", "a_b", "plain", "bell\a", "n" * 10_000, "m" * 100, ""]
        return {"tools": [tool(name) for name in names]}
    if MODE == "endless":
        return {"tools": [tool(f"t{time.monotonic_ns()}")] * 7, "nextCursor": "more"}
    if MODE == "regex":
        schema = {
            "type": "object",
            "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}},
            "required": ["x"],
        }
        return {"tools": [tool("run", outputSchema=schema)]}
    if MODE == "described":
        with open(ARGUMENTS[0]) as file:
            return {"tools": [{**tool("run"), "description": file.read()}]}
    if MODE == "no-list":
        return {"tools": "none of your business"}
    return {"tools": [tool("run"), tool("wait"), *LEARNT]}


def call(request):
    if request["params"]["name"] == "wait":
        return None
    if MODE == "crash":
        os._exit(9)
    if MODE == "lingers":
        os.close(1)
        time.sleep(3600)
    if MODE == "big":
        return text("x" * 1_000_000)
    if MODE == "too-big":
        return text("x" * 9_000_000)
    if MODE == "halves":
        halves = "\ud83d\ude00 \ud83d"
        return text(f"whole \U0001f600 {halves}", structuredContent={f"k{halves}": [halves]})
    if MODE == "regex":
        return text("", structuredContent={"x": "a" * 60 + "!"})
    if MODE == "deaf":
        time.sleep(3600)
    if MODE == "environment":
        return text(json.dumps({"env": dict(os.environ), "cwd": os.getcwd(), "args": ARGUMENTS}))
    if MODE == "learns":
        LEARNT.append(tool("learnt"))
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    if MODE == "asks":
        send({"jsonrpc": "2.0", "id": 77, "method": ARGUMENTS[0], "params": {"messages": []}})
        reply = json.loads(sys.stdin.readline())
        return text(reply["error"]["message"], isError=True)
    if MODE == "elicits":
        replies = []
        for number, params in enumerate(json.loads(ARGUMENTS[0]), 100):
            send({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": params})
            replies.append(json.loads(sys.stdin.readline()))
        return text(json.dumps(replies))
    if MODE == "error":
        return text("no such thing", isError=True)
    return text("ran")


def answer(request):
    method = request["method"]
    if method == "initialize":
        if MODE == "slow":
            time.sleep(float(ARGUMENTS[0]))
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "raw", "version": "1"},
            "instructions": open(ARGUMENTS[0]).read() if MODE == "instructs" else None,
        }
    if method == "tools/list":
        return tools()
    if method == "tools/call":
        return call(request)
    return None


def main():
    if MODE == "exits":
        print(f"the key is {os.environ['KEY']}", file=sys.stderr)
        sys.exit(3)
    if MODE == "banner":
        print("Welcome to raw server!\n\n{}\n[]\nnull\n\xff", flush=True)
    if MODE == "endless-line":
        while True:
            sys.stdout.write("x" * 65536)
    if MODE == "prints":
        while True:
            sys.stderr.write("y" * 60 + "\n")
    for line in sys.stdin:
        request = json.loads(line)
        if MODE == "records":
            with open(ARGUMENTS[0], "a") as file:
                file.write(line)
        if MODE == "silent" or "id" not in request:
            continue
        if request["method"] == "server/discover":
            error = {"code": -32601, "message": "Method not found"}
            send({"jsonrpc": "2.0", "id": request["id"], "error": error})
            continue
        if MODE == "scripted" and request["method"] in SCRIPT:
            reply = json.dumps(request["id"]).join(SCRIPT[request["method"]].split("$ID"))
            sys.stdout.buffer.write(reply.encode() + b"\n")
            sys.stdout.buffer.flush()
            continue
        result = answer(request)
        if result is not None:
            send(
                {
                    "jsonrpc": "2.0",
                    "id": 10**9 if MODE == "ids" else request["id"],
                    "result": result,
                }
            )
        if MODE == "flood" and request["method"] == "tools/list":
            FLOODING.set()


def flood_when_told():
    FLOODING.wait()
    flood()


threading.Thread(target=flood_when_told, daemon=True).start()
main()
