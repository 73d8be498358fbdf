"""Refuses images and files that a model does not accept, before anything is saved. Pure."""

from collections.abc import Sequence

from chat.context.attachment_costs import AttachmentRules, rules_for
from chat.context.tokens import CHARACTERS_PER_TOKEN
from chat.turn.attached_files import MOST_FILE_BYTES, MOST_TEXT_BYTES
from models_app.language_model import ModelInfo
from sessions_app.attachments.media_type import PDF, TEXT
from sessions_app.errors import ValidationFailed
from sessions_app.messages import AssistantMessage, Attachment, Message, UserMessage

FAR_BEYOND = 4
"""A model's longest contexts of text that are read, in case it is much shorter in its tokens."""


def require_room(
    info: ModelInfo | None, messages: Sequence[Message], *, brought: Sequence[Message] = ()
) -> None:
    """Refuse texts and files far beyond what any request of the model holds, unread.

    Args:
        info: The facts about the model, if known.
        messages: The new messages.
        brought: The messages of the request, if it has several.

    Raises:
        ValidationFailed: ``details`` name the sizes.
    """
    longest = info.context_length if info is not None else None
    most_text = MOST_TEXT_BYTES
    if longest:
        most_text = min(most_text, int(FAR_BEYOND * longest * CHARACTERS_PER_TOKEN))
    for message in messages:
        distinct = {each.id: each for each in message.attachments}.values()
        texts = sum(each.size for each in distinct if each.media_type == TEXT)
        files = sum(each.size for each in distinct) - texts
        for kind, size, most in (("texts", texts, most_text), ("files", files, MOST_FILE_BYTES)):
            if size > most:
                raise ValidationFailed(
                    f"The {kind} of this message have {size:,} bytes, and a request to the model "
                    f"takes {most:,} at most. Attach less, or only the parts that matter.",
                    field=_place_of(message, brought),
                    size=size,
                    limit=most,
                )


def require_takes(
    info: ModelInfo | None, messages: Sequence[Message], *, brought: Sequence[Message] = ()
) -> None:
    """Refuse images and files that a model is known not to accept, before they are saved.

    Those before the last answer are part of a sent history, and are only mentioned to the model.

    Args:
        info: The facts about the model, if known.
        messages: The new messages.
        brought: The messages of the request, if it has several; errors name the one at fault.

    Raises:
        ValidationFailed: ``details`` name the model and the type.
    """
    if info is None:
        return
    rules: AttachmentRules | None = None
    answers = [at for at, each in enumerate(messages) if isinstance(each, AssistantMessage)]
    for message in messages[answers[-1] + 1 if answers else 0 :]:
        if not isinstance(message, UserMessage):
            continue
        for attachment in message.attachments:
            rules = rules or rules_for(info)
            if not rules.takes_file(attachment):
                raise ValidationFailed(
                    _why_not(info.name, attachment, rules),
                    field=_place_of(message, brought),
                    model=info.name,
                    media_type=attachment.media_type,
                )


def _place_of(message: Message, brought: Sequence[Message]) -> str:
    for index, each in enumerate(brought):
        if each.message_id == message.message_id:
            return f"messages[{index}]"
    return "attachments"


def _why_not(model: str, attachment: Attachment, rules: AttachmentRules) -> str:
    if rules.takes(attachment.media_type):
        return (
            f"Model '{model}' takes images of up to {rules.limits.side:,} pixels a side, and "
            f"{attachment.name} has {attachment.width:,} x {attachment.height:,}. Make it smaller."
        )
    return (
        f"Model '{model}' takes no {attachment.media_type} ({attachment.name}). Choose a model "
        "that does" + ("." if attachment.media_type == PDF else ": one with `vision`.")
    )
