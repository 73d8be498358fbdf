"""Questions that find people: a real worker tells a real receiver, whose link answers them."""

import asyncio
import base64
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from standardwebhooks import Webhook

from tests.functional.browser import needs_browser, opened_tab
from tests.functional.confirmations.asking import call
from tests.redis_server import running_redis

pytestmark = pytest.mark.slow  # for the workers

SECRET = f"whsec_{base64.b64encode(b'k' * 32).decode()}"
PUBLIC = "http://mochi.example.org"
PREVIEWS = (
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    "TelegramBot (like TwitterBot)",
)
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Receiver(ThreadingHTTPServer):
    """Notes what it gets; answers with the next of ``statuses``, 0 for never."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.daemon_threads = True
        self.got = []
        self.statuses = []
        self.over = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/hook"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((body, dict(self.headers)))
        status = self.server.statuses.pop(0) if self.server.statuses else 204
        if not status:
            self.server.over.wait()
            return
        self.send_response(status)
        if status // 100 == 3:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.over.set()
    receiver.shutdown()
    receiver.server_close()


@pytest.fixture
def variables(receiver):
    return {
        "MOCHI_BACKGROUND_WORKER": "true",
        "MOCHI_SUMMARIZATION_ENABLED": "false",
        "MOCHI_ACCESS_LOG": "true",
        "MOCHI_PUBLIC_URL": PUBLIC,
        "MOCHI_WEBHOOK_URL": receiver.url,
        "MOCHI_WEBHOOK_SECRET": SECRET,
        "MOCHI_WEBHOOK_EVENTS": "approval.asked,turn.done,turn.failed",
    }


@pytest.fixture
def begin_with_worker(begin, eventually):
    """Return how to start servers whose worker runs: before, ends of turns are told to nobody."""

    def start(*flags, **options):
        person = begin(*flags, **options)
        eventually(lambda: person.http.get("/health").json()["worker_alive"])
        return person

    return start


@pytest.fixture
def told(receiver, eventually):
    """Return how to wait for so many messages; what they say is returned.

    One that came twice counts once: a worker that starts tells of all open questions.
    """

    def messages():
        return {headers["webhook-id"]: (body, headers) for body, headers in list(receiver.got)}

    def wait(count=1):
        eventually(lambda: len(messages()) >= count)
        return [Webhook(SECRET).verify(*each) for each in messages().values()]

    return wait


def link_in(message, server):
    assert message["data"]["link"].startswith(f"{PUBLIC}/a/")
    return server.url.removesuffix("/") + message["data"]["link"].removeprefix(PUBLIC)


def test_a_question_finds_a_person_and_the_link_answers_it(begin, variables, told, script, marker):
    person = begin(**variables)
    session_id = person.new_session()
    message = script(call(marker), "All is noted.", per_request=True)
    with person.asked(session_id, message) as (question, events):
        [asked] = told()
        assert asked["type"] == "approval.asked"
        data = asked["data"]
        assert data["confirmation_id"] == question["confirmation_id"]
        assert json.loads(data["arguments"]) == {"text": marker}
        link = link_in(asked, person.server)
        with httpx.Client(follow_redirects=False) as phone:
            for agent in PREVIEWS:
                seen = phone.get(link, headers={"User-Agent": agent})
                assert (seen.status_code, marker in seen.text) == (200, True)
                assert phone.head(link).status_code == 200
                assert phone.get(f"{link}/").status_code == 404  # as chats spoil links
            assert person.pending(session_id)
            null = {**FORM, "Origin": "null"}
            answer = phone.post(link, content="decision=approve", headers=null)
            assert answer.status_code == 200, answer.text
            assert phone.post(link, content="decision=deny", headers=null).status_code == 409
        list(events)
    assert person.runs() == [marker]
    assert [each["type"] for each in told(2)] == ["approval.asked", "turn.done"]
    token = link.rpartition("/")[2]
    assert token not in person.server.log.read_text()
    assert "/a/..." in person.server.log.read_text()
    stored = "".join(
        path.read_text(errors="replace")
        for path in person.server.data_dir.rglob("*")
        if path.is_file()
    )
    assert token not in stored


@pytest.mark.cluster
def test_a_question_finds_a_person_through_redis(begin, variables, told, script, marker):
    with running_redis("--appendonly", "no") as url:
        shared = {"MOCHI_JOURNAL_URL": url, "MOCHI_SECRET_KEY": "0123456789abcdef" * 2}
        person = begin(**variables, **shared)
        session_id = person.new_session(approval_timeout_seconds=7 * 86_400)
        message = script(call(marker), "All is noted.", per_request=True)
        with person.asked(session_id, message) as (question, events):
            asked = told()[0]
            assert asked["data"]["confirmation_id"] == question["confirmation_id"]
            link = link_in(asked, person.server)
            answer = httpx.post(link, content="decision=approve", headers=FORM)
            assert answer.status_code == 200, answer.text
            list(events)
        assert person.runs() == [marker]
        person.server.kill()  # before its Redis


def test_of_two_answers_at_once_one_counts(begin, variables, told, script, marker):
    person = begin("--workers", "2", **variables)
    session_id = person.new_session()
    message = script(call(marker), "All is noted.", per_request=True)
    with person.asked(session_id, message) as (_, events):
        link = link_in(told()[0], person.server)
        with ThreadPoolExecutor(8) as pool:
            choices = ["approve", "deny"] * 4
            answers = list(
                pool.map(
                    lambda choice: (
                        httpx.post(link, content=f"decision={choice}", headers=FORM).status_code
                    ),
                    choices,
                )
            )
        list(events)
    assert sorted(answers) == [200, *[409] * 7]
    assert person.runs() == ([marker] if choices[answers.index(200)] == "approve" else [])


@needs_browser
@pytest.mark.interop
async def test_a_browser_answers_after_everything_was_killed(
    begin, variables, told, receiver, eventually, tmp_path, script, marker
):
    person = await asyncio.to_thread(lambda: begin(**variables))
    session_id = await asyncio.to_thread(person.new_session)
    message = script(call(marker), "All is noted.", per_request=True)
    answer = await asyncio.to_thread(person.send, session_id, message)
    assert answer.status_code == 202
    [asked] = await asyncio.to_thread(told)
    await asyncio.to_thread(person.server.kill)
    before = len(receiver.got)
    person = await asyncio.to_thread(lambda: begin(**variables))
    await asyncio.to_thread(eventually, lambda: len(receiver.got) > before)
    assert await asyncio.to_thread(told) == [asked]
    async with opened_tab(tmp_path) as tab:
        await tab.call("Page.navigate", url=link_in(asked, person.server))
        text = "document.body?.innerText ?? ''"
        while marker not in await tab.evaluate(text):
            await asyncio.sleep(0.05)
        await tab.evaluate("document.querySelector('button[value=approve]').click()")
        while "Approved" not in await tab.evaluate(text):
            await asyncio.sleep(0.05)
        assert tab.seen("Log.entryAdded") == []
    assert await asyncio.to_thread(person.pending, session_id) == []


def test_a_receiver_that_never_answers_blocks_nobody(
    begin_with_worker, variables, told, receiver, script, eventually, marker
):
    receiver.statuses = [0] * 40
    variables |= {
        "MOCHI_SUMMARIZATION_ENABLED": "true",
        "MOCHI_SUMMARIZATION_INTERVAL_SECONDS": "0",
    }
    person = begin_with_worker(**variables)
    sessions = [person.new_session() for _ in range(36)]
    for session_id in sessions[1:]:
        person.say(session_id, "Hi")
    first = person.new_session()
    person.say(first, "Hi")
    eventually(lambda: person.http.get(f"/sessions/{first}/summary").status_code == 200, seconds=90)
    assert not receiver.over.is_set()
    person.server.stop()


def test_a_refused_message_comes_again_and_no_redirect_is_followed(
    begin_with_worker, variables, receiver, eventually
):
    receiver.statuses = [302]
    person = begin_with_worker(**variables)
    person.say(person.new_session(), "Hi")
    eventually(lambda: len(receiver.got) >= 2, seconds=110)
    first, second = (headers["webhook-id"] for _, headers in receiver.got)
    assert first == second


def test_half_of_the_variables_stops_the_start(start, receiver):
    with pytest.raises(pytest.fail.Exception, match="MOCHI_WEBHOOK_SECRET must be set"):
        start(MOCHI_WEBHOOK_URL=receiver.url)
