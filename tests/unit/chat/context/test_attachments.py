"""Which images and files a request sends: the newest that fit; of the others their names."""

import msgspec
import pytest

from chat.context.attachment_costs import AttachmentRules
from chat.context.attachments import files_to_leave_out, with_mentions
from chat.context.tokens import NOT_CALIBRATED
from sessions_app.messages import SystemMessage, ToolCall
from tests.unit.chat.context.pictures import (
    ALL,
    BLIND,
    NO_PDF,
    answered,
    asked,
    image,
    names_of,
    pdf,
    plan,
    result,
    text,
)

MEBIBYTE = 1 << 20


def carried_out(messages, **how):
    """Plan, do what the plan asks for, and plan again; return the state and the plan."""
    first = plan(messages, **how)
    state = first.compaction.state
    return state, plan(messages, state=state, **how)


def gallery(turns, *, size=50_000, content="What is it?"):
    """Return a conversation with an image in every question; the last one waits for its answer."""
    messages = []
    for turn in range(turns):
        messages += [
            asked(turn, image(f"{turn}.png", size=size), content=content),
            answered(turn),
        ]
    return messages[:-1]


def test_what_fits_is_sent_as_it_is():
    messages = [*gallery(3), answered(3), asked(4, pdf(), text())]

    planned = plan(messages)

    assert planned.messages == messages
    assert planned.compaction is None
    assert planned.dropped == []


def test_a_blind_model_is_told_the_names_and_gets_texts_still():
    messages = [
        asked(1, image("cat.png"), image("dog.png"), text("notes.txt")),
        answered(1),
        asked(2, image("cow.png"), content=""),
    ]

    first, _, last = plan(messages, rules=BLIND).messages

    assert first.content == "What is it?\n\n[image cat.png left out]\n[image dog.png left out]"
    assert names_of([first]) == ["notes.txt"]
    assert (last.content, last.attachments) == ("[image cow.png left out]", ())
    assert messages[0].content == "What is it?"


def test_a_pdf_is_mentioned_to_a_model_that_takes_images_only():
    (sent,) = plan([asked(1, pdf(), image())], rules=NO_PDF).messages

    assert sent.content.endswith("[file report.pdf left out]")
    assert names_of([sent]) == ["cat.png"]


def test_an_image_that_a_vendor_finds_too_wide_is_mentioned_and_the_others_are_sent():
    messages = [asked(1, image("wall.png", width=9000), image()), answered(1), asked(2)]

    first, *_ = plan(messages, rules=AttachmentRules(vendor="anthropic")).messages

    assert first.content.endswith("[image wall.png left out]")
    assert names_of([first]) == ["cat.png"]


def test_images_of_results_are_mentioned_too():
    calls = (ToolCall(id="c", name="look", arguments={}),)
    messages = [asked(1), answered(1, "", tool_calls=calls), result(1, image())]

    assert plan(messages).messages[-1] == messages[-1]
    assert plan(messages, rules=BLIND).messages[-1].content == (
        "See for yourself.\n\n[image cat.png left out]"
    )


def test_images_of_old_messages_go_first_and_no_message_does():
    messages = gallery(10)

    first = plan(messages)
    state, planned = carried_out(messages)

    assert first.compaction.messages == ()
    assert not first.compaction.summarize
    assert (state.count, state.files_until, state.created_at) == (0, "u6", "950")
    assert len(planned.messages) == len(messages)
    assert planned.dropped == []
    assert names_of(planned.messages) == ["7.png", "8.png", "9.png"]
    assert planned.messages[0].content == "What is it?\n\n[image 0.png left out]"
    assert planned.compaction is None
    assert planned.estimate.tokens <= 3500


def test_the_beginning_stays_the_same_until_images_are_left_out_again():
    state, before = carried_out(gallery(10))

    after = plan(gallery(12), state=state)
    again = plan(gallery(20), state=state)

    assert after.compaction is None
    assert list(after.messages[:19]) == list(before.messages)
    assert again.compaction.state.files_until == "u16"


