from agents_app.script import AgentScript
from sessions_app.messages import AssistantMessage, UserMessage


def said(role, content):
    return role(content=content, message_id=content, timestamp="2026")


def make():
    return AgentScript(planning="PLAN", execution="ACT")


HISTORY = [said(UserMessage, "do it"), said(AssistantMessage, "so")]


def test_while_planning_the_prompt_joins_the_last_user_message_and_there_are_no_tools():
    script = make()
    sent = script.request(HISTORY)
    assert [message.content for message in sent] == ["do it\n\nPLAN", "so"]
    assert not script.offers_tools()
    assert HISTORY[0].content == "do it"


def test_after_the_plan_the_execution_prompt_is_a_last_message_of_its_own():
    script = make()
    assert script.goes_on(asked_for_tools=False)
    assert script.offers_tools()
    assert [message.content for message in script.request(HISTORY)] == ["do it", "so", "ACT"]


def test_only_the_first_answer_of_the_execution_may_be_an_announcement():
    script = make()
    script.goes_on(asked_for_tools=False)
    assert script.goes_on(asked_for_tools=False)
    assert not script.goes_on(asked_for_tools=False)


def test_an_agent_that_has_used_tools_is_done_with_its_next_answer():
    script = make()
    script.goes_on(asked_for_tools=False)
    assert not script.goes_on(asked_for_tools=True)
    assert not script.goes_on(asked_for_tools=False)


def test_a_resumed_run_plans_no_more_and_announces_no_more():
    script = make()
    script.resume()
    assert script.offers_tools()
    assert not script.goes_on(asked_for_tools=False)
