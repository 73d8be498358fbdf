"""Metadata is up to 16 pairs of short texts."""

import pytest

from dialects_app.shared.labels import read_labels
from sessions_app.errors import ValidationFailed

FULL = {f"{number:064}": "x" * 512 for number in range(16)}


@pytest.mark.parametrize(("value", "labels"), [(None, {}), ({}, {}), (FULL, FULL)])
def test_pairs_are_read(value, labels):
    assert read_labels(value) == labels


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ([], "metadata"),
        ("topic", "metadata"),
        ({**FULL, "more": ""}, "metadata"),
        ({"": "x"}, "metadata."),
        ({"k" * 65: "x"}, "metadata." + "k" * 64),
        ({"topic": 1}, "metadata.topic"),
        ({"topic": "x" * 513}, "metadata.topic"),
    ],
)
def test_what_is_no_pair_of_short_texts_is_refused(value, field):
    with pytest.raises(ValidationFailed) as refusal:
        read_labels(value)
    assert refusal.value.details["field"] == field
