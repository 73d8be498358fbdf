"""Serves the ``/system-prompts`` routes: parse, call, encode."""

import asyncio

from django.http import HttpRequest
from ninja import Status

from mochi_project.app import service
from mochi_project.routing import Router
from prompts_app.prompts import Prompt, PromptSummary
from prompts_app.schemas import (
    PromptCreateIn,
    PromptListOut,
    PromptOut,
    PromptUpdateIn,
)
from prompts_app.service import SystemPromptService
from sessions_app.http.error_schemas import ENVELOPE

router = Router(scope="read", changes="admin", tags=["system prompts"])


@router.get(
    "/system-prompts",
    response={200: PromptListOut},
    summary="List system prompts",
    description="All readable prompt files by name. A file that can't be read is left out.",
    operation_id="list_system_prompts",
)
async def list_prompts(request: HttpRequest) -> dict[str, list[PromptSummary]]:
    """List the prompt files."""
    return {"prompts": await asyncio.to_thread(service(SystemPromptService).list)}


@router.get(
    "/system-prompts/{filename}",
    response={200: PromptOut, (404, 422): ENVELOPE},
    summary="Get a system prompt",
    operation_id="get_system_prompt",
)
async def get_prompt(request: HttpRequest, filename: str) -> Prompt:
    """Return one prompt with its text."""
    return await asyncio.to_thread(service(SystemPromptService).get, filename)


@router.post(
    "/system-prompts",
    response={201: PromptOut, (409, 422, 507): ENVELOPE},
    summary="Create a system prompt",
    description="Makes a new file; 409 `PROMPT_EXISTS` when the name is taken.",
    operation_id="create_system_prompt",
)
async def create_prompt(request: HttpRequest, body: PromptCreateIn) -> Status[Prompt]:
    """Make a new prompt file."""
    prompts = service(SystemPromptService)
    return Status(201, await asyncio.to_thread(prompts.create, body.filename, body.content))


@router.put(
    "/system-prompts/{filename}",
    response={200: PromptOut, (404, 422, 507): ENVELOPE},
    summary="Update a system prompt",
    description="Replaces the whole text. Sessions that were given the old text keep it.",
    operation_id="update_system_prompt",
)
async def update_prompt(request: HttpRequest, filename: str, body: PromptUpdateIn) -> Prompt:
    """Replace a prompt's text."""
    return await asyncio.to_thread(service(SystemPromptService).update, filename, body.content)


@router.delete(
    "/system-prompts/{filename}",
    response={204: None, (404, 422): ENVELOPE},
    summary="Delete a system prompt",
    description="Removes the file. Sessions that were given its text keep it.",
    operation_id="delete_system_prompt",
)
async def delete_prompt(request: HttpRequest, filename: str) -> Status[None]:
    """Remove a prompt file."""
    await asyncio.to_thread(service(SystemPromptService).delete, filename)
    return Status(204, None)
