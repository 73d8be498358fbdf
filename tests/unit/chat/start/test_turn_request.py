"""A request as another process gets it, to go on with its turn."""

from chat.start.turn_request import TurnRequest, request_of
from chat.stream.encoding import ascii_json
from sessions_app.decoding import decode_as
from sessions_app.messages import ToolSpec


def test_a_noted_request_comes_back_without_what_is_saved() -> None:
    request = TurnRequest(
        message="Hello!",
        think="high",
        selected_tools=("add",),
        approvals="suspend",
        instructions="Be brief.",
        client_tools=(ToolSpec(name="mine", description="é", parameters={"type": "object"}),),
        tool_choice=("mine",),
        options={"temperature": 0.5},
        answer_schema={"type": "object"},
        requires_fit=True,
        dialect="responses",
        on_crash="continue",
        expects="a",
        keyed=True,
    )
    noted = decode_as(ascii_json(request.noted()), dict)
    again = request_of(noted)
    assert (again.message, again.expects, again.keyed) == (None, None, False)
    assert tuple(again.client_tools) == request.client_tools
    for name in ("think", "approvals", "instructions", "options", "answer_schema", "dialect"):
        assert getattr(again, name) == getattr(request, name)
    assert tuple(again.tool_choice) == request.tool_choice


def test_nothing_is_noted_of_a_plain_request() -> None:
    assert TurnRequest(message="Hello!").noted() == {}
    assert request_of({}) == TurnRequest()


def test_what_newer_servers_note_is_passed_over() -> None:
    assert request_of({"later": 1}) == TurnRequest()
