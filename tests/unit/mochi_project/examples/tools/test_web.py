"""The example tools that ask Ollama's service for pages of the web."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from mochi_project.examples.tools import web

PAGE = {"title": "Ollama", "url": "https://ollama.com", "content": "Run models."}


@pytest.fixture
def service(monkeypatch):
    """Return what a service in the place of Ollama's was asked, which knows one key."""
    asked = []

    class Service(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            is_known = self.headers["Authorization"] == "Bearer key"
            asked.append((self.path, body))
            self.send_response(200 if is_known else 401)
            self.end_headers()
            found = {"results": [PAGE, PAGE]} if self.path.endswith("search") else PAGE
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setattr(web, "ADDRESS", f"http://127.0.0.1:{server.server_port}/api")
    monkeypatch.setenv("OLLAMA_API_KEY", "key")
    yield asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_pages_are_found_and_read(service):
    page = "Ollama\nhttps://ollama.com\nRun models."
    assert web.web_search("models", max_results=2) == f"{page}\n\n{page}"
    assert web.web_fetch("https://ollama.com") == "Ollama\n\nRun models."
    assert service == [
        ("/api/web_search", {"query": "models", "max_results": 2}),
        ("/api/web_fetch", {"url": "https://ollama.com"}),
    ]


def test_without_a_key_nobody_is_asked(service, monkeypatch):
    monkeypatch.delenv("OLLAMA_API_KEY")
    with pytest.raises(RuntimeError, match="MOCHI_TOOL_ENVIRONMENT=OLLAMA_API_KEY"):
        web.web_search("models")
    assert service == []


def test_a_wrong_key_is_refused(service, monkeypatch):
    monkeypatch.setenv("OLLAMA_API_KEY", "another")
    with pytest.raises(RuntimeError, match="HTTP 401"):
        web.web_fetch("https://ollama.com")
