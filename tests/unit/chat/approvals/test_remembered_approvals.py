"""Approvals for further calls of a tool: what they let run, and what not."""

import asyncio

import pytest

from chat.approvals.confirmation import Decision
from chat.errors import ConfirmationAlreadyDecided
from chat.start.turn_request import TurnRequest
from models_app.language_model import Finished
from sessions_app.errors import ValidationFailed
from sessions_app.policy_scope import PolicyScope
from sessions_app.session import ToolSettings
from tests.unit.chat.approvals.test_approver import (
    GO_ON,
    Files,
    begin,
    call,
)

SUSPEND = TurnRequest(message="Hi", approvals="suspend")
IN_SRC = {"path": "src/*"}


@pytest.fixture
def tools():
    return Files()


@pytest.fixture
def house(make_house, tools):
    return make_house(tools)


@pytest.fixture
async def session_id(house):
    return await house.new_session(tools=["read", "delete"], policy="always_confirm")


async def settings_of(house, session_id):
    session = await asyncio.to_thread(house.sessions.get, session_id)
    return session.metadata.tool_settings


async def ask(house, session_id, *calls, request=SUSPEND):
    """Run a turn whose model makes these calls; return the questions that are left."""
    house.model.say(list(calls), [Finished()])
    house.model.say_text("Done.")
    await (await begin(house, session_id, request)).until("done")
    return await house.confirmations.pending(session_id)


async def approve(house, session_id, asked, remember, **edits):
    decision = Decision(confirmation_id=asked.confirmation_id, approved=True, **edits)
    return await house.confirmations.decide(session_id, decision, remember=remember)


async def go_on(house, session_id):
    await (await begin(house, session_id, GO_ON)).until("done")


async def test_further_calls_of_the_tool_run_without_a_question(house, tools, session_id):
    [asked] = await ask(house, session_id, call("c1", path="a"))
    await approve(house, session_id, asked, "session")
    await go_on(house, session_id)
    assert (await settings_of(house, session_id)).tool_policies == {"delete": "never_confirm"}

    house.model.scripts.clear()
    assert await ask(house, session_id, call("c2", path="b")) == []
    assert [arguments["path"] for _, arguments in tools.ran] == ["a", "b"]
    [other] = await ask(house, session_id, call("c3", "read"))  # another tool
    assert other.tool_name == "read"


async def test_further_calls_with_arguments_that_fit_run_and_others_ask(house, tools, session_id):
    [asked] = await ask(house, session_id, call("c1", path="src/a"))
    await approve(house, session_id, asked, IN_SRC)
    await go_on(house, session_id)

    house.model.scripts.clear()
    calls = [call("c2", path="src/b"), call("c3", path="src/../b"), call("c4", path="lib/b")]
    left = await ask(house, session_id, *calls, call("c5"))
    assert [each.tool_call_id for each in left] == ["c3", "c4", "c5"]


async def test_calls_of_a_turn_that_goes_on_are_covered_too(house, tools, session_id):
    house.model.say([call("c1", path="src/a")], [Finished()])
    house.model.say([call("c2", path="src/b")], [Finished()])
    house.model.say_text("Done.")
    turn = await begin(house, session_id)
    asked = await turn.until("tool_call_confirmation_required")
    await house.confirmations.decide(
        session_id,
        Decision(confirmation_id=asked["confirmation_id"], approved=True),
        remember=IN_SRC,
    )
    await turn.until("done")
    assert turn.names.count("tool_call_confirmation_required") == 1
    assert [arguments["path"] for _, arguments in tools.ran] == ["src/a", "src/b"]


async def test_once_is_for_this_call_alone(house, session_id):
    [asked] = await ask(house, session_id, call("c1", path="a"))
    await approve(house, session_id, asked, "once")
    await go_on(house, session_id)
    assert (await settings_of(house, session_id)).tool_policies == {}


async def test_a_denied_call_of_the_same_answer_does_not_run(house, tools, session_id):
    first, second = await ask(house, session_id, call("c1", path="a"), call("c2", path="b"))
    await approve(house, session_id, first, "session")
    await house.confirmations.decide(
        session_id, Decision(confirmation_id=second.confirmation_id, approved=False)
    )
    await go_on(house, session_id)
    assert tools.ran == [("delete", {"path": "a"})]


async def test_a_question_that_is_open_already_stays_open(house, tools, session_id):
    first, second = await ask(house, session_id, call("c1", path="a"), call("c2", path="b"))
    await approve(house, session_id, first, "session")
    [left] = await house.confirmations.pending(session_id)
    assert left.confirmation_id == second.confirmation_id
    assert tools.ran == []


async def test_two_answers_about_one_tool_are_both_remembered(house, tools, session_id):
    calls = call("c1", path="src/a"), call("c2", path="lib/b")
    first, second = await ask(house, session_id, *calls)
    await approve(house, session_id, first, IN_SRC)
    await approve(house, session_id, second, {"path": "lib/*"})
    await go_on(house, session_id)
    scopes = [
        PolicyScope(policy="never_confirm", arguments={"path": p}) for p in ("src/*", "lib/*")
    ]
    assert (await settings_of(house, session_id)).tool_scopes == {"delete": tuple(scopes)}


async def test_an_answer_for_all_calls_comes_before_one_for_some(house, session_id):
    calls = call("c1", path="src/a"), call("c2", path="lib/b")
    first, second = await ask(house, session_id, *calls)
    await approve(house, session_id, first, IN_SRC)
    await approve(house, session_id, second, "session")
    await go_on(house, session_id)
    kept = await settings_of(house, session_id)
    assert (kept.tool_policies, kept.tool_scopes) == ({"delete": "never_confirm"}, {})


