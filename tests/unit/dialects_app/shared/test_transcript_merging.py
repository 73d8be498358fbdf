"""What a saved conversation lacks of a client's history."""

import pytest

from dialects_app.shared.transcript_merging import Exchange, merge, own_words
from sessions_app.ids_and_clock import new_message_id, utc_now
from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from sessions_app.session import make_session


def of(kind, content, **fields):
    return kind(content=content, message_id=new_message_id(), timestamp=utc_now(), **fields)


def user(content, **fields):
    return of(UserMessage, content, **fields)


def model(content="", *calls, **fields):
    asked = tuple(ToolCall(id=each, name="Read", arguments={}, client_side=True) for each in calls)
    return of(AssistantMessage, content, tool_calls=asked, **fields)


def result(call, content="42"):
    return of(ToolMessage, content, tool_name="Read", tool_call_id=call)


def talk(*texts):
    """Return messages of a person and of a model ("=…")."""
    return [model(text[1:]) if text.startswith("=") else user(text) for text in texts]


def saved(*exchanges):
    """Return a session with these exchanges: histories with their answers at the end."""
    session = make_session("0123456789", "qwen3:14b", now=utc_now())
    for exchange in exchanges:
        session = add(session, exchange)
    return session


def add(session, messages, count=1):
    """Merge messages of which the last ones are the answer."""
    return merge(session, Exchange(messages[:-count], messages[-count:]), now=utc_now())


def shown(session):
    return [
        message.content or [each.id for each in getattr(message, "tool_calls", ())]
        for message in session.messages
    ]


def variants(session):
    return [
        [message.content for variant in each.variants for message in variant]
        for each in session.messages
        if isinstance(each, AssistantMessage)
    ]


@pytest.mark.parametrize(
    ("exchanges", "expected"),
    [
        ([["a", "=A"], ["a", "=A", "b", "=B"]], "a A b B"),
        ([["go", "=ok"], ["go", "=ok", "go", "=ok"]], "go ok go ok"),
        ([["go", "=ok"], ["go", "=ok", "go", "=ok"], ["go", "=ok", "go", "=ok"]], "go ok go ok"),
        ([["a", "=A"], ["record", "b", "=B"]], "a A record b B"),
        ([["a", "=A", "b", "=B", "c", "=C"]], "a A b B c C"),
        ([["a", "=A"], ["a", "=other form", "b", "=B"]], "a A b B"),
        ([["a", "=A"], ["other form", "=A", "b", "=B"]], "a A b B"),
        ([["a", "=A"], ["side", "=S"], ["a", "=A", "b", "=B"]], "a A side S b B"),
        # Codex keeps the words of a person when it compacts.
        ([["a", "=A"], ["a", "=A", "b", "=B"], ["a", "b", "c", "=C"]], "a A b B c C"),
        ([["a", "=A"], ["a", "=A", "go", "=1"], ["a", "go", "go", "=2"]], "a A go 1 go 2"),
        ([["a", "=A"], ["a", "=A", "go", "=1"], ["record", "go", "=2"]], "a A go 1 record go 2"),
        # Clients go back.
        (
            [
                ["a", "=A", "b", "=B", "c", "=C"],
                ["a", "=A", "d", "=D"],
                ["a", "=A", "d", "=D", "e", "=E"],
            ],
            "a A b B c C d D e E",
        ),
        ([["a", "=A"], ["a", "=A", "b", "=B"], ["a", "=2"]], "a A b B a 2"),
        ([["a", "=A"], ["a", "=A", "b", "=ok"], ["a", "=ok"]], "a A b ok a ok"),
        ([["a", "=A", "yes", "=1", "b", "=B"], ["a", "=A", "b", "=2"]], "a A yes 1 b B b 2"),
        # The process of the first request is slower.
        ([["a", "=A", "b", "=B"], ["a", "=A"]], "a A b B"),
    ],
)
def test_a_session_gets_what_it_lacks(exchanges, expected):
    session = saved(*(talk(*each) for each in exchanges))
    assert shown(session) == expected.split()


def test_an_answer_to_the_same_request_replaces_the_one_before():
    session = saved(talk("a", "=1"), talk("a", "=2"), talk("a", "=3"))
    assert shown(session) == ["a", "3"]
    assert variants(session) == [["2", "1"]]


def test_a_whole_answer_is_not_replaced_by_one_that_broke_off():
    session = saved(talk("a", "=1"), [user("a"), model("x", interrupted=True)])
    assert (shown(session), variants(session)) == (["a", "1"], [["x"]])


def test_a_step_of_a_tool_loop_that_is_repeated_is_one_step():
    begun = [user("a"), model("", "c1")]
    session = saved(begun, [*begun, result("c1"), model("x", interrupted=True)])
    session = add(session, [*begun, result("c1"), model("42.")])
    assert shown(session) == ["a", ["c1"], "42", "42."]
    assert variants(session) == [[], ["x"]]


def test_results_that_a_client_shortens_later_are_known_by_their_call():
    begun = [user("a"), model("", "c1"), result("c1")]
    session = saved(begun[:2], [*begun, model("", "c2")])
    later = [*begun[:2], result("c1", "cleared"), model("", "c2"), result("c2"), model("Done.")]
    assert shown(add(session, later)) == ["a", ["c1"], "42", ["c2"], "42", "Done."]


def test_a_result_has_its_call_though_the_answer_before_is_missing():
    session = saved([user("a"), model("lost")])
    session = add(session, [user("a"), model("", "c1"), result("c1"), model("Done.")])
    assert shown(session) == ["a", "lost", ["c1"], "42", "Done."]


def test_a_persons_turn_in_between_stays_there_with_its_tools():
    own = ToolCall(id="s1", name="time", arguments={})
    session = saved(talk("a", "=A"), talk("mine", "=yours"))
    noon = [of(AssistantMessage, "", tool_calls=(own,)), result("s1", "noon"), model("Noon.")]
    session = add(session, [user("a"), model("A"), user("time?"), *noon], count=3)
    session = add(session, [user("a"), model("A"), user("time?"), model("Noon."), *talk("b", "=B")])
    assert shown(session) == [
        *("a", "A", "mine", "yours", "time?", ["s1"], "noon", "Noon.", "b", "B"),
    ]


def test_the_beginning_of_an_answer_that_the_client_gave_is_a_part_of_it():
    begun = [user("a"), model("Once ")]
    session = saved([*begun, model("upon")], [*begun, model("more")])
    assert (shown(session), variants(session)) == (["a", "Once more"], [["Once upon"]])


def test_equal_words_with_other_files_are_others():
    first, second = (
        user("see", attachments=(Attachment(id=each, name=each, media_type="x", size=1),))
        for each in ("f1", "f2")
    )
    session = saved([first, model("A")])
    assert shown(add(session, [first, model("A"), second, model("B")])) == ["see", "A", "see", "B"]


def test_a_long_conversation_is_compared_by_its_end():
    history = [message for at in range(1500) for message in talk(f"{at}", f"={at}")]
    session = add(saved(), history)
    assert shown(add(session, [*history, *talk("b", "=B")]))[-4:] == ["1499", "1499", "b", "B"]


def test_only_a_text_that_a_client_added_is_none_of_a_person():
    pasted = "<system-reminder>a</system-reminder> is what it said: <system-reminder>"
    added = ["<system-reminder>\nBe kind.\n</system-reminder>\n", "<environment_context/>"]
    assert own_words([added[0], "Hi", pasted]) == ["Hi", pasted]
    assert own_words(["<environment_context>x</environment_context>"]) == []
