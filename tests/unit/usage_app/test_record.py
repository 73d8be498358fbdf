"""A record says of a model call what is known of it."""

from decimal import Decimal

import msgspec
import pytest

from models_app.language_model import Finished, ModelRequest
from models_app.model_calls import Caller, ModelCall, ModelCallStart
from sessions_app.messages import Attachment, UserMessage
from usage_app.price import Price
from usage_app.record import LINE_BYTES, UsageRecord, line_of, read_line, record_of

NOW = 1795341600.0  # 2026-11-22T10:00:00Z


def call(
    *,
    tokens=None,
    outcome="ok",
    first=0.25,
    caller=None,
    request=None,
    model="gpt-5.1",
    owner="default",
):
    start = ModelCallStart(
        provider="openai",
        model=model,
        purpose="chat",
        owner=owner,
        caller=caller,
        request=request,
    )
    return ModelCall(
        start=start,
        outcome=outcome,
        started_at=NOW,
        seconds_to_first_token=first,
        seconds=1.5,
        tokens=tokens or Finished(),
    )


def test_a_call_is_recorded_with_its_tokens_times_and_cost():
    record = record_of(
        call(tokens=Finished("stop", 12, 3, 8, 2, 4), caller=Caller("0123456789", "t1")),
        Price(Decimal("0.0120"), "genai-prices"),
    )

    assert read_line(line_of(record)) == record
    assert (record.t, record.day, record.month) == (
        "2026-11-22T10:00:01.500Z",
        "2026-11-22",
        "2026-11",
    )
    assert (record.session_id, record.turn_id) == ("0123456789", "t1")
    assert (record.input, record.output, record.cached) == (12, 3, 8)
    assert (record.reasoning, record.cache_write) == (2, 4)
    assert (record.ms, record.ttft_ms) == (1500, 250)
    assert (record.cost_usd, record.price_source) == ("0.012", "genai-prices")


def test_what_is_not_known_is_left_out():
    line = line_of(record_of(call(outcome="cancelled", first=None), None))

    assert b"null" not in line
    assert not any(name in line for name in (b"input", b"cost_usd", b"session_id", b"images"))


QUESTION = ModelRequest(
    model="gpt-5.1",
    messages=[UserMessage(content="x" * 400, message_id="a", timestamp="t")],
)


@pytest.mark.parametrize("outcome", ["cancelled", "UPSTREAM_ERROR", "ok"])
def test_what_the_provider_did_not_count_is_estimated_and_marked(outcome):
    stopped = msgspec.structs.replace(call(outcome=outcome, request=QUESTION), streamed=90)
    record = record_of(stopped, None)

    assert (record.input, record.output, record.estimated) == (104, 23, True)
    assert read_line(line_of(record)) == record


def test_what_the_provider_counted_is_not_estimated():
    counted = msgspec.structs.replace(
        call(outcome="UPSTREAM_ERROR", request=QUESTION, tokens=Finished("stop", 7, 3)), streamed=90
    )
    half = msgspec.structs.replace(counted, tokens=Finished(prompt_eval_count=7))

    assert (record_of(counted, None).input, record_of(counted, None).estimated) == (7, False)
    assert (record_of(half, None).input, record_of(half, None).output) == (7, 23)
    assert record_of(half, None).estimated


def test_a_call_that_failed_before_the_model_spoke_used_no_tokens():
    record = record_of(call(outcome="UPSTREAM_ERROR", first=None, request=QUESTION), None)

    assert (record.input, record.output, record.estimated) == (None, None, False)


def test_a_request_that_a_library_makes_is_estimated_by_its_characters():
    start = ModelCallStart(
        provider="ollama", model="m", purpose="summary", owner="default", characters=80
    )
    stopped = msgspec.structs.replace(call(outcome="cancelled", first=None), start=start)

    assert (record_of(stopped, None).input, record_of(stopped, None).estimated) == (20, True)


@pytest.mark.parametrize(
    ("outcome", "first", "unpriced"),
    [
        ("ok", None, True),
        ("cancelled", None, True),
        ("UPSTREAM_ERROR", 0.1, True),
        ("UPSTREAM_ERROR", None, False),
    ],
)
def test_a_call_that_failed_before_the_model_spoke_is_not_unpriced(outcome, first, unpriced):
    assert record_of(call(outcome=outcome, first=first), None).is_unpriced is unpriced


def test_a_call_whose_tokens_were_reported_is_unpriced_even_if_it_failed_without_output():
    values = {"v": 1, "t": "t", "provider": "p", "model": "m", "purpose": "chat", "ms": 1}
    failed = UsageRecord(**values, status="UPSTREAM_ERROR", input=12)
    assert failed.was_answered
    assert failed.is_unpriced


def test_images_that_were_sent_are_counted():
    def attached(name, media_type):
        return Attachment(id=f"sha256:{name}", name=name, media_type=media_type, size=1)

    message = UserMessage(
        content="?",
        message_id="m",
        timestamp="t",
        attachments=(
            attached("a", "image/png"),
            attached("b", "image/png"),
            attached("c", "application/pdf"),
        ),
    )
    request = ModelRequest(model="m", messages=[message], files={"sha256:a": b"", "sha256:c": b""})

    assert record_of(call(request=request), None).images == 1


def test_no_line_is_longer_than_what_is_written_in_one_piece():
    record = record_of(
        call(model="\U0001f600" * 5000, outcome="x" * 5000, caller=Caller("0123456789", "t")), None
    )

    assert len(line_of(record)) < LINE_BYTES


def test_names_have_the_provider_in_front_except_ollamas():
    assert record_of(call(), None).full_name == "openai:gpt-5.1"


def test_a_record_names_its_owner_unless_that_is_the_default_one():
    of_anna = record_of(call(owner="anna"), None)

    assert of_anna.owner == "anna"
    assert read_line(line_of(of_anna)).owner == "anna"
    assert read_line(line_of(record_of(call(), None))).owner == "default"
