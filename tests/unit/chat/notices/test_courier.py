"""Sending: what is over is not sent, what is not taken is tried again, and nothing takes long."""

import asyncio
import json
import logging
import time

import msgspec
import pytest

from chat.approvals.confirmation import Decision
from chat.approvals.links import ApprovalLink, read_link
from chat.approvals.store import ConfirmationStore
from chat.notices import courier as module
from chat.notices.courier import Courier, NotTaken, send
from chat.notices.formats import Delivery
from chat.notices.notice import Notice
from chat.notices.notifier import TASK
from chat.settings import ChatSettings
from sessions_app.labels import with_labels
from sessions_app.messages import AssistantMessage
from sessions_app.session import with_messages
from tests.unit.chat.approvals.questions import CALL, MESSAGE, SESSION, records_in

PUBLIC = "https://mochi.example.org/mochi"


class Queue:
    def __init__(self):
        self.added = []

    def add(self, function, *arguments, delay_seconds):
        assert function == TASK
        self.added.append((*arguments, delay_seconds))
        return True

    def hold(self, function, argument):
        return True

    def release(self, function, argument):
        pass


class Receiver:
    """An HTTP server that answers as it is told, byte by byte."""

    def __init__(self):
        self.answer = b"HTTP/1.1 204 No Content\r\n\r\n"
        self.more = b""
        self.requests = []
        self.sent = 0
        self.writers = []

    async def start(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    async def stop(self):
        self.server.close()
        for writer in self.writers:
            writer.close()

    async def _serve(self, reader, writer):
        self.writers.append(writer)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        self.requests.append((head, await reader.readexactly(length)))
        writer.write(self.answer)
        try:
            while self.more:
                writer.write(self.more)
                self.sent += len(self.more)
                await writer.drain()
        except ConnectionError:
            pass


@pytest.fixture
async def receiver():
    receiver = Receiver()
    await receiver.start()
    yield receiver
    await receiver.stop()


@pytest.fixture
def store(tmp_path):
    return ConfirmationStore(records_in(tmp_path / "asked"), timeout_seconds=300)


@pytest.fixture
def session(repository, make_session):
    asking = AssistantMessage(
        content="", message_id=MESSAGE, timestamp="", model="m", tool_calls=(CALL,)
    )
    session = with_messages(make_session("Hi", session_id=SESSION), [asking], now="")
    session = with_labels(session, title="Tidy up")
    repository.create(session)
    return session


@pytest.fixture
def question(store, session):
    question = store.ask(
        session_id=SESSION, message_id=MESSAGE, call=CALL, call_index=0, turn_id="t1"
    )
    ApprovalLink.to(question, "anna").token()  # makes the secret key
    return question


@pytest.fixture
def asked(question):
    return Notice(
        event="approval.asked",
        owner="anna",
        session_id=SESSION,
        subject=question.confirmation_id,
        since=int(time.time()),
    )


@pytest.fixture
def queue():
    return Queue()


@pytest.fixture
def settings(receiver):
    return ChatSettings(webhook_url=f"{receiver.url}/topic", webhook_format="ntfy")


@pytest.fixture
def courier(settings, repository, store, queue):
    return Courier(settings, repository, store, queue, PUBLIC)


def body_of(receiver):
    [(_, body)] = receiver.requests
    return json.loads(body)


async def test_a_question_is_sent_with_its_link(courier, receiver, question, asked, queue):
    assert await courier.deliver(asked) == "done"
    body = body_of(receiver)
    assert body["title"] == "May delete_file run?"
    assert body["message"].startswith('delete_file {"path": "/tmp/x", "n": 1}\nTidy up')
    link = read_link(body["click"].removeprefix(f"{PUBLIC}/a/"))
    assert (link.owner, link.confirmation_id) == ("anna", question.confirmation_id)
    assert queue.added == []


async def test_an_answered_question_is_not_sent(courier, receiver, store, question, asked):
    denial = Decision(confirmation_id=question.confirmation_id, approved=False)
    await asyncio.to_thread(store.decide, SESSION, denial)
    assert await courier.deliver(asked) == "skipped: it is over"
    assert receiver.requests == []


async def test_a_deleted_session_is_not_told_of(courier, receiver, repository, asked):
    await asyncio.to_thread(repository.delete, SESSION)
    assert await courier.deliver(asked) == "skipped: it is over"
    assert receiver.requests == []


async def test_an_end_of_a_turn_is_sent_without_the_answer(
    receiver, repository, store, queue, session
):
    settings = ChatSettings(webhook_url=receiver.url, webhook_secret="whsec_" + "A" * 32)
    courier = Courier(settings, repository, store, queue, None)
    failed = Notice(
        event="turn.failed",
        owner="default",
        session_id=SESSION,
        subject="t1",
        since=1_900_000_000,
        code="MODEL_ERROR",
    )
    assert await courier.deliver(failed) == "done"
    body = body_of(receiver)
    assert body["type"] == "turn.failed"
    assert body["timestamp"] == "2030-03-17T17:46:40+00:00"
    assert body["data"] == {
        "owner": "default",
        "session_id": SESSION,
        "turn_id": "t1",
        "title": "Tidy up",
        "model": "qwen3:14b",
        "error_code": "MODEL_ERROR",
    }


async def test_long_arguments_are_cut(settings, repository, receiver, store, queue, session):
    call = msgspec.structs.replace(CALL, id="c9", arguments={"text": "ä" * 5000})
    question = await asyncio.to_thread(
        lambda: store.ask(
            session_id=SESSION, message_id=MESSAGE, call=call, call_index=0, turn_id="t1"
        )
    )
    courier = Courier(settings, repository, store, queue, None)
    notice = Notice(
        event="approval.asked",
        owner="default",
        session_id=SESSION,
        subject=question.confirmation_id,
        since=int(time.time()),
    )
    assert await courier.deliver(notice) == "done"
    message = body_of(receiver)["message"]
    assert len(message.encode()) < 2200
    assert "…" in message


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/latest\r\n\r\n",
        b"HTTP/1.1 307 Again\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 100_000 + b"\r\n\r\n",
    ],
)
async def test_what_is_not_taken_is_sent_again(courier, receiver, queue, asked, answer):
    receiver.answer = answer
    assert await courier.deliver(asked) == "put off"
    [(argument, delay)] = queue.added
    assert Notice.read(argument) == asked
    assert 1 <= delay <= 30
    assert len(receiver.requests) == 1


