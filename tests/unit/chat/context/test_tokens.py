"""Estimates of what a request costs, and how counts correct them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.context.tokens import (
    TOKENS_AROUND_MESSAGE,
    Calibration,
    calibrate,
    estimate_message,
    estimate_messages,
    estimate_request,
    estimate_tools,
)
from sessions_app.messages import AssistantMessage, ToolCall, ToolMessage, ToolSpec, UserMessage
from tests.unit.chat.context import pictures


def said(content="Hello there", at="1"):
    return UserMessage(content=content, message_id=f"u{at}", timestamp=at)


def answer(content="Hi", at="2", **how):
    how = {"model": "m", **how}
    return AssistantMessage(content=content, message_id=f"a{at}", timestamp=at, **how)


def test_four_characters_are_a_token_and_every_message_costs_a_little_more():
    assert estimate_message(said("x" * 400)) == 100 + TOKENS_AROUND_MESSAGE
    assert estimate_messages([said("x" * 4)] * 3) == 3 * (1 + TOKENS_AROUND_MESSAGE)


def test_calls_and_results_count_and_reasoning_does_not():
    call = ToolCall(id="c", name="add", arguments={"a": 1, "b": 2})
    plain = estimate_message(answer("Hi"))

    assert estimate_message(answer("Hi", thinking="x" * 4000)) == plain
    assert estimate_message(answer("Hi", tool_calls=(call,))) > plain
    result = ToolMessage(content="3" * 40, message_id="r", timestamp="3", tool_name="add")
    assert estimate_message(result) == 43 // 4 + TOKENS_AROUND_MESSAGE


def test_schemas_of_tools_count():
    spec = ToolSpec(name="add", description="Add.", parameters={"type": "object"})
    assert estimate_tools([spec]) == (3 + 4 + 17) // 4
    assert estimate_tools([]) == 0


def conversation(rate, *, turns=10, fixed=300, model="m"):
    """Return a conversation whose provider counts ``rate`` tokens where we estimate one."""
    messages, prompt = [], fixed
    for turn in range(turns):
        messages.append(said("x" * 200, at=f"{turn:03}a"))
        prompt += rate * estimate_message(messages[-1])
        reply = answer("y" * 400, at=f"{turn:03}b", model=model, prompt_eval_count=round(prompt))
        messages.append(reply)
        prompt += rate * estimate_message(reply)
    return messages, prompt


@pytest.mark.parametrize("rate", [0.5, 1.0, 1.7])
def test_what_the_provider_counted_corrects_the_estimate(rate):
    messages, _ = conversation(rate)

    calibration = calibrate(messages, "m")

    assert calibration.factor == pytest.approx(rate, rel=0.02)
    assert calibration.answers == 9
    assert calibration.correct(1000) == pytest.approx(1000 * rate, rel=0.02)


def test_another_model_measures_otherwise():
    messages, _ = conversation(2.0, model="other")

    assert calibrate(messages, "m") == Calibration()
    assert calibrate(messages, "m").factor == 1.0


def test_too_little_text_says_nothing_about_the_rate():
    few = [answer("a", at="1", prompt_eval_count=10), said("b"), answer("c", prompt_eval_count=25)]
    assert calibrate(few, "m").factor == 1.0


def test_a_history_that_was_cut_between_two_counts_does_not_spoil_the_rate():
    messages, _ = conversation(1.0, turns=6)
    shrunk = answer("z" * 400, at="900", prompt_eval_count=50)

    assert calibrate([*messages, said(at="899"), shrunk], "m").factor == pytest.approx(1, rel=0.05)


@given(counted=st.integers(-10, 10**9), estimated=st.integers(-10, 10**9))
def test_a_correction_is_never_wild(counted, estimated):
    assert 0.25 <= Calibration(counted=counted, estimated=estimated).factor <= 4


def test_a_request_costs_what_was_counted_last_and_what_came_after():
    history = [said(), answer("Hi", prompt_eval_count=100, eval_count=20), said("x" * 40)]

    estimate = estimate_request(history, (), model="m")

    assert (estimate.counted, estimate.estimated) == (120, 14)
    assert estimate.tokens == 134


def test_reasoning_was_counted_and_is_not_sent_again():
    thought = answer("Hi", prompt_eval_count=100, eval_count=500, thinking="Hm." * 400)

    assert estimate_request([said(), thought], (), model="m").tokens == 100 + estimate_message(
        thought
    )


def test_a_count_of_another_model_or_another_beginning_is_none():
    history = [said(), answer("Hi", at="2", prompt_eval_count=9000, eval_count=20), said(at="3")]
    tools = [ToolSpec(name="add", description="", parameters={})]
    everything = estimate_messages(history) + estimate_tools(tools)

    assert estimate_request(history, tools, model="other").tokens == everything
    assert estimate_request(history, tools, model="m", since="2").tokens == everything
    assert estimate_request(history, tools, model="m", since="1").counted == 9020


def test_a_count_of_nothing_is_no_count():
    history = [said("x" * 4000), answer("Yes.", prompt_eval_count=0, eval_count=2)]

    estimate = estimate_request(history, [], model="m")

    assert estimate.counted == 0
    assert estimate.tokens > 1000


def test_the_prediction_of_a_long_conversation_is_close():
    messages, prompt = conversation(1.4, turns=40)
    *earlier, last = messages

    estimate = estimate_request(earlier, (), model="m", calibration=calibrate(earlier, "m"))

    assert estimate.tokens == pytest.approx(last.prompt_eval_count, rel=0.03)
    assert prompt > last.prompt_eval_count


IMAGES = (pictures.image(),)


def looked_at(tokens_of_image, *, rate=1.0, turns=10, files=IMAGES):
    """Return a conversation with an image in every second question, as its provider counts it."""
    messages, prompt = [], 300
    for turn in range(turns):
        attachments = files if turn % 2 else ()
        messages.append(pictures.asked(turn, *attachments, content="x" * 800))
        prompt += rate * estimate_message(said("x" * 800)) + tokens_of_image * len(attachments)
        reply = pictures.answered(turn, "y" * 400, prompt_eval_count=round(prompt))
        messages.append(reply)
        prompt += rate * estimate_message(reply)
    return messages, prompt


@pytest.mark.parametrize("rate", [0.6, 1.5])
@pytest.mark.parametrize("counted", [260, 1000, 5000])
def test_images_are_measured_apart_and_do_not_spoil_the_measure_of_texts(counted, rate):
    messages, _ = looked_at(counted, rate=rate)

    calibration = calibrate(messages, "m")

    assert calibration.factor == pytest.approx(rate, rel=0.02)
    assert calibration.correct_files(1000) == pytest.approx(counted, rel=0.02)
    assert calibration.correct_files(0) == 0


def test_what_an_image_costs_is_predicted_from_earlier_ones():
    messages, prompt = looked_at(2500, turns=9)
    messages.append(pictures.asked(9, pictures.image(), content="x" * 800))
    calibration = calibrate(messages, "m")

    estimate = estimate_request(messages, (), model="m", calibration=calibration, vendor="")

    assert estimate.tokens == pytest.approx(prompt + 204 + 2500, rel=0.01)
    assert estimate_request(messages, (), model="m", calibration=calibration).tokens < prompt + 300


def test_pdfs_and_what_a_model_does_not_take_measure_no_images():
    with_pdfs, _ = looked_at(9000, files=(pictures.pdf(), pictures.image()))
    unseen, _ = looked_at(0)

    assert calibrate(with_pdfs, "m").estimated_files == 0
    assert calibrate(with_pdfs, "m").factor == pytest.approx(1, rel=0.02)
    blind = calibrate(unseen, "m", rules=pictures.BLIND)
    assert (blind.estimated_files, blind.answers) == (0, 9)


def test_counts_of_which_images_were_left_out_in_between_measure_nothing():
    messages, _ = looked_at(1000)
    fewer = [
        msgspec.structs.replace(m, prompt_eval_count=m.prompt_eval_count - 150)
        if m.role == "assistant" and m.timestamp > "006"
        else m
        for m in messages
    ]

    assert calibrate(fewer, "m", since="006a").factor == pytest.approx(1, rel=0.02)
    assert calibrate(fewer, "m").factor < 0.95


def test_a_text_file_is_counted_as_text():
    plain = estimate_message(said("Hi"))
    attached = pictures.asked(1, pictures.text("notes.txt", size=4000), content="Hi")
    assert estimate_message(attached) == plain + (4000 + len("notes.txt") + 20) // 4
    assert estimate_message(pictures.asked(1, pictures.image(), content="Hi")) == plain


@given(counted=st.integers(-10, 10**9), estimated=st.integers(-10, 10**9))
def test_a_correction_of_images_is_never_wild(counted, estimated):
    found = Calibration(counted_files=counted, estimated_files=estimated)
    assert 0.125 <= found.file_factor <= 8
    assert found.factor == 1.0
