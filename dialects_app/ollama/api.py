"""Serves Ollama's routes below ``/ollama``: parses, calls, encodes."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from chat.http.request_schemas import IdempotencyKey
from chat.service import OpenTurn
from chat.start.turn_request import TurnRequest
from dialects_app.chat_completions.request import ParsedCompletion
from dialects_app.chat_completions.view import Completions
from dialects_app.models_list import list_models
from dialects_app.ollama.body import AskIn, NameIn
from dialects_app.ollama.models import shown, tag_of
from dialects_app.ollama.projector import LineProjector, time_of
from dialects_app.ollama.request import completion_of, messages_of, options_of
from dialects_app.settings import OPEN_WEBUI, DialectsSettings
from dialects_app.shared.assembly import assembled
from dialects_app.shared.body import read_body
from dialects_app.shared.parsed_request import RequestContext
from dialects_app.shared.refused_turns import events_at_end
from dialects_app.shared.streams import JSON, json_response, stream_turn
from dialects_app.shared.warnings import warning_headers
from mochi_project.app import service
from mochi_project.errors.handlers import error_response
from mochi_project.http.clients import client_of
from mochi_project.routing import Router, needs
from models_app.catalogue import ModelCatalogue
from models_app.errors import ModelError, ModelNotFound
from models_app.names import is_permitted

router = Router(scope="read", changes="chat", tags=["Ollama"])

VERSION = "0.40.0"
"""The version of Ollama whose protocol this is; Open WebUI compares its numbers."""

ANY_TAG = ":latest"
"""Ends a name that has no tag of its own; Open WebUI adds it."""

LINES = {"Content-Type": "application/x-ndjson"}
_COMMANDS = {"pull": "pull", "push": "push", "create": "create", "copy": "cp", "delete": "rm"}


@router.api_operation(["GET", "HEAD"], "")
async def is_running(request: HttpRequest) -> HttpResponse:
    """Say so, as Ollama does."""
    return HttpResponse("Ollama is running", content_type="text/plain; charset=utf-8")


@router.get("/api/version")
async def version(request: HttpRequest) -> HttpResponse:
    """Return the version of the protocol."""
    return json_response({"version": VERSION})


@router.get("/api/tags")
async def tags(request: HttpRequest) -> HttpResponse:
    """List all models that can chat, the profiles and the agents."""
    listing = await list_models(service(ModelCatalogue))
    left_out = warning_headers([each.message for each in listing.unavailable])
    return json_response({"models": [tag_of(info) for info in listing.models]}, left_out)


@router.get("/api/ps")
async def running(request: HttpRequest) -> HttpResponse:
    """List the models that Ollama has loaded; none where it does not answer."""
    try:
        loaded = await service(ModelCatalogue).pass_to_ollama("/api/ps")
        models = msgspec.json.decode(loaded)["models"]
        return json_response({"models": [each for each in models if is_permitted(each["name"])]})
    except (ModelError, LookupError, msgspec.DecodeError):
        return json_response({"models": []})


@router.post("/api/show")
@needs(scope="read", untyped=True)
async def show(request: HttpRequest) -> HttpResponse:
    """Describe a model."""
    body, models = await read_body(request, NameIn), service(ModelCatalogue)
    name = await _untagged(body.model or body.name or "", models)
    return json_response(shown(await models.get(name)))


@needs(limit="max_history_bytes", untyped=True)
async def answer(request: HttpRequest, idempotency_key: IdempotencyKey = None) -> HttpResponseBase:
    """Answer a conversation, or a prompt."""
    body = await read_body(request, AskIn)
    generates = request.path_info.endswith("/generate")
    models = service(ModelCatalogue)
    name = await _untagged(body.model, models)
    if not messages_of(body):
        await models.look_up(name)
        return json_response(_loaded(body, generates=generates))
    info = await models.look_up(name, must_exist=False) if body.think else None
    thinks = info is None or info.can_think
    completion = await asyncio.to_thread(completion_of, body, name, thinks=thinks)
    keeps_chats = OPEN_WEBUI in service(DialectsSettings).saved_clients

    async def answer_with(parsed: ParsedCompletion, turn: OpenTurn) -> HttpResponseBase:
        projector = LineProjector(turn.turn_id, body.model, generates=generates)
        if parsed.streams:
            return await stream_turn(turn, projector, LINES)
        return json_response(projector.whole(await events_at_end(turn, name)))

    context = RequestContext(
        session_id=request.headers.get("X-Mochi-Session-Id") or None,
        own_tools=request.headers.get("X-Mochi-Tools"),
        chat_id=request.headers.get("X-OpenWebUI-Chat-Id") if keeps_chats else None,
        when_busy="refuse",
        key=idempotency_key,
        client=client_of(request),
        turn=TurnRequest(dialect="ollama", approvals="deny", options=options_of(body)),
    )
    return await assembled(Completions).answer(completion, context, answer_with)


@needs(limit="max_history_bytes", untyped=True)
async def embed(request: HttpRequest) -> HttpResponse:
    """Return the vectors of texts, from Ollama."""
    body, models = await read_body(request, dict[str, Any]), service(ModelCatalogue)
    name = str(body.get("model") or "")
    if not models.is_of_ollama(name):
        raise ModelNotFound(f"Model '{name}' not found at Ollama.", model=name)
    path = request.path_info[request.path_info.rindex("/api/") :]
    answer = await models.pass_to_ollama(path, {**body, "model": models.resolve(name)[1]})
    return HttpResponse(answer, content_type=JSON)


@needs(untyped=True)
async def refuse_management(request: HttpRequest) -> HttpResponse:
    """Refuse to change what is installed, and name the command that does."""
    body, path = await read_body(request, NameIn), request.path_info
    command = f"ollama {_COMMANDS[path.rpartition('/')[2]]} {body.model or body.name or ''}"
    message = f"This server does not manage models. Run: {command}".rstrip()
    return error_response("FORBIDDEN", message, path=path)


@router.api_operation(["HEAD", "POST"], "/api/blobs/{digest}")
@needs(body="stream")
async def refuse_blob(request: HttpRequest, digest: str) -> HttpResponse:
    """Refuse a file of a model."""
    return error_response("FORBIDDEN", "This server keeps no models.", path=request.path_info)


for _name in ("chat", "generate"):
    router.add_api_operation(f"/api/{_name}", ["POST"], answer)
for _name in ("embed", "embeddings"):
    router.add_api_operation(f"/api/{_name}", ["POST"], embed)
for _name in _COMMANDS:
    router.add_api_operation(f"/api/{_name}", ["POST", "DELETE"], refuse_management)


def _loaded(body: AskIn, *, generates: bool) -> Mapping[str, Any]:
    """Return the answer to a request without messages, for which no model is called."""
    return {
        "model": body.model,
        "created_at": time_of(time.time()),
        **({"response": ""} if generates else {"message": {"role": "assistant", "content": ""}}),
        "done": True,
        "done_reason": "unload" if str(body.keep_alive).rstrip("smh") in {"0", "0.0"} else "load",
    }


async def _untagged(name: str, models: ModelCatalogue) -> str:
    """Return a model's name without the tag that a client added to it."""
    bare = name.removesuffix(ANY_TAG)
    if bare == name or ":" in bare:
        return bare
    # Of Ollama's own models it is a part of the name, and of an alias it is not.
    return bare if await models.look_up(name, must_exist=False) is None else name
