"""Pages of links: a GET shows a question, a POST of the form answers it, once."""

import asyncio
import re

import pytest
from django.test import AsyncClient

from chat.approvals.links import ApprovalLink
from chat.approvals.service import ConfirmationService
from chat.approvals.store import ConfirmationStore
from mochi_project import urls  # noqa: F401 - so that no request imports it on the loop
from mochi_project.principal import principal
from sessions_app.errors import StorageFull
from sessions_app.messages import AssistantMessage, ToolCall
from sessions_app.session import with_messages
from tests.services import OneOwner, services_of
from tests.unit.chat.approvals.questions import CALL, MESSAGE, SESSION, TIMEOUT

NOTHING = "There is nothing to answer here."


class Signals:
    def send(self, turn_id, kind):
        raise AssertionError("no turn runs")


@pytest.fixture
def session(repository, make_session):
    asking = AssistantMessage(
        content="", message_id=MESSAGE, timestamp="", model="m", tool_calls=(CALL,)
    )
    session = with_messages(make_session("Hi", session_id=SESSION), [asking], now="")
    repository.create(session)
    return session


@pytest.fixture
def owners(store, repository, monkeypatch):
    acted = []

    class Service(ConfirmationService):
        async def pending(self, session_id):
            acted.append(principal().owner)
            return await super().pending(session_id)

    confirmations = Service(
        confirmation_store=store,
        repository=repository,
        signals=Signals(),
        notice=lambda turn_id: True,
        go_on=lambda session_id: None,
    )
    services = services_of({ConfirmationService: confirmations})
    monkeypatch.setattr("mochi_project.app._pool", OneOwner(services, "anna"))
    return acted


@pytest.fixture
def client(owners, session):
    return AsyncClient()


@pytest.fixture
def call():
    return CALL


@pytest.fixture
def about():
    return {}


@pytest.fixture
def question(ask, call, about):
    return ask(call=call, **about)


@pytest.fixture
def url(question):
    ApprovalLink.to(question, "anna").token()  # makes the secret key

    def of(**changes):
        return f"/a/{ApprovalLink.to(question, 'anna')._replace(**changes).token()}"

    return of


@pytest.fixture
def decision(store, question):
    return lambda: asyncio.to_thread(store.decision_of, question)


def post(client, url, decision="approve"):
    form = "application/x-www-form-urlencoded"
    return client.post(url, f"decision={decision}", content_type=form)


def shown(answer):
    assert answer["Cache-Control"] == "no-store"
    assert answer["Referrer-Policy"] == "no-referrer"
    assert answer["Content-Security-Policy"].startswith("default-src 'none'; style-src 'sha256-")
    text = answer.content.decode()
    assert "<script" not in text
    return answer.status_code, re.search("<h1>(.*?)</h1>", text)[1]


async def test_the_question_is_shown_and_not_answered_by_looking(client, url, decision, owners):
    answer = await client.get(url())
    assert shown(answer) == (200, "A tool needs your approval")
    assert "delete_file" in answer.content.decode()
    assert "&quot;path&quot;: &quot;/tmp/x&quot;" in answer.content.decode()
    assert (await client.head(url())).status_code == 200
    assert await decision() is None
    assert set(owners) == {"anna"}


@pytest.mark.parametrize(("chosen", "approved"), [("approve", True), ("deny", False)])
async def test_the_form_answers_it(client, url, decision, chosen, approved):
    status, said = shown(await post(client, url(), chosen))
    assert (status, said.startswith("Approved" if approved else "Denied")) == (200, True)
    assert (await decision()).approved is approved


async def test_it_is_answered_once(client, url, decision):
    assert (await post(client, url())).status_code == 200
    for other in ("approve", "deny"):
        assert shown(await post(client, url(), other))[0] == 409
    assert shown(await client.get(url()))[0] == 409
    assert (await decision()).approved


async def test_of_many_answers_at_once_one_counts(client, url, decision):
    link = url()
    answers = await asyncio.gather(*(post(client, link, d) for d in ["approve", "deny"] * 5))
    statuses = [answer.status_code for answer in answers]
    assert sorted(statuses) == [200, *[409] * 9]
    assert (await decision()).approved is (statuses.index(200) % 2 == 0)


@pytest.mark.parametrize("body", ["", "decision=maybe", "decision=approve&decision=deny", "x"])
async def test_other_forms_answer_nothing(client, url, decision, body):
    form = "application/x-www-form-urlencoded"
    answer = await client.post(url(), body, content_type=form)
    assert shown(answer)[0] == 422
    assert await decision() is None


async def test_forged_links_tell_nothing(client, url):
    assert shown(await client.get("/a/x.y")) == (404, NOTHING)
    assert shown(await post(client, f"{url()}0")) == (404, NOTHING)


