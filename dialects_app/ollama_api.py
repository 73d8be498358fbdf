"""Assembles the API below ``/ollama`` (docs/decisions/0174). Imported late."""

from dialects_app.apps import OLLAMA
from mochi_project.app import routers_of
from mochi_project.errors.handlers import ForgetfulAPI, install_error_handlers

ollama_api = ForgetfulAPI(docs_url=None, openapi_url=None, urls_namespace=OLLAMA.namespace)
install_error_handlers(ollama_api)
for _router in routers_of(OLLAMA.routers):
    ollama_api.add_router("", _router)

urlpatterns = ollama_api.urls[0]
