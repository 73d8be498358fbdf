"""Which images and files the parts of messages give, and what is no part that does."""

import pytest

from dialects_app.shared.files import (
    GivenFile,
    InlineSource,
    RemoteSource,
    StoredSource,
    given_file,
)
from sessions_app.errors import ValidationFailed

DATA = "data:image/png;base64,aGVsbG8="
FILE_ID = f"sha256:{'ab' * 32}"


def source_of(part, **expected):
    file = given_file(part, "p")
    assert {name: getattr(file, name) for name in expected} == expected
    return file.source


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ({"type": "image_url", "image_url": {"url": DATA, "detail": "high"}}, "p.image_url.url"),
        ({"type": "image_url", "image_url": DATA}, "p.image_url.url"),
        ({"type": "input_image", "image_url": DATA, "file_id": None}, "p.image_url"),
    ],
)
def test_an_image_is_given_by_a_data_url(part, path):
    assert source_of(part, path=path, is_image=True, name=None) == InlineSource(DATA, 22)


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ({"type": "file", "file": {"file_data": DATA, "filename": "a.pdf"}}, "p.file.file_data"),
        ({"type": "input_file", "file_data": DATA, "filename": "a.pdf"}, "p.file_data"),
    ],
)
def test_a_file_is_given_with_its_name(part, path):
    assert source_of(part, path=path, is_image=False, name="a.pdf") == InlineSource(DATA, 22)


def test_the_data_of_a_file_may_be_base64_alone():
    part = {"type": "input_file", "file_data": "aGVsbG8="}
    assert source_of(part) == InlineSource("aGVsbG8=")


def test_a_file_is_given_by_its_id_or_its_url():
    assert source_of({"type": "file", "file": {"file_id": FILE_ID}}) == StoredSource(FILE_ID)
    assert source_of({"type": "input_image", "file_id": FILE_ID}) == StoredSource(FILE_ID)
    url = "HTTPS://example.com/a.pdf"
    assert source_of({"type": "input_file", "file_url": url}) == RemoteSource(url)


@pytest.mark.parametrize(
    ("part", "field", "problem"),
    [
        ({"type": "image_url"}, "p.image_url", None),
        ({"type": "image_url", "image_url": {}}, "p.image_url.url", None),
        ({"type": "image_url", "image_url": {"url": 7}}, "p.image_url.url", None),
        ({"type": "image_url", "image_url": 7}, "p.image_url", None),
        ({"type": "file", "file": {"filename": "a"}}, "p.file.file_id", None),
        ({"type": "input_image"}, "p.file_id", None),
        ({"type": "input_image", "file_id": "a", "image_url": "b"}, "p", None),
        ({"type": "input_image", "image_url": "file:///etc/x"}, "p.image_url", "invalid_image_url"),
        ({"type": "input_image", "image_url": "cat.png"}, "p.image_url", "invalid_image_url"),
        ({"type": "input_image", "image_url": "data:,x"}, "p.image_url", "invalid_base64_image"),
        ({"type": "input_image", "image_url": "data:"}, "p.image_url", "invalid_base64_image"),
        ({"type": "input_file", "file_data": "data:;utf8,x"}, "p.file_data", None),
    ],
)
def test_a_part_that_gives_no_file_is_refused_by_its_path(part, field, problem):
    with pytest.raises(ValidationFailed) as refusal:
        given_file(part, "p")
    assert refusal.value.details.get("field") == field
    assert refusal.value.details.get("problem") == problem


def test_a_message_refers_to_a_file_by_its_place_until_it_is_kept():
    file = GivenFile(path="messages[0].content[1]", source=StoredSource(FILE_ID))
    assert file.placeholder().id == "messages[0].content[1]"
