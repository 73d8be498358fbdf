"""Whatever is attached to a conversation: it fits, in order, and nothing goes unnamed."""

from hypothesis import given
from hypothesis import strategies as st

from chat.context.attachment_costs import LIMITS, AttachmentRules
from chat.context.attachments import files_to_leave_out
from chat.context.strategy import STRATEGIES, strategy_of
from chat.context.tokens import NOT_CALIBRATED
from tests.unit.chat.context.pictures import (
    BLIND,
    answered,
    asked,
    image,
    names_of,
    pdf,
    plan,
    text,
)

MEBIBYTE = 1 << 20

files = st.builds(
    image,
    st.text("abc", min_size=1, max_size=255),
    width=st.integers(1, 4000),
    height=st.integers(1, 4000),
    size=st.integers(1, 20 * MEBIBYTE),
) | st.builds(pdf, size=st.integers(1, 10**6))
vendors = st.sampled_from(["", *LIMITS])
turns = st.lists(st.lists(files | st.builds(text), max_size=3), min_size=1, max_size=12)


def conversation(attachments):
    messages = []
    for turn, given_files in enumerate(attachments):
        messages += [asked(turn, *given_files), answered(turn)]
    return messages[:-1]


def binary_names(messages):
    return [name for name in names_of(messages) if name != "notes.txt"]


@given(turns, vendors, st.sampled_from(sorted(STRATEGIES)), st.integers(1, 40_000))
def test_it_fits_unless_nothing_is_left_to_leave_out(attachments, vendor, name, limit):
    messages = conversation(attachments)
    rules = AttachmentRules(vendor=vendor)
    state = None
    for _ in range(3):
        planned = plan(messages, state=state, name=name, limit=limit, rules=rules)
        if planned.compaction is None:
            break
        state = planned.compaction.state
    assert planned.compaction is None

    assert planned.messages[-1] == messages[-1]
    old = binary_names(planned.messages[:-1])
    if old:
        sizes = [each.size for m in planned.messages for each in m.attachments]
        assert not (planned.is_too_long and strategy_of(name).shortens)
        assert rules.limits.size is None or sum(sizes) <= rules.limits.size + 400 * len(sizes)
    everything = binary_names(messages)
    assert (
        binary_names(planned.messages)
        == everything[len(everything) - len(old) - (len(binary_names(messages[-1:]))) :]
    )


@given(turns, vendors, st.integers(0, 50_000), st.integers(0, 50_000))
def test_who_has_to_leave_out_more_leaves_out_what_others_do_and_more(
    attachments, vendor, some, others
):
    messages = conversation(attachments)
    rules = AttachmentRules(vendor=vendor)
    places = {None: -1, **{message.message_id: at for at, message in enumerate(messages)}}

    less = files_to_leave_out(messages, rules, NOT_CALIBRATED, tokens=min(some, others))
    more = files_to_leave_out(messages, rules, NOT_CALIBRATED, tokens=max(some, others))

    assert places[less] <= places[more] < len(messages) - 1


@given(turns, vendors, st.integers(1, 40_000))
def test_what_is_left_out_stays_so_as_a_conversation_goes_on(attachments, vendor, limit):
    messages = conversation(attachments)
    rules = AttachmentRules(vendor=vendor)
    state, gone = None, 0
    for end in range(1, len(messages) + 1, 2):
        for _ in range(3):
            planned = plan(messages[:end], state=state, limit=limit, rules=rules)
            if planned.compaction is None:
                break
            state = planned.compaction.state
        left = len(binary_names(messages[:end])) - len(binary_names(planned.messages))
        assert left >= gone
        gone = left


@given(turns, st.integers(1, 40_000))
def test_what_a_model_does_not_take_is_never_sent_and_always_named(attachments, limit):
    messages = conversation(attachments)

    planned = plan(messages, limit=limit, rules=BLIND)

    assert binary_names(planned.messages) == []
    for message in planned.messages:
        named = message.content.count(" left out]")
        (whole,) = [m for m in messages if m.message_id == message.message_id]
        assert named == len(binary_names([whole]))
