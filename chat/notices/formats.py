"""Makes the requests of webhooks, each format by a function. Pure."""

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Any
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


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Names the receiver of messages.

    Attributes:
        url: The address, which may have a secret in it.
        secret: ``MOCHI_WEBHOOK_SECRET``; empty without one.
        format: The name of its format.
    """

    url: str
    secret: str
    format: NoticeFormat

    def __repr__(self) -> str:
        """Leave out the secrets."""
        return f"Target({self.format})"


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A request to send: JSON."""

    url: str
    body: bytes
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)


def standard(message: Message, target: Target, now: int) -> Delivery:
    """Return a request with the headers of Standard Webhooks (standardwebhooks.com, v1)."""
    body = msgspec.json.encode(
        {"type": message.event, "timestamp": message.happened_at, "data": message.data}
    )
    key = base64.b64decode(target.secret.removeprefix("whsec_"))
    signed = f"{message.id}.{now}.".encode() + body
    signature = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    headers = {
        "webhook-id": message.id,
        "webhook-timestamp": str(now),
        "webhook-signature": f"v1,{signature}",
    }
    return Delivery(url=target.url, body=body, headers=headers)


def ntfy(message: Message, target: Target, now: int) -> Delivery:  # noqa: ARG001 - of all
    """Return a request of ntfy's JSON (docs.ntfy.sh/publish); the secret is its access token."""
    server, _, topic = target.url.rpartition("/")
    body: dict[str, Any] = {"topic": topic, "title": message.headline, "message": message.text}
    if message.link is not None:
        action = {"action": "view", "label": "Answer", "url": message.link}
        body |= {"click": message.link, "actions": [action], "priority": 4}
    headers = {"Authorization": f"Bearer {target.secret}"} if target.secret else {}
    return Delivery(url=server, body=msgspec.json.encode(body), headers=headers)


def slack(message: Message, target: Target, now: int) -> Delivery:  # noqa: ARG001 - of all
    """Return a request of Slack's incoming webhooks (api.slack.com/messaging/webhooks)."""
    text = f"*{_escaped(message.headline)}*\n{_escaped(message.text)}"
    if message.link is not None:
        text += f"\n<{message.link}|Answer>"
    body = {"text": text, "unfurl_links": False, "unfurl_media": False}
    return Delivery(url=target.url, body=msgspec.json.encode(body))


def telegram(message: Message, target: Target, now: int) -> Delivery:  # noqa: ARG001 - of all
    """Return a request of Telegram's ``sendMessage``, whose address names the chat."""
    url, _, query = target.url.partition("?")
    body: dict[str, Any] = {
        "chat_id": parse_qs(query).get("chat_id", [""])[0],
        "text": f"{message.headline}\n{message.text}"[:4096],
        "link_preview_options": {"is_disabled": True},
    }
    if message.link is not None:
        button = {"text": "Answer", "url": message.link}
        body["reply_markup"] = {"inline_keyboard": [[button]]}
    return Delivery(url=url, body=msgspec.json.encode(body))


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


FORMATS: Mapping[NoticeFormat, Callable[[Message, Target, int], Delivery]] = {
    "standard": standard,
    "ntfy": ntfy,
    "slack": slack,
    "telegram": telegram,
}
