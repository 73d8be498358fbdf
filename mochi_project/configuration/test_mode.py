"""Sets up test mode: a scripted model in this process, and a temporary data directory."""

import atexit
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from mochi_project.configuration.config import ServerSettings
from models_app.settings import ModelsSettings, ProviderConfig

DATA_DIR_VARIABLE = "MOCHI_DATA_DIR"
_PATHS = {"anthropic": "", "google": "", "openai": "/v1", "openrouter": "/api/v1"}

_made_here: dict[Path, int] = {}


@asynccontextmanager
async def scripted_model(settings: ServerSettings) -> AsyncGenerator[ServerSettings, None]:
    """Yield the settings to build services from.

    In test mode a scripted model server runs meanwhile, unless the settings name one that runs
    already. It takes the place of Ollama and of every other provider, which then need no keys;
    otherwise the settings are yielded unchanged.
    """
    if not settings.test_mode:
        yield settings
        return
    if settings.test_model_url is not None:
        yield _with_models_of(settings, settings.test_model_url)
        return
    from scripted_app.server import ScriptedModelServer  # noqa: PLC0415 - aiohttp
    from scripted_app.settings import ScriptedSettings  # noqa: PLC0415 - of the same wing

    pace = settings.of(ScriptedSettings).test_words_per_second
    server = ScriptedModelServer(words_per_second=pace)
    await server.start()
    try:
        yield _with_models_of(settings, server.url)
    finally:
        await server.stop()


def _with_models_of(settings: ServerSettings, url: str) -> ServerSettings:
    configured = settings.of(ModelsSettings).providers
    providers = {
        name: ProviderConfig(
            base_url=url + _PATHS.get(name, "/v1"),
            api=configured[name].api if name in configured else "auto",
        )
        for name in {**_PATHS, **configured}
    }
    return settings.model_copy(update={"ollama_host": url, "providers": providers})


def with_fresh_data_dir(settings: ServerSettings) -> ServerSettings:
    """Return the settings with a new temporary data directory, if test mode was given none.

    The directory is named in the environment too, so that every process started from this one
    (web workers, the background worker) shares it; only the process that made it removes it, when
    it exits or when :func:`remove_fresh_data_dir` is called.
    """
    if not settings.test_mode or "data_dir" in settings.model_fields_set:
        return settings
    path = Path(tempfile.mkdtemp(prefix="mochi-test-"))
    os.environ[DATA_DIR_VARIABLE] = str(path)
    _made_here[path] = os.getpid()
    atexit.register(remove_fresh_data_dir)
    return settings.model_copy(update={"data_dir": path})


def remove_fresh_data_dir() -> None:
    """Remove the directory that this process made, if it made one; again, if it is used again."""
    for path, process in _made_here.items():
        if process == os.getpid():
            shutil.rmtree(path, ignore_errors=True)
