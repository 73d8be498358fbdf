"""What receivers get: signed as Standard Webhooks, and in the words of other services."""

import base64
import json
import os

import pytest
from msgspec.structs import replace
from standardwebhooks import Webhook, WebhookVerificationError

from chat.notices.formats import FORMATS, Message

SECRET = f"whsec_{base64.b64encode(os.urandom(32)).decode()}"
LINK = "https://mochi.example.org/a/token"
MESSAGE = Message(
    id="conf_1",
    event="approval.asked",
    happened_at="2026-11-28T10:00:00+00:00",
    headline="May rm_<rf> run?",
    text='rm {"path": "a & b"}\nTidy up',
    link=LINK,
    data={"confirmation_id": "conf_1", "title": "Ümläute"},
)


def made(name, url, message=MESSAGE, secret=SECRET):
    delivery = FORMATS[name](message, url, secret)
    return delivery, json.loads(delivery.body)


def test_the_official_library_verifies_a_standard_webhook():
    delivery, body = made("standard", "https://x.example/hook")
    headers = dict(delivery.headers)
    assert Webhook(SECRET).verify(delivery.body, headers) == body
    assert body == {
        "type": "approval.asked",
        "timestamp": "2026-11-28T10:00:00+00:00",
        "data": {"confirmation_id": "conf_1", "title": "Ümläute"},
    }
    assert delivery.url == "https://x.example/hook"
    for broken in (
        {**headers, "webhook-id": "conf_2"},
        {**headers, "webhook-signature": "v1,AAAA"},
    ):
        with pytest.raises(WebhookVerificationError):
            Webhook(SECRET).verify(delivery.body, broken)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(delivery.body + b" ", headers)


def test_ntfy_gets_a_topic_a_button_and_the_token():
    delivery, body = made("ntfy", "https://ntfy.example/sub/mine", secret="tk_1")
    assert delivery.url == "https://ntfy.example/sub"
    assert delivery.headers["Authorization"] == "Bearer tk_1"
    assert (body["topic"], body["title"], body["message"]) == (
        "mine",
        MESSAGE.headline,
        MESSAGE.text,
    )
    assert body["click"] == LINK
    assert body["actions"] == [{"action": "view", "label": "Answer", "url": LINK}]
    assert "Authorization" not in made("ntfy", "https://ntfy.sh/mine", secret="")[0].headers


def test_slack_gets_text_in_which_nothing_of_a_model_is_markup():
    delivery, body = made("slack", "https://hooks.slack.example/services/T/B/x")
    assert delivery.url == "https://hooks.slack.example/services/T/B/x"
    assert body["text"] == (
        f'*May rm_&lt;rf&gt; run?*\nrm {{"path": "a &amp; b"}}\nTidy up\n<{LINK}|Answer>'
    )
    assert body["unfurl_links"] is False


def test_telegram_gets_plain_text_for_the_chat_of_the_address():
    url = "https://api.telegram.example/bot1:x/sendMessage?chat_id=-42"
    delivery, body = made("telegram", url)
    assert delivery.url == "https://api.telegram.example/bot1:x/sendMessage"
    assert body["chat_id"] == "-42"
    assert body["text"] == f"{MESSAGE.headline}\n{MESSAGE.text}"
    assert body["link_preview_options"] == {"is_disabled": True}
    assert body["reply_markup"]["inline_keyboard"] == [[{"text": "Answer", "url": LINK}]]
    assert "parse_mode" not in body


@pytest.mark.parametrize("name", FORMATS)
def test_what_can_not_be_answered_has_no_link(name):
    delivery, _ = made(name, "https://x.example/y?chat_id=1", replace(MESSAGE, link=None))
    assert b"Answer" not in delivery.body
