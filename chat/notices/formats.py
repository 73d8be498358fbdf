"""Makes the requests of webhooks: each format by a function of message, address and secret."""

import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import msgspec

from chat.settings import NoticeEvent, NoticeFormat


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Tells people of something.

    Attributes:
        id: The same at each try, so that a receiver can drop what it has.
        event: What happened.
        happened_at: When; UTC, ISO 8601.
        headline: One line about it.
        text: The rest for people.
        link: Where it can be answered, if anywhere.
        data: All of it for programs.
    """

    id: str
    event: NoticeEvent
    happened_at: str
    headline: str
    text: str
    link: str | None
    data: Mapping[str, Any]


class Delivery(NamedTuple):
    """A request to send: JSON."""

    url: str
    body: bytes
    headers: Mapping[str, str] = MappingProxyType({})


def standard(message: Message, url: str, secret: str) -> Delivery:
    """Return a request with the headers of Standard Webhooks (standardwebhooks.com, v1)."""
    body = msgspec.json.encode(
        {"type": message.event, "timestamp": message.happened_at, "data": message.data}
    )
    key, now = base64.b64decode(secret.removeprefix("whsec_")), int(time.time())
    signed = f"{message.id}.{now}.".encode() + body
    signature = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    headers = {
        "webhook-id": message.id,
        "webhook-timestamp": str(now),
        "webhook-signature": f"v1,{signature}",
    }
    return Delivery(url, body, headers)


def ntfy(message: Message, url: str, secret: str) -> Delivery:
    """Return a request of ntfy's JSON (docs.ntfy.sh/publish); the secret is its access token."""
    server, _, topic = url.rpartition("/")
    body: dict[str, Any] = {"topic": topic, "title": message.headline, "message": message.text}
    if message.link is not None:
        action = {"action": "view", "label": "Answer", "url": message.link}
        body |= {"click": message.link, "actions": [action], "priority": 4}
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    return Delivery(server, msgspec.json.encode(body), headers)


def slack(message: Message, url: str, _secret: str) -> Delivery:
    """Return a request of Slack's incoming webhooks (api.slack.com/messaging/webhooks)."""
    text = f"*{_escaped(message.headline)}*\n{_escaped(message.text)}"
    if message.link is not None:
        text += f"\n<{message.link}|Answer>"
    body = {"text": text, "unfurl_links": False, "unfurl_media": False}
    return Delivery(url, msgspec.json.encode(body))


def telegram(message: Message, url: str, _secret: str) -> Delivery:
    """Return a request of Telegram's ``sendMessage``, whose address names the chat."""
    url, _, query = url.partition("?")
    body: dict[str, Any] = {
        "chat_id": parse_qs(query).get("chat_id", [""])[0],
        "text": f"{message.headline}\n{message.text}"[:4096],
        "link_preview_options": {"is_disabled": True},
    }
    if message.link is not None:
        button = {"text": "Answer", "url": message.link}
        body["reply_markup"] = {"inline_keyboard": [[button]]}
    return Delivery(url, msgspec.json.encode(body))


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


FORMATS: Mapping[NoticeFormat, Callable[[Message, str, str], Delivery]] = {
    "standard": standard,
    "ntfy": ntfy,
    "slack": slack,
    "telegram": telegram,
}