async def test_an_approval_that_is_taken_back_is_not_remembered(house, tools, session_id):
    [asked] = await ask(house, session_id, call("c1", path="a"))
    await approve(house, session_id, asked, "session")
    await house.confirmations.decide(
        session_id, Decision(confirmation_id=asked.confirmation_id, approved=False)
    )
    await go_on(house, session_id)
    assert tools.ran == []
    assert (await settings_of(house, session_id)).tool_policies == {}


async def test_an_answer_that_comes_second_changes_nothing(house, session_id):
    [asked] = await ask(house, session_id, call("c1", path="a"))
    await approve(house, session_id, asked, "once")
    with pytest.raises(ConfirmationAlreadyDecided):
        await approve(house, session_id, asked, "session")
    await go_on(house, session_id)
    assert (await settings_of(house, session_id)).tool_policies == {}


async def test_a_policy_that_is_set_between_approval_and_call_stays(house, session_id):
    [asked] = await ask(house, session_id, call("c1", path="a"))
    await approve(house, session_id, asked, "session")
    strict = ToolSettings(tools=("read", "delete"), tool_policies={"delete": "always_confirm"})
    await asyncio.to_thread(house.sessions.update, session_id, tool_settings=strict)
    await go_on(house, session_id)
    assert (await settings_of(house, session_id)).tool_policies == {"delete": "always_confirm"}


@pytest.mark.parametrize("remember", ["session", IN_SRC])
async def test_a_policy_of_all_tools_that_is_set_between_approval_and_call_stays(
    house, session_id, remember
):
    [asked] = await ask(house, session_id, call("c1", path="src/a"))
    await approve(house, session_id, asked, remember)
    later = ToolSettings(tools=("read", "delete"), execution_policy="confirm_destructive")
    await asyncio.to_thread(house.sessions.update, session_id, tool_settings=later)
    await go_on(house, session_id)
    assert await settings_of(house, session_id) == later


IN_LIB = (PolicyScope(policy="always_confirm", arguments={"path": "lib/*"}),)


@pytest.mark.parametrize(("before", "later"), [((), IN_LIB), (IN_LIB, ())])
async def test_policies_for_arguments_that_are_set_between_approval_and_call_stay(
    house, session_id, before, later
):
    def scoped(*scopes):
        scoped = {"delete": scopes} if scopes else {}
        policies = {"delete": "always_confirm"}
        return ToolSettings(tools=("delete",), tool_policies=policies, tool_scopes=scoped)

    await asyncio.to_thread(house.sessions.update, session_id, tool_settings=scoped(*before))
    [asked] = await ask(house, session_id, call("c1", path="a"))
    await approve(house, session_id, asked, "session")
    await asyncio.to_thread(house.sessions.update, session_id, tool_settings=scoped(*later))
    await go_on(house, session_id)
    assert await settings_of(house, session_id) == scoped(*later)


async def test_an_approval_for_the_session_replaces_policies_that_it_knew(house, session_id):
    known = {"delete": IN_LIB}
    asking = {"delete": "always_confirm"}
    settings = ToolSettings(tools=("delete",), tool_policies=asking, tool_scopes=known)
    await asyncio.to_thread(house.sessions.update, session_id, tool_settings=settings)
    [asked] = await ask(house, session_id, call("c1", path="a"))
    await approve(house, session_id, asked, "session")
    await go_on(house, session_id)
    kept = await settings_of(house, session_id)
    assert (kept.tool_policies, kept.tool_scopes) == ({"delete": "never_confirm"}, {})


async def test_a_denial_can_not_be_remembered_and_decides_nothing(house, tools, session_id):
    [asked] = await ask(house, session_id, call("c1", path="a"))
    with pytest.raises(ValidationFailed, match="Only an approval can be remembered"):
        await house.confirmations.decide(
            session_id,
            Decision(confirmation_id=asked.confirmation_id, approved=False),
            remember="session",
        )
    assert list(await house.confirmations.pending(session_id)) == [asked]


async def test_more_than_twenty_policies_for_arguments_are_refused_and_decide_nothing(
    house, session_id
):
    scopes = tuple(
        PolicyScope(policy="never_confirm", arguments={"path": f"{n}/*"}) for n in range(20)
    )
    full = ToolSettings(
        tools=("read", "delete"),
        tool_policies={"delete": "always_confirm"},
        tool_scopes={"delete": scopes},
    )
    await asyncio.to_thread(house.sessions.update, session_id, tool_settings=full)
    [asked] = await ask(house, session_id, call("c1", path="a"))
    with pytest.raises(ValidationFailed, match="has 20 policies for certain arguments already"):
        await approve(house, session_id, asked, IN_SRC)
    assert list(await house.confirmations.pending(session_id)) == [asked]
    await approve(house, session_id, asked, "session")


async def test_edited_arguments_and_a_policy_go_together(house, tools, session_id):
    [asked] = await ask(house, session_id, call("c1", path="etc/a"))
    await approve(house, session_id, asked, IN_SRC, arguments={"path": "src/a"})
    await go_on(house, session_id)
    assert tools.ran == [("delete", {"path": "src/a"})]
    house.model.scripts.clear()
    [again] = await ask(house, session_id, call("c2", path="etc/a"))
    assert again.tool_call_id == "c2"
