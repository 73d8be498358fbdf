"""What a server refuses is left out, one part for each refusal."""

import pytest

from models_app.errors import ModelError, ModelNotFound, ServiceUnavailable
from models_app.vendors.refusals import MOST_OMISSIONS, REASONING, SCHEMA, Attempt, RequestPart


def refusal(
    message: str = "Bad request.", status: int = 400, code: str | None = None
) -> ModelError:
    kind = ModelNotFound if status == 404 else ServiceUnavailable
    error = kind(message, provider="openai", retryable=False, status=status)
    error.provider_code = code
    return error


def attempt_with(*parts: RequestPart) -> Attempt:
    attempt = Attempt()
    for part in parts:
        assert attempt.sends(part)
    return attempt


@pytest.mark.parametrize(
    "error",
    [
        refusal("messages.1.content.0: Invalid `signature` in `thinking` block"),
        refusal("messages.3.content.0: Invalid signature in thinking block"),
        refusal("messages.1.content.0: The block is bound to a different conversation."),
        refusal("The encrypted content for item rs_1 could not be verified."),
        refusal("It could not be read.", code="invalid_encrypted_content"),
        refusal("Item with id 'rs_1' not found.", status=404),
        refusal("Item 'rs_1' was provided without its required following item."),
    ],
    ids=lambda error: error.message[:30],
)
def test_reasoning_that_is_refused_is_left_out(error: ModelError) -> None:
    attempt = attempt_with(SCHEMA, REASONING).after(error)

    assert attempt is not None
    assert attempt.refused == (REASONING,)
    assert not attempt.sends(REASONING)
    assert attempt.sends(SCHEMA)


@pytest.mark.parametrize("status", [400, 422, 501])
def test_a_refusal_that_names_nothing_is_taken_for_one_of_the_schema(status: int) -> None:
    attempt = attempt_with(REASONING, SCHEMA).after(refusal(status=status))

    assert attempt is not None
    assert attempt.refused == (SCHEMA,)


@pytest.mark.parametrize(
    "error",
    [
        refusal(status=404),
        ServiceUnavailable("Overloaded.", provider="openai", status=503),
        ServiceUnavailable("Unreadable.", provider="openai"),
    ],
)
def test_other_failures_are_no_refusals_of_a_part(error: ModelError) -> None:
    assert attempt_with(REASONING, SCHEMA).after(error) is None


def test_what_was_not_sent_is_not_left_out() -> None:
    assert Attempt().after(refusal()) is None


def test_each_refusal_leaves_out_one_part_and_a_part_once() -> None:
    first = attempt_with(REASONING, SCHEMA).after(refusal("Invalid signature in thinking block"))
    assert first is not None
    assert first.sends(SCHEMA)
    second = first.after(refusal())
    assert second is not None
    assert second.refused == (REASONING, SCHEMA)
    assert second.after(refusal()) is None


def test_a_request_loses_four_parts_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [RequestPart(name=str(number), is_refused=lambda _: True) for number in range(6)]
    monkeypatch.setattr("models_app.vendors.refusals.PARTS", parts)
    attempt, tries = Attempt(), 0
    while True:
        for part in parts:
            attempt.sends(part)
        if (after := attempt.after(refusal())) is None:
            break
        attempt, tries = after, tries + 1

    assert tries == MOST_OMISSIONS == 4


def test_only_what_was_refused_now_is_warned_of() -> None:
    part = RequestPart(name="x", is_refused=lambda _: True, warning="{provider} took {model} bare")

    assert Attempt([part], (part,)).warnings("mine", "m") == ["mine took m bare"]
    assert Attempt([part]).warnings("mine", "m") == []
