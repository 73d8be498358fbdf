"""Declares the body of a chat request, as ``DefaultChatTransport`` sends it. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from pydantic import ValidationError

from dialects_app.ai_sdk.ui_messages import CLIENT_ID
from dialects_app.errors import ChatDiffers
from dialects_app.shared.client_sessions import NAME_PATTERN
from models_app.language_model import Think
from sessions_app.errors import ValidationFailed
from sessions_app.format.fields import stable_id
from sessions_app.http.request_schemas import SessionCreateIn
from sessions_app.ids_and_clock import new_message_id, utc_now
from sessions_app.inbox import WhenBusy
from sessions_app.messages import AssistantMessage, UserMessage
from sessions_app.session import MODEL_NAME_LENGTH

Trigger = Literal["submit-message", "regenerate-message"]
CHAT_ID_PATTERN = f"^{NAME_PATTERN}$"
ChatId = Annotated[str, msgspec.Meta(pattern=CHAT_ID_PATTERN)]
_SESSION = msgspec.Meta(extra_json_schema={"$ref": "#/components/schemas/SessionCreateIn"})
MessageId = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]

_ATTACHMENT_URL = re.compile(r"(?:^|(?:^|/)api/v1/attachments/)(sha256:[0-9a-f]{64})$")


class UIMessageIn(msgspec.Struct, kw_only=True):
    """A message of the client: a user message, or an answer with approvals."""

    role: Literal["user", "assistant", "system"]
    parts: list[dict[str, Any]]
    id: MessageId | None = None


class UIChatIn(msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A request of ``useChat``: the whole conversation, or its last message alone.

    ``session`` describes the session of a new chat, as the body of ``POST /sessions`` does, and
    ``when_busy`` says what to do with the message if the chat's turn runs.
    """

    id: ChatId
    messages: list[UIMessageIn] | None = None
    message: UIMessageIn | None = None
    trigger: Trigger | None = None
    message_id: MessageId | None = None
    model: Annotated[str, msgspec.Meta(min_length=1, max_length=MODEL_NAME_LENGTH)] | None = None
    think: Think | None = None
    session: Annotated[dict[str, Any], _SESSION] | None = None
    when_busy: WhenBusy | None = msgspec.field(default=None, name="when_busy")

    def identity(self) -> Mapping[str, Any]:
        """Return what identifies the request under its key, as the last release did it."""
        sent: dict[str, Any] = msgspec.to_builtins(self)
        later = ("session", "when_busy")
        return {
            name: value for name, value in sent.items() if value is not None or name not in later
        }

    def new_session(self) -> SessionCreateIn:
        """Return the description of a new chat's session; raise ``ValidationFailed`` for others."""
        model = {} if self.model is None else {"model": self.model}
        try:
            return SessionCreateIn.model_validate({**(self.session or {}), **model})
        except ValidationError as error:
            fault = error.errors(include_url=False, include_context=False)[0]
            field = ".".join(("session", *map(str, fault["loc"])))
            raise ValidationFailed(f"{field}: {fault['msg']}", field=field) from None

    def last(self) -> UIMessageIn:
        """Return the last message of the request.

        Raises:
            ValidationFailed: There is none.
        """
        if self.messages:
            return self.messages[-1]
        if self.message is None:
            raise ValidationFailed(
                "Send `messages`, or the last one as `message`.", field="messages"
            )
        return self.message

    def known_ids(self) -> Sequence[str] | None:
        """Return the ids of earlier messages; None if the client sent only the last one."""
        if self.messages is None:
            return None
        return [each.id or "" for each in self.messages[:-1]]


def greeting_in(messages: Sequence[UIMessageIn]) -> Sequence[AssistantMessage]:
    """Return the answers with which a client begins a new chat, before the user's first message.

    Raises:
        ChatDiffers: There are other messages.
    """
    if any(each.role != "assistant" or decisions_in(each) for each in messages):
        raise ChatDiffers("This chat has messages that the server does not know.")
    return [
        AssistantMessage(
            content="\n\n".join(
                _text(part, "text", number)
                for number, part in enumerate(each.parts)
                if part.get("type") == "text"
            ),
            message_id=new_message_id(),
            timestamp=utc_now(),
            extra={} if each.id is None else {CLIENT_ID: each.id},
        )
        for each in messages
    ]


class UserInput(msgspec.Struct, frozen=True, kw_only=True):
    """A user's input: text, and the URLs of images and files.

    Attributes:
        text: All text parts, with an empty line between them.
        files: The URLs of its files, with their names.
        client_id: The client's message id.
    """

    text: str
    files: Sequence[tuple[str, str | None]]
    client_id: str | None

    def message(self, chat_id: str, *, now: str, **fields: Any) -> UserMessage:
        """Return the input as a session message; with an id of the client, it is always the same.

        So one that is sent again while it waits for its turn is recognized.
        """
        known = self.client_id is not None
        return UserMessage(
            content=self.text,
            message_id=stable_id("ui", chat_id, self.client_id) if known else new_message_id(),
            timestamp=now,
            extra={CLIENT_ID: self.client_id} if known else {},
            **fields,
        )


def said_in(message: UIMessageIn) -> UserInput:
    """Return the user's input in a message.

    Raises:
        ValidationFailed: It is not a user message, or has neither text nor files.
    """
    if message.role != "user":
        raise ValidationFailed("The last message has to be one of the user.", field="messages")
    texts, files = [], []
    for number, part in enumerate(message.parts):
        kind = part.get("type")
        if kind == "text":
            texts.append(_text(part, "text", number))
        elif kind == "file":
            name = part.get("filename")
            files.append((_text(part, "url", number), name if isinstance(name, str) else None))
    text = "\n\n".join(texts)
    if not text.strip() and not files:
        raise ValidationFailed("The message has neither a text nor a file.", field="messages")
    return UserInput(text=text, files=files, client_id=message.id)


def attachment_in(url: str) -> str | None:
    """Return the id of an attachment from a URL of this server, or from the id itself."""
    found = _ATTACHMENT_URL.search(url)
    return found[1] if found else None


def decisions_in(message: UIMessageIn) -> Mapping[str, bool]:
    """Return the decisions about calls, by confirmation.

    Only ``true`` approves; any other value denies, so that no value approves by accident.
    """
    decided: dict[str, bool] = {}
    for part in message.parts:
        approval = part.get("approval")
        if part.get("state") != "approval-responded" or not isinstance(approval, dict):
            continue
        confirmation_id = approval.get("id")
        if isinstance(confirmation_id, str):
            decided[confirmation_id] = approval.get("approved") is True
    return decided


def _text(part: Mapping[str, Any], name: str, number: int) -> str:
    value = part.get(name)
    if not isinstance(value, str):
        raise ValidationFailed(
            f"A part needs `{name}`, a text.", field=f"messages.parts.{number}.{name}"
        )
    return value
