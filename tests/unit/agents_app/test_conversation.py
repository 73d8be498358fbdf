"""What a conversation says to an agent that answers it."""

import pytest

from agents_app.conversation import (
    CallResult,
    EarlierRun,
    read_conversation,
    said_since_instruction,
)
from sessions_app.messages import (
    INTERRUPTED_RESULT,
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    mark_cancelled,
)


def system(content):
    return SystemMessage(content=content, message_id="s", timestamp="t")


def user(content):
    return UserMessage(content=content, message_id="u", timestamp="t")


def assistant(content, **more):
    return AssistantMessage(content=content, message_id="a", timestamp="t", **more)


def called(name="agent"):
    return assistant("", tool_calls=[ToolCall(id="c", name=name, arguments={"x": 1})])


def result(content, name="agent", *, failed=False):
    return ToolMessage(
        content=content, message_id="t", timestamp="t", tool_name=name, failed=failed
    )


REPORT = "Session ID: 0123456789\n\nThe plan.\n\nNoted."
ANSWERED = [user("Note milk."), called(), result(REPORT), assistant("Noted.")]


def test_one_message_is_the_instruction_as_it_is():
    read = read_conversation([user("Note milk.")])
    assert read.instruction(goes_on=False) == "Note milk."
    assert read.result is None
    assert read.earlier is None


def test_messages_that_were_said_one_after_the_other_are_asked_together():
    read = read_conversation([*ANSWERED, user("Also eggs."), user("And tea.")])
    assert read.asked == "Also eggs.\n\nAnd tea."


def test_an_agent_that_goes_on_is_told_the_new_message_alone():
    read = read_conversation([*ANSWERED, user("Also eggs.")])
    assert read.earlier == EarlierRun("0123456789", "Noted.")
    assert read.instruction(goes_on=True) == "Also eggs."


def test_an_agent_that_begins_anew_is_told_what_was_said_and_nothing_of_its_own_calls():
    read = read_conversation([system("Be brief."), *ANSWERED, user("Also eggs.")])
    assert read.instruction(goes_on=False) == (
        "<instructions>\nBe brief.\n</instructions>\n\n"
        "<conversation>\n"
        "<user>\nNote milk.\n</user>\n\n<assistant>\nNoted.\n</assistant>\n"
        "</conversation>\n\n"
        "Also eggs."
    )


def test_calls_of_other_tools_and_their_results_are_told():
    before = [user("2 + 2?"), called("add"), result("4", "add"), assistant("Four.")]
    told = read_conversation([*before, user("Note it.")]).instruction(goes_on=False)
    assert '<tool_call>\nadd({"x":1})\n</tool_call>\n\n<tool_result>\n4\n</tool_result>' in told


def test_a_long_conversation_is_told_without_its_middle():
    before = [user("first"), assistant("x" * 200_000), user("last"), assistant("yes")]
    told = read_conversation([*before, user("Go on.")]).instruction(goes_on=False)
    assert len(told) < 70_000
    assert all(word in told for word in ("first", "[cut: ", "last", "Go on."))


@pytest.mark.parametrize(
    ("content", "failed", "expected"),
    [
        (REPORT, False, CallResult("0123456789", None)),
        (f"{REPORT}\n\n[The agent stopped: me]", False, CallResult("0123456789", None)),
        (f"{REPORT}\n\n[The agent stopped: no\nnet]", True, CallResult("0123456789", "no\nnet")),
        (REPORT, True, CallResult("0123456789", REPORT)),
        ("Error: There is no disk.", True, CallResult(None, "There is no disk.")),
        (INTERRUPTED_RESULT, True, None),
        ("The call was cancelled.", True, None),
    ],
)
def test_the_result_of_the_call_is_recognized_and_a_lost_one_is_none(content, failed, expected):
    messages = [user("Note milk."), called(), result(content, failed=failed)]
    assert read_conversation(messages).result == expected


@pytest.mark.parametrize(
    ("content", "failure"),
    [
        ("[The agent stopped: a] [The agent stopped: b]", "a] [The agent stopped: b"),
        ("[The agent stopped: ]", ""),
        ("[The agent stopped: a] b", None),
        ("The agent stopped: a]", None),
    ],
)
def test_the_reason_of_a_stop_is_what_follows_its_first_mark_up_to_the_end(content, failure):
    said = f"Session ID: 0123456789\n\n{content}"
    messages = [user("Note milk."), called(), result(said, failed=True)]
    expected = said if failure is None else failure
    assert read_conversation(messages).result == CallResult("0123456789", expected)


@pytest.mark.timeout(30)  # took the square of the length: hours for this one
def test_marks_of_a_stop_without_an_end_are_read_once():
    said = "Session ID: 0123456789\n\n" + "[The agent stopped: " * 400_000
    messages = [user("Note milk."), called(), result(said, failed=True)]
    assert read_conversation(messages).result == CallResult("0123456789", said)


def test_results_of_other_tools_and_of_earlier_messages_are_not_the_agents():
    other = [user("Note milk."), called("add"), result(REPORT, "add")]
    assert read_conversation(other).result is None
    assert read_conversation([*ANSWERED, user("Also eggs.")]).result is None


@pytest.mark.parametrize(
    "between",
    [
        [user("And the weather?"), assistant("Fine.")],
        [user("x"), called(), result("The call was cancelled.")],
        [user("x"), called(), result("Error: no"), assistant("no")],
    ],
)
def test_a_run_that_did_not_give_the_last_answer_is_not_gone_on_with(between):
    assert read_conversation([*ANSWERED, *between, user("Also eggs.")]).earlier is None


def test_the_text_is_what_was_said_after_the_plan():
    said = said_since_instruction(
        [
            user("old"),
            assistant("old answer", eval_count=1000),
            user("Note milk."),
            assistant("1. Note it.", prompt_eval_count=10, eval_count=3),
            assistant("I note it.", prompt_eval_count=20, tool_calls=called().tool_calls),
            result("noted milk", "note"),
            assistant("Noted.", prompt_eval_count=30, eval_count=4),
        ]
    )
    assert (said.plan, said.text) == ("1. Note it.", "I note it.\n\nNoted.")
    assert (said.end.prompt_eval_count, said.end.eval_count) == (60, 7)
    assert said.is_complete


@pytest.mark.parametrize(
    "after",
    [
        [],
        [assistant("plan")],
        [assistant("plan"), assistant("part", interrupted=True)],
        [assistant("plan"), assistant(mark_cancelled("part"), cancelled=True)],
        [assistant("plan"), assistant("I call", tool_calls=called().tool_calls)],
    ],
)
def test_what_is_left_of_an_answer_is_none(after):
    assert not said_since_instruction([user("Note milk."), *after]).is_complete


def test_a_cancelled_answer_is_told_without_its_mark():
    after = [assistant("plan"), assistant(mark_cancelled("part"), cancelled=True)]
    assert said_since_instruction([user("x"), *after]).text == "part"


def test_texts_are_compared_without_white_space():
    said = said_since_instruction([user("x"), assistant("plan"), assistant("a\n\nb ")])
    assert said.equals(" a b")
    assert not said.equals("a c")
