"""Messages are put together from pieces: results find their calls, thoughts their answers."""

import pytest

from transfer_app.formats.transcript import Transcript


def test_calls_join_the_answer_before_them_and_results_find_their_calls() -> None:
    made = Transcript()
    made.answer("1", "I ask two.")
    made.call("2", "web.search", {"q": 1})
    made.call("3", "python", {"input": "1"})
    made.result("4", "python", "one")
    made.result("5", "web", "found")
    answer, python, web = made.messages()
    first, second = answer.tool_calls
    assert (python.tool_call_id, web.tool_call_id) == (second.id, first.id)


def test_a_result_that_nobody_asked_for_stays_without_a_call() -> None:
    made = Transcript()
    made.result("1", "memory", "noted")
    (result,) = made.messages()
    assert (result.tool_name, result.tool_call_id) == ("memory", None)


def test_calls_after_a_result_are_a_message_of_their_own() -> None:
    made = Transcript()
    made.call("1", "a", {})
    made.call("2", "b", {})
    made.result("3", "a", "one")
    made.call("4", "c", {})
    made.think("5", "Hm.")
    made.call("6", "d", {})
    made.call("7", "e", {})
    found = made.messages()
    assert [[call.name for call in message.tool_calls] for message in found] == [
        *(["a", "b"], [], ["c"], ["d", "e"]),
    ]
    assert [message.key for message in found] == ["1", "3", "4", "6"]


@pytest.mark.timeout(30)  # took the square of the number: minutes for this one
def test_a_message_of_very_many_calls_is_put_together_once() -> None:
    made = Transcript()
    for number in range(80_000):
        made.call(str(number), "f", {})
    (answer,) = made.messages()
    assert len(answer.tool_calls) == 80_000


def test_thoughts_join_the_next_answer_or_stand_alone() -> None:
    made = Transcript()
    made.think("1", "Hm.")
    made.think("2", "Yes.")
    made.answer("3", "Four.")
    made.think("4", "And now?")
    made.user("5", "Thanks.")
    assert [(m.key, m.content, m.thinking) for m in made.messages()] == [
        ("3", "Four.", "Hm.\n\nYes."),
        ("4", "", "And now?"),
        ("5", "Thanks.", None),
    ]


def test_what_says_nothing_is_left_out() -> None:
    made = Transcript()
    made.user("1", " ")
    made.answer("2", "")
    made.think("3", "\n")
    assert made.messages() == ()
