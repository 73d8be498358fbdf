"""What requests say of attachments is read in the event loop, so that nothing is decoded there."""

import pytest
from pydantic import TypeAdapter, ValidationError

from sessions_app.attachments.intake import GivenAttachment, Inline, Reference
from sessions_app.http.attachments import AttachmentIn

GIVEN: TypeAdapter[GivenAttachment] = TypeAdapter(AttachmentIn)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("sha256:1", Reference(id="sha256:1")),
        ({"id": "sha256:1", "name": "a.png"}, Reference(id="sha256:1", name="a.png")),
        ({"data": "%%%", "name": "a.png"}, Inline(data="%%%", name="a.png")),
        ({"data": "data:text/plain,x"}, Inline(data="data:text/plain,x")),
    ],
)
def test_base64_is_handed_on_as_it_came(value: object, expected: GivenAttachment) -> None:
    assert GIVEN.validate_python(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        *(5, None, {}, {"id": 5}, {"data": 5}, {"id": "a", "data": "b"}),
        *({"data": "a", "name": 5}, {"data": "a", "type": "image/png"}),
    ],
)
def test_other_forms_are_refused(value: object) -> None:
    with pytest.raises(ValidationError, match=r"must be"):
        GIVEN.validate_python(value)
