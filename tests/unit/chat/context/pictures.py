"""Messages with images and files, for tests of what a request sends of them."""

from hashlib import sha256

from chat.context.attachment_costs import AttachmentRules
from chat.context.plan import plan_request
from chat.context.strategy import strategy_of
from sessions_app.attachments.media_type import IMAGES
from sessions_app.messages import AssistantMessage, Attachment, ToolMessage, UserMessage

ALL = AttachmentRules()
BLIND = AttachmentRules(takes=lambda _: False)
NO_PDF = AttachmentRules(takes=IMAGES.__contains__)


def image(name="cat.png", *, width=800, height=600, size=50_000):
    return attached(name, "image/png", size=size, width=width, height=height)


def pdf(name="report.pdf", *, size=90_000):
    return attached(name, "application/pdf", size=size)


def text(name="notes.txt", *, size=400):
    return attached(name, "text/plain", size=size)


def attached(name, media_type, **how):
    identity = f"sha256:{sha256(name.encode()).hexdigest()}"
    return Attachment(id=identity, name=name, media_type=media_type, **how)


def asked(number, *attachments, content="What is it?"):
    return UserMessage(
        content=content,
        message_id=f"u{number}",
        timestamp=f"{number:03}a",
        attachments=tuple(attachments),
    )


def answered(number, content="It is that.", **how):
    how = {"model": "m", **how}
    return AssistantMessage(
        content=content, message_id=f"a{number}", timestamp=f"{number:03}b", **how
    )


def result(number, *attachments, call_id="c", content="See for yourself."):
    return ToolMessage(
        content=content,
        message_id=f"r{number}",
        timestamp=f"{number:03}c",
        tool_name="look",
        tool_call_id=call_id,
        attachments=tuple(attachments),
    )


def names_of(messages):
    """Return the names of the attachments that are sent, oldest first."""
    return [each.name for message in messages for each in message.attachments]


def plan(messages, state=None, name="truncate_by_tokens", limit=10_000, rules=ALL, **how):
    return plan_request(
        messages,
        state=state,
        strategy=strategy_of(name),
        limit=limit,
        model="m",
        now="950",
        attachments=rules,
        **how,
    )
