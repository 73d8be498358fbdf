"""Calls that need an approval, and what is answered about them."""

CONFIRM = "tool_call_confirmation_required"
SUSPENDED = "awaiting_confirmation"


def call(text, name="note"):
    return {"tool_call": [{"name": name, "args": {"text": text}}]}


def code_of(answer):
    return answer.status_code, answer.json()["error"]["code"]


def only(events, name):
    [event] = [event for event in events if event.name == name]
    return event.data
