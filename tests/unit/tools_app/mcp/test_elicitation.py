"""What servers may ask during a call, whom they ask, and how they get the answer."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest

from tests.unit.tools_app.mcp.conftest import PROGRAMS, Lab
from tools_app.elicitation import InputAnswer, InputRequest
from tools_app.mcp.elicitation import OpenCalls, needed_by_error, needed_by_result
from tools_app.mcp.remote import RemoteError
from tools_app.toolset import ToolInvocation, ToolResult

FLAT = {"type": "object", "properties": {"size": {"type": "string"}}}
FORM = {"message": "Which size?", "requestedSchema": FLAT}
DECLINED = InputAnswer(action="decline")


def shop(*arguments: str, **entry: Any) -> dict[str, Any]:
    program = str(PROGRAMS / "asking_server.py")
    return {"command": sys.executable, "args": [program, *arguments], **entry}


async def call(lab: Lab, name: str, ask: Any, **arguments: Any) -> ToolResult:
    return await lab.tools.call_tool(ToolInvocation(name=name, arguments=arguments, ask=ask))


class Person:
    """A person who gives the same answer each time."""

    def __init__(self, answer: InputAnswer = DECLINED) -> None:
        self.asked: list[InputRequest] = []
        self.answer = answer

    async def __call__(self, request: InputRequest) -> InputAnswer:
        self.asked.append(request)
        return self.answer


async def replies_to(lab: Lab, person: Person, *questions: Any, **entry: Any) -> list[Any]:
    await lab.configure(srv=lab.raw("elicits", json.dumps(questions), **entry))
    await lab.listed("srv")
    result = await call(lab, "srv__run", person)
    assert result.success, result
    replies: list[Any] = json.loads(result.result or "")
    return replies


async def test_a_server_gets_what_a_person_fills_in(lab: Lab) -> None:
    person = Person(InputAnswer(action="accept", content={"size": "l"}))

    [reply] = await replies_to(lab, person, FORM)

    assert reply["result"] == {"action": "accept", "content": {"size": "l"}}
    assert person.asked == [
        InputRequest(server="srv", message="Which size?", schema={**FLAT, "required": []})
    ]


@pytest.mark.parametrize(
    "question",
    [
        {"message": "x", "requestedSchema": {"type": "object", "properties": {"a": FLAT}}},
        {"mode": "url", "message": "x", "elicitationId": "1", "url": "javascript:alert(1)"},
        {"mode": "url", "message": "x", "elicitationId": "1", "url": "http://evil.example/"},
    ],
)
async def test_what_people_are_not_shown_is_an_error_to_the_server(
    lab: Lab, question: dict[str, Any]
) -> None:
    person = Person()

    [reply] = await replies_to(lab, person, question)

    assert reply["error"]["code"] == -32602
    assert person.asked == []


async def test_a_huge_message_is_cut_and_secrets_of_the_entry_are_hidden(lab: Lab) -> None:
    person = Person()
    words = "Your key is hunter2000. " + "x" * 100_000

    await replies_to(lab, person, {**FORM, "message": words}, env={"KEY": "hunter2000"})

    [asked] = person.asked
    assert len(asked.message) < 5_000
    assert asked.message.startswith("Your key is ***.")


async def test_the_time_of_a_call_stands_still_while_a_person_is_asked(
    lab: Lab, pass_time: Callable[[float], None]
) -> None:
    lab.start(timeout_seconds=60)

    async def slow(request: InputRequest) -> InputAnswer:
        pass_time(120)
        await asyncio.sleep(0.01)
        return DECLINED

    await lab.configure(srv=lab.raw("elicits", json.dumps([FORM])))
    await lab.listed("srv")

    assert (await call(lab, "srv__run", slow)).success


async def test_of_two_calls_only_the_person_of_the_asking_one_is_asked(
    lab: Lab, tmp_path: Path
) -> None:
    await lab.configure(shop=shop("--old"))
    await lab.listed("shop")
    asking, other = Person(), Person()
    paid = tmp_path / "paid"
    paid.touch()

    results = await asyncio.gather(
        call(lab, "shop__order", asking, item="tea", path=str(tmp_path / "orders")),
        call(lab, "shop__pay", other, path=str(paid)),
    )

    assert [request.message for request in asking.asked] == ["Which size?"]
    assert other.asked == []
    assert results[1].result == "paid"


async def test_what_a_cancelled_call_may_have_asked_is_shown_to_no_other_person() -> None:
    calls, people = OpenCalls(), [Person(), Person()]

    async def run(number: int) -> None:
        with calls.running(people[number]):
            calls.sent(number)
            await asyncio.Event().wait()

    first, second = running = [asyncio.create_task(run(number)) for number in range(2)]
    await asyncio.sleep(0)
    context: Any = SimpleNamespace(meta=None)
    params = types.ElicitRequestFormParams.model_validate(FORM)
    answer = asyncio.create_task(calls.answer(context, params))
    await asyncio.sleep(0)

    first.cancel()

    assert await answer == types.ElicitResult(action="cancel")
    assert [person.asked for person in people] == [[], []]
    second.cancel()
    await asyncio.wait(running)


async def test_the_newer_protocol_ends_the_call_with_what_it_needs(
    lab: Lab, tmp_path: Path
) -> None:
    await lab.configure(shop=shop())
    await lab.listed("shop")
    person = Person()

    result = await call(lab, "shop__order", person, item="tea", path=str(tmp_path / "orders"))

    assert person.asked == []
    assert result.needs is not None
    [(_, request)] = result.needs.requests.items()
    assert (request.server, request.message) == ("shop", "Which size?")
    assert result.needs.request_state


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({}, "sends 0 questions"),
        ({"requestState": 7}, "no text"),
        ({"requestState": "x" * 65_537}, "too large"),
        ({"inputRequests": {str(n): {} for n in range(101)}}, "sends 101 questions"),
        ({"inputRequests": {"k": {"method": "sampling/createMessage"}}}, "asked for sampling"),
        ({"inputRequests": {"k": {"method": "roots/list"}}}, "asked for roots"),
        ({"inputRequests": {"k": None}}, "something unknown"),
        ({"inputRequests": {"k": {"method": "elicitation/create"}}}, "not flat"),
    ],
)
def test_needs_that_are_not_offered_are_refused(result: dict[str, Any], message: str) -> None:
    with pytest.raises(RemoteError, match=message):
        needed_by_result(result)


@pytest.mark.parametrize("state", ["", "x" * 65_536, 'quotes " \\ and \u2028 \x00 é'])
def test_the_servers_state_is_taken_as_it_is(state: str) -> None:
    assert needed_by_result({"requestState": state}).request_state == state


@pytest.mark.parametrize(
    "data",
    [None, {}, {"elicitations": []}, {"elicitations": [{"url": "file:///etc/passwd"}]}],
)
def test_an_error_needs_addresses_that_people_are_shown(data: Any) -> None:
    with pytest.raises(RemoteError):
        needed_by_error(data)