async def test_after_an_hour_it_is_given_up(courier, receiver, queue, asked, caplog):
    receiver.answer = b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"
    old = msgspec.structs.replace(asked, since=int(time.time()) - 3601)
    assert await courier.deliver(old) == "given up"
    assert queue.added == []
    assert "a notification was given up" in caplog.text


async def test_a_receiver_that_never_answers_is_left(courier, receiver, queue, asked, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.2)
    receiver.answer = b""
    assert await courier.deliver(asked) == "put off"
    assert len(queue.added) == 1


async def test_a_head_that_drips_is_left(receiver, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.3)
    receiver.answer, receiver.more = b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"
    with pytest.raises(NotTaken):
        await send(Delivery(receiver.url, b"{}"))


async def test_of_a_huge_answer_little_is_read(receiver):
    receiver.answer = b"HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n"
    receiver.more = b"x" * 65536
    await send(Delivery(receiver.url, b"{}"))
    assert receiver.sent < 64 << 20


async def test_nobody_there_is_no_error(courier, receiver, queue, asked):
    await receiver.stop()
    assert await courier.deliver(asked) == "put off"


async def test_neither_address_nor_link_are_logged(courier, receiver, asked, caplog):
    caplog.set_level(logging.DEBUG)
    receiver.answer = b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"
    await courier.deliver(asked)
    assert "status 500" in str([vars(record) for record in caplog.records])
    text = str([vars(record) for record in caplog.records if "asyncio" not in record.name])
    assert receiver.url not in text
    assert "/a/" not in text


async def test_what_another_worker_sends_is_left_to_it(courier, queue, asked, receiver):
    queue.hold = lambda *_: False
    assert await courier.deliver(asked) == "skipped: another worker sends it"
    assert receiver.requests == []
