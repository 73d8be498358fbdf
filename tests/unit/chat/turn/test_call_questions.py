"""Which questions of servers are asked during a call and after it, and what becomes of the call."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from chat.approvals.approver import Approver, NobodyToApprove
from chat.approvals.confirmation import Confirmation, Decision
from chat.approvals.decided_calls import DecidedCall
from chat.approvals.store import ConfirmationStore
from chat.stream.events import ToolConfirmationRequired
from chat.turn.call_questions import CallQuestions
from sessions_app.messages import ToolCall
from tests.contract.memory_storage import MemoryRecords
from tests.unit.chat.approvals.questions import MESSAGE, SESSION
from tools_app.available_tools import AvailableTools
from tools_app.elicitation import InputAnswer, InputGiven, InputNeeded, InputRequest
from tools_app.toolset import ToolInvocation, ToolResult

CALL = ToolCall(id="call_1", name="shop__order", arguments={"item": "tea"})
FORM = {"type": "object", "properties": {"size": {"type": "string"}}, "required": []}
SIZE = InputRequest(server="shop", message="Which size?", schema=FORM)
PAY = InputRequest(server="shop", message="Pay.", url="https://shop.example/")
DONE = ToolResult(success=True, result="ordered")


def asks(*requests: InputRequest, **needed: Any) -> ToolResult:
    """Return the result of a call that ends with questions."""
    named = {f"q{number}": request for number, request in enumerate(requests)}
    needs = InputNeeded(requests=named, **{"request_state": "state", **needed})
    return ToolResult(success=False, error_message="It asks.", needs=needs)


class Shop:
    """A toolset whose calls end like this, one after the other; the last one again and again."""

    def __init__(self, *results: ToolResult, during: Sequence[InputRequest] = ()) -> None:
        self.results = list(results)
        self.during = during
        self.given: list[InputGiven | None] = []
        self.answers: list[InputAnswer] = []

    async def call_tool(self, invocation: ToolInvocation) -> ToolResult:
        self.given.append(invocation.given)
        for request in self.during:
            self.answers.append(await invocation.ask(request))
        return self.results.pop(0) if len(self.results) > 1 else self.results[0]


class Turn:
    """A turn whose person answers each question at once."""

    def __init__(self, records: MemoryRecords, turn_id: str = "turn_1", **options: Any) -> None:
        self.store = ConfirmationStore(records, timeout_seconds=300)
        self.approver = Approver(
            self.store,
            session_id=SESSION,
            turn_id=turn_id,
            available_tools=AvailableTools(),
            **{"mode": "wait", **options},
        )
        self.asked: list[ToolConfirmationRequired] = []
        self.steps: list[str] = []
        self.answer: Callable[[ToolConfirmationRequired], Mapping[str, Any] | None] = lambda _: {
            "approved": True
        }

    def emit(self, events: Sequence[Any]) -> None:
        for event in events:
            if isinstance(event, ToolConfirmationRequired):
                self.asked.append(event)
                if (answer := self.answer(event)) is not None:
                    self.store.decide(
                        SESSION, Decision(confirmation_id=event.confirmation_id, **answer)
                    )

    async def step(self, name: str) -> None:
        self.steps.append(name)

    async def call(self, shop: Shop, questions: Sequence[Confirmation] = ()) -> ToolResult:
        item = DecidedCall(call=CALL, index=0, arguments=CALL.arguments, questions=tuple(questions))
        calling = CallQuestions(
            item,
            message_id=MESSAGE,
            approver=self.approver,
            emit=self.emit,
            pause=lambda: self.step("pause"),
            begin=lambda: self.step("begin"),
        )
        invocation = ToolInvocation(name=CALL.name, arguments=CALL.arguments)
        return await calling.call(shop, invocation)  # type: ignore[arg-type]


@pytest.fixture
def records() -> MemoryRecords:
    return MemoryRecords()


@pytest.fixture
def turn(records: MemoryRecords) -> Turn:
    return Turn(records)


async def test_a_call_is_repeated_with_the_answers_and_the_state(turn: Turn) -> None:
    turn.answer = lambda asked: {
        "approved": True,
        "content": {"size": "l"} if asked.kind == "input" else None,
    }
    shop = Shop(asks(SIZE, PAY), DONE)

    assert await turn.call(shop) == DONE

    form = InputAnswer(action="accept", content={"size": "l"})
    assert shop.given[0] is None
    assert turn.steps == ["pause", "begin"]
    assert shop.given[1] is not None
    assert shop.given[1].request_state == "state"
    assert shop.given[1].answers["q0"] == form


async def test_denials_decline(turn: Turn) -> None:
    turn.answer = lambda _: {"approved": False}
    shop = Shop(asks(SIZE), DONE, during=[SIZE])

    await turn.call(shop)

    declined = InputAnswer(action="decline")
    assert shop.answers == [declined] * 2
    assert shop.given[1] == InputGiven(answers={"q0": declined}, request_state="state")


async def test_only_five_questions_of_a_server_are_asked_in_a_turn(turn: Turn) -> None:
    shop = Shop(DONE, during=[SIZE] * 100)

    result = await turn.call(shop)

    actions = [answer.action for answer in shop.answers]
    assert actions == ["accept"] * 5 + ["decline"] * 95
    assert len(turn.asked) == 5
    assert "declined" in (result.result or "")


async def test_a_call_that_asks_for_ever_ends(turn: Turn) -> None:
    shop = Shop(asks())

    result = await turn.call(shop)

    assert len(shop.given) == 11
    assert (result.success, result.error_message) == (False, "Its server asked for input 10 times.")


async def test_a_call_with_an_address_is_repeated_as_it_was(turn: Turn) -> None:
    shop = Shop(asks(PAY, repeats_plainly=True, request_state=None), DONE)

    assert await turn.call(shop) == DONE
    assert shop.given == [None, InputGiven(answers={})]


async def test_a_call_whose_address_was_not_opened_is_not_repeated(turn: Turn) -> None:
    turn.answer = lambda _: {"approved": False}
    failed = asks(PAY, repeats_plainly=True, request_state=None)

    assert await turn.call(Shop(failed, DONE)) == failed


@pytest.mark.parametrize("options", [{"elicits": "never"}, {"mode": "deny"}])
async def test_where_nobody_can_be_asked_all_is_declined_and_the_model_told(
    records: MemoryRecords, options: dict[str, Any]
) -> None:
    turn = Turn(records, **options)
    shop = Shop(asks(SIZE), DONE, during=[PAY])

    result = await turn.call(shop)

    assert turn.asked == []
    assert shop.answers == [InputAnswer(action="decline")] * 2
    assert (result.result or "").startswith("ordered\n\n[Its server asked the user for input")


async def test_questions_between_calls_are_asked_where_those_in_a_call_are_not(
    records: MemoryRecords,
) -> None:
    turn = Turn(records, elicits="between_calls")
    shop = Shop(asks(SIZE), DONE, during=[SIZE])

    await turn.call(shop)

    assert [answer.action for answer in shop.answers] == ["decline"] * 2
    assert len(turn.asked) == 1


async def test_without_a_listener_the_call_goes_on_in_a_later_turn(records: MemoryRecords) -> None:
    first = Turn(records, mode="suspend")
    first.answer = lambda _: None
    with pytest.raises(NobodyToApprove):
        await first.call(Shop(asks(SIZE)))

    second = Turn(records, "turn_2", mode="suspend")
    [question] = second.store.left_open(SESSION, MESSAGE)
    second.store.decide(
        SESSION,
        Decision(confirmation_id=question.confirmation_id, approved=True, content={"size": "s"}),
    )
    shop = Shop(DONE)

    assert await second.call(shop, [question]) == DONE
    accepted = InputAnswer(action="accept", content={"size": "s"})
    assert shop.given == [InputGiven(answers={"q0": accepted}, request_state="state")]
    assert second.asked == []
    assert second.store.left_open(SESSION, MESSAGE) == []


async def test_a_question_of_a_running_call_goes_with_it(turn: Turn) -> None:
    turn.answer = lambda _: None
    calling = asyncio.create_task(turn.call(Shop(DONE, during=[SIZE])))
    while not turn.asked:
        await asyncio.sleep(0)
    [pending] = turn.store.pending(SESSION)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling

    assert pending.retry is None
    assert turn.store.pending(SESSION) == []


async def test_a_turn_waits_until_every_call_has_its_answer(records: MemoryRecords) -> None:
    turn = Turn(records, mode="suspend")
    turn.answer = lambda _: None
    calling = [asyncio.create_task(turn.call(Shop(DONE, during=[SIZE]))) for _ in range(2)]
    while len(turn.asked) < 2:
        await asyncio.sleep(0)
    first, second = turn.asked

    turn.store.decide(SESSION, Decision(confirmation_id=first.confirmation_id, approved=True))
    turn.approver.notice()
    await asyncio.wait(calling, return_when=asyncio.FIRST_COMPLETED)
    assert turn.approver.servers.unheard.is_set()
    turn.store.decide(SESSION, Decision(confirmation_id=second.confirmation_id, approved=True))
    turn.approver.notice()
    await asyncio.wait(calling)

    assert not turn.approver.servers.unheard.is_set()


async def test_a_changed_tool_does_not_get_the_answers(records: MemoryRecords) -> None:
    first = Turn(records, mode="suspend")
    first.answer = lambda _: None
    with pytest.raises(NobodyToApprove):
        await first.call(Shop(asks(SIZE)))
    [question] = first.store.left_open(SESSION, MESSAGE)
    changed = msgspec.structs.replace(question, tool_digest="another")
    first.store.renew(changed, "turn_1")

    item = DecidedCall(call=CALL, index=0, arguments=CALL.arguments)
    servers = Turn(records, "turn_2").approver.servers

    assert servers.ended_calls([item], MESSAGE) == {}
    assert first.store.pending(SESSION) == []