def test_messages_go_where_leaving_out_images_is_not_enough():
    messages = gallery(30, content="x" * 1200)

    first = plan(messages, name="summarize_history")
    compaction = first.compaction
    state = msgspec.structs.replace(compaction.state, summary="They looked.", model="m")
    planned = plan(messages, state=state, name="summarize_history")

    assert compaction.summarize
    assert compaction.messages[0] == messages[0]
    assert (state.count > 0, state.files_until) == (True, "u28")
    assert names_of(planned.messages) == ["29.png"]
    assert planned.estimate.tokens <= 3500
    assert planned.compaction is None


def test_a_summary_outlives_images_that_are_left_out_later():
    messages = gallery(30, content="x" * 1200)
    state = msgspec.structs.replace(
        plan(messages, name="summarize_history").compaction.state, summary="They looked."
    )
    longer = [*messages, answered(30)]
    for turn in range(31, 36):
        longer += [asked(turn, image(f"{turn}.png")), answered(turn)]

    later = plan(longer[:-1], state=state, name="summarize_history").compaction

    assert later.state == msgspec.structs.replace(state, files_until=later.state.files_until)
    assert later.state.files_until == "u34"
    assert not later.summarize


def test_a_long_turn_leaves_out_what_its_first_tools_showed():
    messages = [asked(1, image("question.png"))]
    for number in range(20):
        calls = (ToolCall(id=f"c{number}", name="look", arguments={}),)
        messages += [
            answered(100 + number, "", tool_calls=calls),
            result(100 + number, image(f"{number}.png"), call_id=f"c{number}"),
        ]

    _, planned = carried_out(messages)

    names = names_of(planned.messages)
    assert names[0] == "question.png"
    assert names[-1] == "19.png"
    assert len(names) == 3
    assert len(planned.messages) == len(messages)


def test_results_that_the_model_has_not_seen_keep_their_images():
    calls = tuple(ToolCall(id=f"c{number}", name="look", arguments={}) for number in range(9))
    seen = [
        asked(1),
        answered(1, "", tool_calls=calls[:1]),
        result(1, image("old.png"), call_id="c0"),
    ]
    results = [
        result(number, image(f"{number}.png"), call_id=f"c{number}") for number in range(2, 9)
    ]

    _, planned = carried_out([*seen, answered(2, "", tool_calls=calls[2:]), *results])

    assert names_of(planned.messages) == [f"{number}.png" for number in range(2, 9)]


def test_messages_that_go_later_begin_after_the_prompt_and_bring_no_images_back():
    prompt = SystemMessage(content="Be brief.", message_id="s", timestamp="")
    state, _ = carried_out([prompt, *gallery(10)])
    longer = [prompt, *gallery(10), answered(10)]
    for turn in range(11, 30):
        longer += [asked(turn, content="x" * 3000), answered(turn)]

    later = plan(longer[:-1], state=state).compaction.state

    assert (later.first_id, later.files_until) == ("u0", "u9")
    planned = plan(longer[:-1], state=later)
    assert planned.messages[0] == prompt
    assert names_of(planned.messages) == []


def test_messages_that_go_without_images_leave_the_images_out_that_are():
    messages = gallery(10)
    state, _ = carried_out(messages)
    for turn in range(10, 30):
        messages += [answered(turn - 1), asked(turn, content="x" * 3000)]
    after_images = msgspec.structs.replace(state, files_until="u9")

    compaction = plan(messages, state=after_images).compaction

    assert compaction.state.count
    assert compaction.state.files_until == "u9"


def test_what_was_counted_of_images_does_not_hide_what_they_cost_when_sent_anew():
    messages = [*gallery(8), answered(8, prompt_eval_count=1000, eval_count=10)]
    messages.append(asked(9, content="x" * 26_000))

    state = plan(messages).compaction.state

    assert (state.count, state.files_until) == (0, "u7")


