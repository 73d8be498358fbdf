"""A directory of prompts, and the routes over it behind the project's error envelope."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, override_settings
from django.urls import path
from ninja import NinjaAPI

from mochi_project.errors import STATUS_OF_CODE, envelope
from prompts_app import api as routes
from prompts_app.service import SystemPromptService
from sessions_app.errors import MochiError


@pytest.fixture
def prompts(tmp_path: Path) -> SystemPromptService:
    return SystemPromptService(tmp_path / "system_prompts")


@pytest.fixture
def client(prompts: SystemPromptService, monkeypatch: pytest.MonkeyPatch) -> Iterator[AsyncClient]:
    api = NinjaAPI(urls_namespace="prompts-under-test", docs_url=None)
    api.add_router("", routes.router)

    @api.exception_handler(MochiError)
    def refuse(request: HttpRequest, error: MochiError) -> HttpResponse:
        body = envelope(error.code, error.message, retryable=error.retryable, details=error.details)
        return api.create_response(request, body, status=STATUS_OF_CODE[error.code])

    monkeypatch.setattr(routes, "get_services", lambda: SimpleNamespace(prompts=prompts))
    with override_settings(ROOT_URLCONF=(path("api/v1/", api.urls),)):
        yield AsyncClient()
