from chat.turn.phases import PhasePrompts
from sessions_app.messages import AssistantMessage, UserMessage


def said(role, content):
    return role(content=content, message_id=content, timestamp="2026")


def make():
    return PhasePrompts(planning="PLAN", execution="ACT")


HISTORY = [said(UserMessage, "do it"), said(AssistantMessage, "so")]


def test_while_planning_the_prompt_joins_the_last_user_message():
    phases = make()
    sent = phases.planning(HISTORY)
    assert [message.content for message in sent] == ["do it\n\nPLAN", "so"]
    assert phases.is_planning
    assert HISTORY[0].content == "do it"


def test_after_the_plan_the_execution_prompt_is_a_last_message_of_its_own():
    phases = make()
    phases.planning(HISTORY)
    assert [message.content for message in phases.executing(HISTORY)] == ["do it", "so", "ACT"]
    assert not phases.is_planning