def test_a_count_after_images_were_left_out_spoils_no_measure():
    messages, prompt = [], 300
    for turn in range(6):
        prompt += 300 + (1000 if turn == 0 else 0) - (150 if turn == 4 else 0)
        messages += [
            asked(turn, *([image()] if turn == 0 else []), content="x" * 1150),
            answered(turn, prompt_eval_count=prompt),
        ]
    state = plan(gallery(10)).compaction.state
    state = msgspec.structs.replace(state, files_until="u0", created_at="004a")

    assert plan(messages, state=state).calibration.factor == pytest.approx(1, rel=0.02)
    assert plan(messages).calibration.factor < 0.95


def test_a_window_that_holds_few_images_keeps_those_of_the_question():
    images = [image(f"{number}.png") for number in range(20)]

    planned = plan([asked(1, image("old.png")), answered(1), asked(2, *images)], limit=4000)

    state = planned.compaction.state
    assert state.files_until == "u1"
    again = plan([asked(1, image("old.png")), answered(1), asked(2, *images)], state=state)
    assert names_of(again.messages) == [each.name for each in images]


@pytest.mark.parametrize("limit", [None, 10**9])
def test_what_a_vendor_refuses_anyway_is_left_out_whatever_the_strategy(limit):
    rules = AttachmentRules(vendor="anthropic")
    few, many = gallery(4, size=5 * MEBIBYTE), gallery(8, size=5 * MEBIBYTE)

    assert plan(few, limit=limit, name="none", rules=rules).compaction is None
    state, planned = carried_out(many, limit=limit, name="none", rules=rules)
    assert names_of(planned.messages) == ["6.png", "7.png"]
    assert planned.compaction is None
    assert plan(many, limit=limit, name="none").compaction is None
    assert names_of(carried_out(gallery(101), limit=limit, rules=rules)[1].messages)[0] == "51.png"
    assert state.strategy == "none"


def test_no_strategy_leaves_out_nothing_for_the_sake_of_the_window():
    assert plan(gallery(10), name="none").compaction is None
    assert plan(gallery(10), limit=None).compaction is None


def test_what_was_left_out_is_chosen_anew_where_its_message_or_strategy_changes():
    messages = gallery(10)
    state, _ = carried_out(messages)

    assert plan(messages, state=state).state is state
    assert plan(messages[:3], state=state).state is None
    assert plan(messages, state=state, name="none").state is None
    assert names_of(plan(messages[:3], state=state).messages) == ["0.png", "1.png"]


def test_a_summary_holds_where_only_the_images_are_chosen_anew():
    messages = gallery(30, content="x" * 1200)
    state = plan(messages).compaction.state
    gone = msgspec.structs.replace(state, files_until="gone")

    planned = plan(messages, state=gone)

    assert planned.state == msgspec.structs.replace(state, files_until=None)
    assert names_of(planned.messages) == ["29.png"]


def test_a_text_is_neither_mentioned_nor_left_out():
    messages = [asked(1, text(size=20_000)), answered(1), asked(2)]

    assert files_to_leave_out(messages, ALL, NOT_CALIBRATED, tokens=10**6) is None
    assert with_mentions(messages, BLIND, left_out={"u1"}) == messages
    assert plan(messages).estimate.tokens > 5000


def test_a_text_file_is_dropped_with_its_message_only():
    messages = []
    for turn in range(4):
        messages += [asked(turn, text(size=10_000)), answered(turn)]

    _, planned = carried_out(messages[:-1])

    assert planned.estimate.tokens <= 3500
    assert planned.dropped[0].message_id == "u0"


@pytest.mark.timeout(30)  # took the square of the number: minutes for these
def test_very_many_files_of_a_message_are_mentioned_at_once():
    first, notes = image(), text()
    files = [msgspec.structs.replace(first, id=f"sha256:{number:064x}") for number in range(60_000)]
    [message] = with_mentions([asked(1, notes, *files, notes)], BLIND)
    assert message.attachments == (notes, notes)
    assert message.content.count("cat.png") == len(files)
