"""A directory of prompts, and the routes over it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import AsyncClient

from mochi_project import urls  # noqa: F401 - so that no request imports it on the loop
from prompts_app.service import SystemPromptService
from tests.services import install_services, services_of


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "system_prompts"


@pytest.fixture
def prompts(directory: Path) -> SystemPromptService:
    return SystemPromptService(directory)


@pytest.fixture
def client(prompts: SystemPromptService) -> Iterator[AsyncClient]:
    services = services_of({SystemPromptService: prompts})
    install_services(services)
    yield AsyncClient()
    install_services(None)
