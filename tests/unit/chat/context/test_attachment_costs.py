"""What images and PDFs cost: as providers counted them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.context.attachment_costs import (
    LIMITS,
    SMALLEST_FILE,
    SMALLEST_PDF,
    AttachmentRules,
    tokens_of,
    tokens_of_files,
    vendor_of,
)
from models_app.language_model import ModelInfo
from tests.unit.chat.context.pictures import asked, attached, image, pdf, text


@pytest.mark.parametrize(
    ("vendor", "width", "height", "counted"),
    [
        ("openai", 512, 512, 308),
        ("openai", 1024, 1024, 1229),
        ("openai", 1920, 1080, 2448),
        ("anthropic", 512, 512, 438),
        ("anthropic", 1024, 1024, 1446),
        ("anthropic", 1920, 1080, 2768),
        ("google", 512, 512, 1090),
        ("google", 1024, 1024, 1090),
        ("google", 1920, 1080, 1101),
    ],
)
def test_estimates_are_near_what_vendors_counted(vendor, width, height, counted):
    estimated = tokens_of(image(width=width, height=height), vendor)

    assert estimated == pytest.approx(counted, rel=0.01 if vendor == "openai" else 0.21)


def test_an_image_of_ollamas_or_of_unknown_size_costs_a_thousand():
    assert tokens_of(image(), "ollama") == tokens_of(image(), "") == 1000
    heic = attached("cat.heic", "image/heic", size=9)
    assert tokens_of(heic, "anthropic") == tokens_of(heic, "openai") == 1000


def test_a_pdf_costs_by_its_size_and_a_text_is_counted_as_text():
    assert tokens_of(pdf(size=900), "anthropic") == SMALLEST_PDF
    assert tokens_of(pdf(size=3_000_000), "anthropic") == 100_000
    assert tokens_of(text(size=10**6), "openai") == 0


def test_files_of_messages_are_counted_together():
    messages = [asked(1, image(), text()), asked(2), asked(3, pdf(size=9), image())]
    assert tokens_of_files(messages, "ollama") == 2000 + SMALLEST_PDF


@given(
    width=st.integers(1, 40_000),
    height=st.integers(1, 40_000),
    vendor=st.sampled_from(["", "ollama", *LIMITS]),
)
def test_no_image_is_free_or_without_end(width, height, vendor):
    assert SMALLEST_FILE <= tokens_of(image(width=width, height=height), vendor) <= 12_000


def test_a_model_of_openrouter_counts_like_its_vendors():
    def vendor(provider, name):
        return vendor_of(ModelInfo(name=name, size_mb=0, provider=provider))

    assert vendor("openrouter", "openrouter:anthropic/claude-sonnet-4.5") == "anthropic"
    assert vendor("openrouter", "profile:mine") == "mine"
    assert vendor("openai", "openai:gpt-5") == "openai"
    assert vendor("ollama", "qwen3-vl:8b") == "ollama"


def test_an_image_that_its_vendor_finds_too_wide_is_not_taken():
    anthropic = AttachmentRules(vendor="anthropic")
    assert anthropic.takes_file(image(width=8000, height=8000))
    assert not anthropic.takes_file(image(width=8001, height=1))
    assert not anthropic.takes_file(image(width=1, height=8001))
    assert AttachmentRules().takes_file(image(width=8001, height=1))


def test_what_is_not_known_takes_everything_and_has_no_limits():
    rules = AttachmentRules()
    assert rules.takes("image/heic")
    assert (rules.limits.files, rules.limits.size) == (None, None)
    assert AttachmentRules(vendor="anthropic").limits.files == 100
