"""The yardstick R: the plain design that a good engineer writes first, and nothing saved.

FastAPI, sse-starlette and ``ollama.AsyncClient`` (one for the process, its pool made large enough).
"""

import argparse
import json
import os
from collections.abc import AsyncIterator

import httpx
import ollama
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sse_starlette.sse import EventSourceResponse

app = FastAPI()
client = ollama.AsyncClient(
    host=os.environ.get("MOCHI_OLLAMA_HOST"),
    limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
)


class ChatIn(BaseModel):
    """One message to one model."""

    model: str
    message: str


@app.get("/health")
async def health() -> dict[str, str]:
    """Say that the server works."""
    return {"status": "ok"}


@app.post("/chat/stream")
async def chat(body: ChatIn) -> EventSourceResponse:
    """Relay the model's answer as server-sent events."""

    async def events() -> AsyncIterator[dict[str, str]]:
        messages = [{"role": "user", "content": body.message}]
        async for chunk in await client.chat(model=body.model, messages=messages, stream=True):
            if chunk.message.content:
                delta = {"content": chunk.message.content, "role": "assistant"}
                yield {"event": "content_delta", "data": json.dumps(delta)}
            if chunk.done:
                counts = {
                    "eval_count": chunk.eval_count,
                    "prompt_eval_count": chunk.prompt_eval_count,
                }
                yield {"event": "message_complete", "data": json.dumps(counts)}
        yield {"event": "done", "data": "{}"}

    return EventSourceResponse(events())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--port", type=int, required=True)
    uvicorn.run(
        app,
        port=parser.parse_args().port,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
        backlog=4096,
    )
