"""Test mode's model: a scripted server in this process, and settings that point at it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mochi_project.configuration.config import MochiSettings, ProviderConfig

_PATHS = {"anthropic": "", "google": "", "openai": "/v1", "openrouter": "/api/v1"}


@asynccontextmanager
async def scripted_model(settings: MochiSettings) -> AsyncGenerator[MochiSettings, None]:
    """Give the settings to build services from.

    In test mode a scripted model server runs meanwhile and takes the place of Ollama and of every
    other provider, which then need no keys; otherwise they are the settings that came in.
    """
    if not settings.test_mode:
        yield settings
        return
    from models_app.scripted.server import ScriptedModelServer  # noqa: PLC0415 - aiohttp

    server = ScriptedModelServer(words_per_second=settings.test_words_per_second)
    await server.start()
    try:
        names = [*_PATHS, *(name for name in settings.providers if name not in _PATHS)]
        providers = {
            name: ProviderConfig(base_url=server.url + _PATHS.get(name, "/v1")) for name in names
        }
        yield settings.model_copy(update={"ollama_host": server.url, "providers": providers})
    finally:
        await server.stop()
