"""What the next request would send of a session's attachments, and what they cost."""

import json

import msgspec

from chat.context.attachment_costs import AttachmentRules
from chat.context.compaction import ContextRules
from chat.context.strategy import STRATEGIES
from chat.context.window import choose_window
from chat.http.context_schemas import ContextOut
from chat.http.context_view import context_of
from sessions_app.format.json_pieces import json_pieces
from sessions_app.session import Session, SessionMetadata, WindowConfig
from tests.unit.chat.context.pictures import BLIND, answered, asked, image, pdf, text

VISION = AttachmentRules(vendor="openai")


def shown(*messages, attachments=VISION, max_context=100_000, strategy="truncate_by_tokens"):
    metadata = SessionMetadata(session_id="0123456789", model="m", created_at="0", updated_at="0")
    body = context_of(
        Session(metadata=metadata, messages=messages),
        rules=ContextRules(
            strategy=STRATEGIES[strategy], max_context=max_context, attachments=attachments
        ),
        tools=(),
        window_for=lambda tokens: choose_window(
            WindowConfig(),
            usage_tokens=tokens,
            model_changed=False,
            max_context=max_context,
        ),
        now="950",
    )
    document = json.loads(b"".join(json_pieces(body, lambda part: json.dumps(part).encode())))
    ContextOut.model_validate(document)
    return document


def test_attachments_are_shown_with_what_they_cost():
    (message,) = shown(
        asked(1, image(width=1024, height=1024), pdf(size=60_000), text(size=391), content="")
    )["messages"]

    costs = {each["name"]: each["tokens"] for each in message["attachments"]}
    assert costs == {"cat.png": 1229, "report.pdf": 2000, "notes.txt": 105}
    assert message["tokens"] == sum(costs.values()) + 4
    assert {each["left_out"] for each in message["attachments"]} == {None}


def test_the_whole_estimate_holds_them_and_the_window_grows_with_them():
    without = shown(asked(1))
    with_images = shown(asked(1, *[image(width=1024, height=1024)] * 10))

    assert with_images["estimate"]["tokens"] == without["estimate"]["tokens"] + 12_290
    assert (without["window"], with_images["window"]) == (8192, 32_768)


def test_what_the_model_does_not_take_is_shown_as_left_out():
    (message,) = shown(asked(1, image(), text()), attachments=BLIND)["messages"]

    cat, notes = message["attachments"]
    assert (cat["left_out"], cat["tokens"]) == ("not_taken", 0)
    assert (notes["left_out"], notes["tokens"] > 0) == (None, True)


def test_what_is_too_long_is_shown_as_left_out_before_it_happens():
    messages = []
    for turn in range(8):
        messages += [asked(turn, image(f"{turn}.png", width=1024, height=1024)), answered(turn)]

    context = shown(*messages[:-1], max_context=8000)

    left_out = [
        message["attachments"][0]["left_out"]
        for message in context["messages"]
        if message["role"] == "user"
    ]
    assert left_out == ["too_long"] * 7 + [None]
    assert context["will_compress"]
    assert context["left_out"] == []


def test_a_message_without_attachments_is_shown_as_ever():
    (message,) = shown(asked(1))["messages"]

    assert list(message) == ["index", "message_id", "role", "tokens"]


def test_the_last_count_is_beside_an_estimate_with_its_images():
    picture = image(width=1024, height=1024)

    context = shown(asked(1, picture), answered(1, prompt_eval_count=1300), asked(2))

    assert context["last_count"]["estimated"] == 1229 + 6


def test_a_session_without_attachments_is_planned_without_a_look_at_what_is_taken():
    def refuse(_):
        raise AssertionError

    rules = AttachmentRules(takes=refuse)
    assert shown(asked(1), answered(1), asked(2), attachments=rules) == shown(
        asked(1), answered(1), asked(2)
    )


def test_hidden_messages_are_shown_as_left_out():
    secret = msgspec.structs.replace(asked(1), hidden=True)
    document = shown(secret, answered(2), asked(3))
    assert [entry["index"] for entry in document["messages"]] == [1, 2]
    assert document["left_out"] == [
        {"index": 0, "message_id": secret.message_id, "role": "user", "reason": "hidden"}
    ]
