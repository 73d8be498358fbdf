"""Edits and regenerated answers of ``useChat`` take nothing away before there is an answer."""

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.functional.conftest import MODEL, Chat, block

FIRST, EDITED = block("First."), block("Edited.")


class Page:
    """A page with a chat of three questions and answers."""

    def __init__(self, chat: Chat, chat_id: str) -> None:
        self.http = chat.http
        self.chat_id = chat_id
        for number, text in enumerate((FIRST, block("Second."), block("Third."))):
            assert self.send(*self.messages, said(number, text)).status_code == 200
        self.session_id = self.messages[-1]["metadata"]["session_id"]

    @property
    def messages(self) -> list[Any]:
        found: list[Any] = self.http.get(f"/ui/chat/{self.chat_id}/messages").json()["messages"]
        return found

    @property
    def session(self) -> dict[str, Any]:
        path = f"/sessions/{self.session_id}/messages"
        query = {"variants": "true"}
        session: dict[str, Any] = self.http.get(path, params=query).json()
        return session

    def send(self, *messages: Any, key: str | None = None, **more: Any) -> httpx.Response:
        body = {"id": self.chat_id, "model": MODEL, "messages": messages, **more}
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.http.post("/ui/chat", json=body, headers=headers)

    def edit(self, text: str, **more: Any) -> httpx.Response:
        return self.send(said(0, text), messageId="said-0", trigger="submit-message", **more)


def said(number: int, text: str) -> dict[str, Any]:
    return {"id": f"said-{number}", "role": "user", "parts": [{"type": "text", "text": text}]}


def texts_of(session: dict[str, Any]) -> list[str]:
    return [message["content"] for message in session["messages"]]


@pytest.fixture
def page(chat: Chat) -> Page:
    return Page(chat, uuid4().hex)


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (block(status=400), {}),
        (block(error_line=0), {}),
        (EDITED, {"model": "nobody-has-this"}),
        (FIRST, {"model": "nobody-has-this", "trigger": "regenerate-message"}),
    ],
    ids=["refused", "failed", "unknown", "regenerated"],
)
def test_without_an_answer_everything_stays(page: Page, text: str, more: dict[str, Any]) -> None:
    before = page.session
    answer = page.send(said(0, text), **{"messageId": "said-0", "trigger": "submit-message"} | more)
    assert answer.status_code >= 400
    assert page.session["messages"] == before["messages"]
    assert page.edit(EDITED).status_code == 200
    assert texts_of(page.session) == [EDITED, "Edited."]


def test_an_earlier_answer_that_is_made_again_stays_as_a_variant(page: Page) -> None:
    question, answer, *_ = page.messages
    again = page.send(question, messageId=answer["id"], trigger="regenerate-message")
    assert again.status_code == 200
    [_, new] = page.session["messages"]
    assert [variant[0]["content"] for variant in new["variants"]] == ["First."]


def test_an_edit_that_is_sent_again_later_takes_nothing_away(page: Page) -> None:
    first = page.edit(EDITED, key="edit-1")
    assert page.send(*page.messages, said(7, block("More."))).status_code == 200
    again = page.edit(EDITED, key="edit-1")
    assert again.text == first.text
    assert texts_of(page.session) == [EDITED, "Edited.", block("More."), "More."]
