"""A worker that is stopped ends the summary that it writes, and begins no other of its task."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.conf import settings

from tests.functional.conftest import lives
from tests.functional.worker.test_worker import queued, until
from tests.unit.chat.summaries.house import House

pytestmark = pytest.mark.slow

SUMMARY = {"summary": "They said hello.", "topics": ["hello"]}
ANSWER = {
    "model": "m",
    "done": True,
    "done_reason": "stop",
    "message": {"role": "assistant", "content": json.dumps(SUMMARY)},
}


@pytest.fixture
def house() -> Iterator[House]:
    """Sessions where the worker finds them, until the test has ended."""
    made = House(settings.MOCHI.resolved_data_dir)
    yield made
    for entry in made.repository.list().sessions:
        made.repository.delete(entry.session_id)


class SlowModel:
    """An Ollama that answers once it is told to."""

    def __init__(self):
        self.asked = 0
        self.may_answer = threading.Event()

    @contextmanager
    def serving(self) -> Iterator[str]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                model.asked += 1
                model.may_answer.wait(60)
                body = json.dumps(ANSWER).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            yield f"http://127.0.0.1:{server.server_port}"
            self.may_answer.set()
            server.shutdown()
            thread.join()


def test_a_stop_lets_one_summary_end_and_begins_no_other(keep, queue, house):
    model = SlowModel()
    first, second = house.talk(), house.talk()
    with model.serving() as url:
        keeper = keep(
            MOCHI_OLLAMA_HOST=url,
            MOCHI_SUMMARIZATION_INTERVAL_SECONDS="0",
            MOCHI_SHUTDOWN_GRACE_SECONDS="60",
        )
        keeper.wait_until_running()
        *_, fetcher = keeper.family
        queued("chat.tasks.summarize", first)
        queued("chat.tasks.summarize", second)
        until(lambda: model.asked)

        stopping = threading.Thread(target=keeper.stop)
        stopping.start()
        until(lambda: not lives(fetcher))  # the stop has come to all processes
        model.may_answer.set()
        stopping.join()

    assert house.metadata(first).summary == SUMMARY
    assert model.asked == 1
    assert house.metadata(second).summary_due
