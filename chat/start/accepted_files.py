"""Refuses images and files that a model does not accept, before anything is saved. Pure."""

from collections.abc import Sequence

from chat.context.attachment_costs import AttachmentRules, rules_for
from models_app.language_model import ModelInfo
from sessions_app.attachments.media_type import PDF
from sessions_app.errors import ValidationFailed
from sessions_app.messages import AssistantMessage, Attachment, Message, UserMessage


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