async def test_a_link_lasts_as_long_as_its_question(client, url, clock, decision):
    clock.move(TIMEOUT - 1)
    assert shown(await client.get(url()))[0] == 200
    clock.move(1)
    assert shown(await client.get(url())) == (410, NOTHING)
    assert shown(await post(client, url())) == (410, NOTHING)
    assert await decision() is None


async def test_a_question_that_expired_as_its_turn_waited_was_answered_by_nobody(
    client, url, clock, store, question
):
    clock.move(TIMEOUT)
    await asyncio.to_thread(store.expire, question)
    assert shown(await client.get(url())) == (410, NOTHING)
    assert shown(await post(client, url())) == (410, NOTHING)


async def test_a_link_to_other_arguments_is_refused(client, url, decision):
    changed = url(arguments_hash="00" * 32)
    assert shown(await client.get(changed)) == (410, NOTHING)
    assert shown(await post(client, changed)) == (410, NOTHING)
    assert await decision() is None


async def test_a_withdrawn_question_is_gone(client, url, store, question, decision):
    await asyncio.to_thread(store.withdraw, [question])
    assert shown(await client.get(url())) == (410, NOTHING)
    assert shown(await post(client, url())) == (410, NOTHING)
    assert not (await decision()).approved


async def test_a_deleted_session_is_gone(client, url, repository):
    link = url()
    await asyncio.to_thread(repository.delete, SESSION)
    assert shown(await client.get(link)) == (410, NOTHING)
    assert shown(await post(client, link)) == (410, NOTHING)


@pytest.mark.parametrize(
    "call", [ToolCall(id="call_1", name="a<b>", arguments={"x": "</pre><script>\u202e"})]
)
async def test_what_a_model_wrote_is_text(client, url, call):
    text = (await client.get(url())).content.decode()
    assert "<script" not in text
    assert "a&lt;b&gt;" in text
    assert "\u202e" not in text


async def test_another_method_is_refused(client, url):
    assert (await client.delete(url())).status_code == 405


async def test_a_store_that_fails_is_told_without_the_token(client, url, monkeypatch, caplog):
    def full(*_, **__):
        raise StorageFull("No space.")

    monkeypatch.setattr(ConfirmationStore, "decide", full)
    link = url()
    assert shown(await post(client, link))[0] == 503
    assert "a link could not be used" in caplog.text
    assert link.removeprefix("/a/") not in caplog.text


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your <name>", "default": "Anna"},
        "count": {"type": "integer", "minimum": 1},
        "share": {"type": "number"},
        "sure": {"type": "boolean"},
        "color": {"type": "string", "enum": ["red", "blue"], "enumNames": ["Red", "Blue"]},
        "days": {"type": "array", "items": {"type": "string", "enum": ["mon", "tue"]}},
        "password": {"type": "string"},
    },
    "required": ["count"],
}
INPUT = {"kind": "input", "server": "shop", "message": "How many?", "schema": SCHEMA}


@pytest.mark.parametrize("about", [INPUT])
async def test_the_form_of_a_server_is_shown_and_its_values_are_kept(client, url, decision, about):
    answer = await client.get(url())
    text = answer.content.decode()
    assert shown(answer) == (200, "A tool needs values from you")
    for part in ("Your &lt;name&gt;", 'value="Anna"', "Blue</option>", "multiple", "How many?"):
        assert part in text
    assert "secrets: password" in text
    form = "application/x-www-form-urlencoded"
    values = "field.count=x&field.days=mon&field.days=tue"
    refused = await client.post(url(), f"{values}&decision=approve", content_type=form)
    assert shown(refused)[0] == 422
    assert await decision() is None
    values = (
        "field.name=%C3%84nne&field.count=3&field.share=0.5&field.sure=on&field.color=blue"
        "&field.days=mon&field.days=tue&field.password=&field.other=1"
    )
    answer = await client.post(url(), f"{values}&decision=approve", content_type=form)
    assert shown(answer) == (200, "Sent.")
    assert (await decision()).content == {
        "name": "Änne",
        "count": 3,
        "share": 0.5,
        "sure": True,
        "color": "blue",
        "days": ["mon", "tue"],
    }


@pytest.mark.parametrize("about", [INPUT])
async def test_a_form_can_be_declined_empty(client, url, decision, about):
    assert shown(await post(client, url(), "deny")) == (200, "Denied.")
    assert (await decision()).reason == "denied"


ADDRESS = {"kind": "url", "server": "shop", "message": "Pay.", "url": "https://pay.example/?a=1&b"}


@pytest.mark.parametrize("about", [ADDRESS])
async def test_the_address_of_a_server_is_shown_whole(client, url, decision, about):
    answer = await client.get(url())
    assert shown(answer) == (200, "A tool asks you to open an address")
    link = '<a href="https://pay.example/?a=1&amp;b" rel="noreferrer noopener">'
    assert link in answer.content.decode()
    assert (await post(client, url())).status_code == 200
    assert (await decision()).approved
