"""Test mode's model: a scripted server in this process, and settings that point at it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mochi_project.config import MochiSettings


@asynccontextmanager
async def scripted_model(settings: MochiSettings) -> AsyncGenerator[MochiSettings, None]:
    """Give the settings to build services from.

    In test mode a scripted model server runs meanwhile and takes Ollama's place; otherwise they are
    the settings that came in.
    """
    if not settings.test_mode:
        yield settings
        return
    from models_app.scripted.server import ScriptedModelServer  # noqa: PLC0415 - aiohttp

    server = ScriptedModelServer(words_per_second=settings.test_words_per_second)
    await server.start()
    try:
        yield settings.model_copy(update={"ollama_host": server.url})
    finally:
        await server.stop()
