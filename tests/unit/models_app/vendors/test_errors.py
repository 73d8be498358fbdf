"""What a vendor says of a request becomes the error that names what is at fault."""

import pytest

from models_app.errors import SchemaNotSupported, ServiceUnavailable
from models_app.vendors.errors import error_from_refusal, redact_keys
from models_app.vendors.registry import KNOWN_VENDORS

VENDOR = KNOWN_VENDORS[0]


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (
            "tools",
            "Invalid schema for function 'f': In context=(), object schema missing properties.",
        ),
        ("tools", "tools.0.custom.input_schema: JSON schema is invalid."),
        (
            "tools",
            "* tools[0].function_declarations[0].parameters.properties: should be non-empty",
        ),
        ("response_format", "Invalid schema for response_format 'answer': 'x' is not valid."),
        ("response_format", "output_config.format.schema: Schema type 'no type' is not supported"),
        (
            "response_format",
            "Unknown name 'foo' at 'generation_config.response_json_schema': Cannot find field.",
        ),
    ],
)
def test_a_schema_that_can_not_be_taken_is_the_requests_fault(field: str, words: str) -> None:
    error = error_from_refusal(VENDOR, words, model="m", status=400)

    assert type(error) is SchemaNotSupported
    assert (error.code, error.retryable) == ("VALIDATION_ERROR", False)
    assert error.details["field"] == field
    assert words in error.message


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "This response_format type is unavailable now"),
        (400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported"),
        (400, "Unknown name \"responseJsonSchema\" at 'generation_config': Cannot find field."),
        (500, "Invalid schema for function 'f'"),
    ],
)
def test_a_vendor_that_takes_no_schemas_or_fails_is_told_as_before(status: int, words: str) -> None:
    error = error_from_refusal(VENDOR, words, model="m", status=status)

    assert type(error) is ServiceUnavailable


@pytest.mark.parametrize("key", ["none", "no-key", "x", "1234567"])
def test_a_key_too_short_to_be_one_is_not_cut_out_of_words(key: str) -> None:
    words = f"The model has {key} of the 1234567 parts."

    assert redact_keys(words, key) == words
    assert redact_keys("Not a key: secret-key", "secret-key") == "Not a key: ***"


def test_a_page_of_a_proxy_is_told_in_its_words() -> None:
    page = (
        "<!-- x --><HTML><head><title>502 Bad &amp; Gateway</title><style>a{}</style></head></HTML>"
    )

    assert redact_keys(page, None) == "a web page instead of an answer: 502 Bad & Gateway"
    assert "It broke" in redact_keys("<html><body><h1>It\nbroke</h1></body></html>", None)
