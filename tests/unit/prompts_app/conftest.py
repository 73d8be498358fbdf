"""A directory of prompts, and the routes over it."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import AsyncClient

from mochi_project import urls  # noqa: F401 - so that no request imports it on the loop
from mochi_project.wiring.services import install_services
from prompts_app.service import SystemPromptService


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "system_prompts"


@pytest.fixture
def prompts(directory: Path) -> SystemPromptService:
    return SystemPromptService(directory)


@pytest.fixture
def client(prompts: SystemPromptService) -> Iterator[AsyncClient]:
    services: Any = SimpleNamespace(prompts=prompts)
    install_services(services)
    yield AsyncClient()
    install_services(None)
