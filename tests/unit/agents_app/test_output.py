"""What the calling model gets of an agent's run."""

import msgspec

from agents_app.output import MOST_ATTACHMENTS, attachments_of, output_of
from chat.errors import TurnLimitReached
from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

SAID = {"message_id": "m", "timestamp": "t"}
BEFORE = [
    SystemMessage(content="You take notes.", **SAID),
    UserMessage(content="An earlier instruction.", **SAID),
    AssistantMessage(content="An earlier answer.", model="m", **SAID),
]
RUN = [
    UserMessage(content="Note x.", **SAID),
    AssistantMessage(content="1. note", model="m", **SAID),
    AssistantMessage(
        content="",
        model="m",
        tool_calls=(ToolCall(id="c", name="note", arguments={"text": "x"}),),
        **SAID,
    ),
    ToolMessage(content="noted x", tool_name="note", tool_call_id="c", **SAID),
    AssistantMessage(content="It is noted.", model="m", **SAID),
]


def test_it_begins_with_the_session_and_tells_everything_since_the_instruction() -> None:
    assert output_of("abcdef0123", [*BEFORE, *RUN]) == (
        "Session ID: abcdef0123\n\n"
        "1. note\n\n"
        '[tool call] note({"text":"x"})\n\n'
        "[tool result] note: noted x\n\n"
        "It is noted."
    )


def returned(*names: str) -> ToolMessage:
    attachments = tuple(
        Attachment(id=f"sha256:{name}", name=name, media_type="image/png", size=1) for name in names
    )
    return msgspec.structs.replace(RUN[3], attachments=attachments)


def test_images_that_its_tools_returned_are_handed_on() -> None:
    earlier = [*BEFORE, returned("old.png")]
    run = [*RUN[:3], returned("a.png", "b.png"), *RUN[2:4], returned("a.png", "c.png"), RUN[4]]

    names = [each.name for each in attachments_of([*earlier, *run])]

    assert names == ["b.png", "a.png", "c.png"]
    assert attachments_of(RUN) == ()


def test_of_very_many_images_the_last_ones_are_handed_on() -> None:
    names = [f"{number}.png" for number in range(MOST_ATTACHMENTS + 5)]

    handed_on = attachments_of([*RUN[:3], returned(*names)])

    assert [each.name for each in handed_on] == names[5:]


def test_it_ends_with_what_broke_the_run_off() -> None:
    output = output_of("abcdef0123", RUN[:2], TurnLimitReached("That is the limit."))

    assert output.endswith("1. note\n\n[The agent stopped: That is the limit.]")


def test_the_session_and_the_end_of_a_long_run_are_kept() -> None:
    long = AssistantMessage(content="x" * 100_000 + "The end.", model="m", **SAID)

    output = output_of("abcdef0123", [*RUN[:1], long])

    assert output.startswith("Session ID: abcdef0123\n\nxxx")
    assert "bytes are not shown]" in output
    assert output.endswith("xThe end.")
    assert len(output) < 66_000


def test_a_run_that_never_began_has_said_nothing() -> None:
    assert output_of("abcdef0123", []) == "Session ID: abcdef0123\n\n"
