"""Surveys: what was found in a history, and what of it holds for the next one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.context.history_facts import COMPARED_AT_ONCE, SHORTEST, HistoryFacts, HistoryFactsCache
from sessions_app.context_state import digest_of
from sessions_app.messages import Attachment, UserMessage, shown

ID = "a1b2c3d4e5"
IMAGE = Attachment(id="sha256:1", name="a.png", media_type="image/png", size=3)


def said(number, **how):
    return UserMessage(content=f"Number {number}.", message_id=f"{number:x}", timestamp="t", **how)


def history(length, *, start=0):
    return tuple(said(number) for number in range(start, start + length))


def all_facts(facts):
    half, most = range(1, len(facts.shown) // 2), range(2, len(facts.shown) - 9)
    return (
        tuple(facts.messages),
        tuple(facts.shown),
        tuple(facts.attached),
        facts.characters,
        facts.digest_of(half),
        facts.digest_of(most),
        facts.digest_of(most),
    )


changes = st.sampled_from(["append", "attach", "hide", "hide first", "edit", "delete", "again"])


@given(steps=st.lists(st.tuples(changes, st.integers(0, SHORTEST)), max_size=8))
def test_what_is_remembered_is_what_is_there(steps):
    facts_cache, messages = HistoryFactsCache(), history(SHORTEST + 20)
    for number, (change, at) in enumerate(steps):
        message = messages[at]
        match change:
            case "append":
                messages = (*messages, said(1000 + number))
            case "attach":
                messages = (*messages, said(1000 + number, attachments=(IMAGE,)))
            case "hide":
                messages = (*messages, said(1000 + number, hidden=True))
            case "hide first":
                hidden = msgspec.structs.replace(message, hidden=True)
                messages = (*messages[:at], hidden, *messages[at + 1 :])
            case "edit":
                edited = msgspec.structs.replace(message, content=message.content + "!")
                messages = (*messages[:at], edited, *messages[at + 1 :])
            case "delete":
                messages = (*messages[:at], *messages[at + 1 :])
        assert all_facts(facts_cache.of(messages, ID)) == all_facts(HistoryFacts(messages))
        assert tuple(facts_cache.of(messages, ID).shown) == tuple(shown(messages))


@pytest.fixture
def digested(monkeypatch: pytest.MonkeyPatch):
    """Return the list of the spans that were digested."""
    spans = []

    def digest(messages):
        spans.append(messages)
        return digest_of(messages)

    monkeypatch.setattr("chat.context.history_facts.digest_of", digest)
    return spans


def test_only_what_is_new_is_looked_at(digested):
    facts_cache, messages = HistoryFactsCache(), history(SHORTEST * 4)
    span = range(2, SHORTEST * 3)
    first = facts_cache.of(messages, ID).digest_of(span)
    digested.clear()
    again = facts_cache.of((*messages, said(9999, attachments=(IMAGE,))), ID)
    assert again.digest_of(span) == first
    assert not digested
    assert again.attached == [f"{9999:x}"]


def test_the_last_messages_may_become_others(digested):
    """A question is planned with before it gets the id of its turn, and is saved."""
    facts_cache, messages = HistoryFactsCache(), history(SHORTEST * 4)
    span = range(2, SHORTEST * 3)
    facts_cache.of((*messages, said(9999)), ID).digest_of(span)
    digested.clear()
    for number in range(200):
        asked = said(10_000 + number)
        facts_cache.of((*messages, asked), ID).digest_of(span)
        saved = msgspec.structs.replace(asked, turn_id="t")
        messages = (*messages, saved, said(20_000 + number))
    assert not digested


def test_a_span_up_to_the_last_messages_is_remembered_too(digested):
    facts_cache, messages = HistoryFactsCache(), history(SHORTEST * 4)
    span = range(2, len(messages) - 3)
    facts_cache.of(messages, ID).digest_of(span)
    digested.clear()
    facts_cache.of((*messages, said(9999)), ID).digest_of(span)
    assert not digested
    changed = msgspec.structs.replace(messages[-5], content="another")
    facts_cache.of((*messages[:-5], changed, *messages[-4:]), ID).digest_of(span)
    assert digested


def test_equal_histories_of_other_objects_are_the_same(digested):
    facts_cache = HistoryFactsCache()
    first = facts_cache.of(history(SHORTEST), ID).digest_of(range(5))
    digested.clear()
    assert facts_cache.of(history(SHORTEST + 1), ID).digest_of(range(5)) == first
    assert not digested


def test_equal_histories_that_are_compared_in_several_runs_are_the_same():
    facts_cache, length = HistoryFactsCache(), 2 * COMPARED_AT_ONCE + SHORTEST
    first = facts_cache.of(history(length), ID).settled

    assert facts_cache.of(history(length), ID).settled is first
    changed = (*history(length - 200), said(0), *history(199, start=length - 199))
    assert facts_cache.of(changed, ID).settled is not first


@pytest.mark.parametrize(
    "limits", [{"most_messages": SHORTEST * 2}, {"most_characters": SHORTEST * 2 * 12}]
)
def test_what_was_looked_at_first_is_forgotten_first(limits, digested):
    facts_cache = HistoryFactsCache(**limits)
    histories = {str(n): history(SHORTEST, start=n * SHORTEST + 1) for n in range(4)}
    for session_id, messages in histories.items():
        facts_cache.of(messages, session_id).digest_of(range(5))
    digested.clear()
    facts_cache.of(histories["3"], "3").digest_of(range(5))
    assert not digested
    facts_cache.of(histories["0"], "0").digest_of(range(5))
    assert len(digested) == 1


def test_a_history_beyond_what_is_remembered_displaces_no_other(digested):
    facts_cache = HistoryFactsCache(most_messages=SHORTEST * 2)
    facts_cache.of(history(SHORTEST), "1").digest_of(range(5))
    facts_cache.of(history(SHORTEST * 3), "2")
    digested.clear()
    facts_cache.of(history(SHORTEST), "1").digest_of(range(5))
    assert not digested
