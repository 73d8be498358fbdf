"""Estimates what images and PDFs cost, by the measure of each vendor. Pure.

Sources: counts of providers for images of known sizes, to which OpenAI's formula fits exactly, and
Anthropic's from 1024 x 1024 on; Google counts an image as much as any other one. What Ollama's
models count depends on the model: 1,000 until it is measured. No PDF is opened: its pages are
guessed from its size.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import msgspec

from models_app.language_model import ModelInfo
from sessions_app.attachments.media_type import PDF, TEXT
from sessions_app.messages import Attachment, Message

UNKNOWN_IMAGE = 1000
"""Tokens of an image of which nothing is known."""

SMALLEST_FILE = 100
"""Tokens, more than those of the mention in the place of a file: leaving out makes room."""

SMALLEST_PDF = 1500
BYTES_PER_TOKEN_OF_PDF = 30.0

OPENAI_PATCH = 32
OPENAI_TOKENS_PER_PATCH = 1.2
OPENAI_MOST_PATCHES = 10_000
ANTHROPIC_PIXELS_PER_TOKEN = 750
ANTHROPIC_MOST_TOKENS = 4000
GOOGLE_IMAGE = 1100

MEBIBYTE = 1 << 20


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The most that a vendor takes: a request with more is refused whatever it says.

    Attributes:
        files: How many images and PDFs in one request; None where no limit is known.
        size: Their bytes in all, before base64 makes a third more of them.
        side: Pixels of the longer side of an image.
    """

    files: int | None = None
    size: int | None = None
    side: int | None = None


NO_LIMITS = Limits()
LIMITS: Mapping[str, Limits] = MappingProxyType(
    {
        "anthropic": Limits(files=100, size=22 * MEBIBYTE, side=8000),  # of 32 MB
        "google": Limits(size=14 * MEBIBYTE),  # of 20 MB
        "openai": Limits(files=500, size=36 * MEBIBYTE),  # of 50 MB
    }
)


def takes_everything(_media_type: str) -> bool:
    """Return True: of a model of which nothing is known, its provider is asked."""
    return True


class AttachmentRules(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a model takes, and the measure by which it counts them.

    Attributes:
        vendor: The vendor of the model; another than those below counts like Ollama's.
        takes: Returns whether the model takes images or PDFs of a media type. Texts are always
            taken: they are part of the prompt.
    """

    vendor: str = ""
    takes: Callable[[str], bool] = takes_everything

    @property
    def limits(self) -> Limits:
        """The vendor's limits."""
        return LIMITS.get(self.vendor, NO_LIMITS)

    def takes_file(self, attachment: Attachment) -> bool:
        """Return whether the model takes an image or a file: its type, and its size in pixels."""
        return self.takes(attachment.media_type) and not self.is_too_wide(attachment)

    def is_too_wide(self, attachment: Attachment) -> bool:
        """Return whether a side of an image is longer than the vendor takes."""
        side = self.limits.side
        return side is not None and max(attachment.width or 0, attachment.height or 0) > side


TAKES_EVERYTHING = AttachmentRules()


def rules_for(info: ModelInfo | None) -> AttachmentRules:
    """Return what a model takes, as far as that is known."""
    return AttachmentRules(vendor=vendor_of(info), takes=info.takes) if info else TAKES_EVERYTHING


def vendor_of(info: ModelInfo) -> str:
    """Return by whose measure a model counts; OpenRouter's models are named after their vendor."""
    if info.provider != "openrouter":
        return info.provider
    return info.name.rpartition(":")[2].partition("/")[0]


def tokens_of(attachment: Attachment, vendor: str) -> int:
    """Estimate the tokens of an image or a PDF as it is sent; 0 for a text, which is text."""
    if attachment.media_type == TEXT:
        return 0
    if attachment.media_type == PDF:
        return max(int(attachment.size / BYTES_PER_TOKEN_OF_PDF), SMALLEST_PDF)
    return max(_image_tokens(attachment.width or 0, attachment.height or 0, vendor), SMALLEST_FILE)


def tokens_of_files(messages: Iterable[Message], vendor: str) -> int:
    """Estimate the tokens of the images and PDFs of some messages."""
    return sum(tokens_of(each, vendor) for message in messages for each in message.attachments)


def _image_tokens(width: int, height: int, vendor: str) -> int:
    if vendor == "google":
        return GOOGLE_IMAGE
    if not width * height:  # the size of a HEIC image is not read
        return UNKNOWN_IMAGE
    if vendor == "openai":
        patches = -(-width // OPENAI_PATCH) * -(-height // OPENAI_PATCH)
        return round(min(patches, OPENAI_MOST_PATCHES) * OPENAI_TOKENS_PER_PATCH)
    if vendor == "anthropic":
        return min(width * height // ANTHROPIC_PIXELS_PER_TOKEN, ANTHROPIC_MOST_TOKENS)
    return UNKNOWN_IMAGE
