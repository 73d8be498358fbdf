"""Messages are put together from pieces: results find their calls, thoughts their answers."""

from sessions_app.transfer.formats.transcript import Transcript


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
