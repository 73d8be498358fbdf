"""The first minute of a page whose server has no model yet."""

import json
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from tests.functional.browser import needs_browser
from tests.functional.chat_page.conftest import Page
from tests.functional.conftest import Server, StartServer

pytestmark = [pytest.mark.interop, needs_browser]


class Ollama(BaseHTTPRequestHandler):
    """Lists a model, once there is one."""

    models: Sequence[Mapping[str, object]] = ()

    def do_GET(self) -> None:
        self.answer({"models": [*self.models]})

    def do_POST(self) -> None:  # the card of a model
        self.answer({"details": {}, "model_info": {}, "capabilities": ["completion"]})

    def answer(self, value: Mapping[str, object]) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class OllamaServer(HTTPServer):
    """Refuses connections until it is started."""

    thread: Thread | None = None

    def start(self) -> None:
        self.server_activate()
        self.thread = Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    def server_close(self) -> None:
        if self.thread is not None:
            self.shutdown()
            self.thread.join()
        super().server_close()


@pytest.fixture(scope="module")
def ollama() -> Iterator[OllamaServer]:
    """Return an Ollama that is not started."""
    with OllamaServer(("127.0.0.1", 0), Ollama, bind_and_activate=False) as ollama:
        ollama.server_bind()
        yield ollama


@pytest.fixture(scope="module")
def server(start_once: StartServer, ollama: OllamaServer) -> Server:
    """Return a server whose only provider is that Ollama."""
    return start_once(MOCHI_OLLAMA_HOST=f"http://127.0.0.1:{ollama.server_port}")


async def test_the_reason_is_shown_until_there_is_a_model(page: Page, ollama: OllamaServer) -> None:
    shown = "return [$('no-model').innerText, $('send').disabled]"
    (reason, disabled) = await page.do(f"await until(() => !$('no-model').hidden); {shown}")
    assert ("Ollama" in reason, "ollama serve" in reason, disabled) == (True, True, True)
    await page.do("$('message').value = 'Hello'; $('composer').requestSubmit()")
    await page.do("$('new').click()")
    assert await page.do(shown) == [reason, True]

    ollama.start()
    await page.do(
        "await until(() => { window.dispatchEvent(new Event('focus'));"
        " return $('no-model').innerText.includes('ollama pull'); })"
    )
    assert await page.do("return $('send').disabled")

    Ollama.models = [
        {"name": "qwen3:4b", "model": "qwen3:4b", "size": 1, "digest": "0", "details": {}}
    ]
    await page.do(
        "await until(() => { window.dispatchEvent(new Event('focus'));"
        " return $('no-model').hidden; })"
    )
    assert await page.do("return [$('send').disabled, $('model').value]") == [False, "qwen3:4b"]
    assert page.crashes == []
