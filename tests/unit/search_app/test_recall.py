"""The search behind `search_conversations`: page by page, until enough is accepted."""

import pytest

from search_app.places import SearchPlaces
from search_app.recall import MOST_PAGES, PAGE, RecallSearch
from sessions_app.errors import ValidationFailed
from tools_app.recall.arguments import SearchConversations

# The sessions of a test are written in its own loop.
pytestmark = pytest.mark.allow_blocking

IDS = ("00000000aa", "00000000bb")


@pytest.fixture
def search(make_archive):
    """Return a search in two sessions."""
    archive = make_archive()
    for session_id in IDS:
        archive.keep(session_id, *["about asyncio"] * 60)
    return RecallSearch(lambda: archive.search, SearchPlaces())


def request(**more):
    return SearchConversations(query="asyncio", **{"limit": 20, **more})


async def test_matches_are_looked_for_until_enough_are_accepted(search):
    seen = []

    def accepts(match):
        seen.append(match)
        return match.role == "user" and match.message_index < 10

    matches, is_complete = await search.search(request(limit=6), accepts)
    assert len(matches) == 6
    assert is_complete
    assert 60 < len(seen) < 120
    [first, *_] = matches
    assert (first.excerpt, first.role) == ("about asyncio", "user")


async def test_a_search_in_which_nothing_is_accepted_ends(make_archive):
    archive = make_archive()
    archive.keep(IDS[0], *["about asyncio"] * (PAGE * MOST_PAGES + 10))
    seen = []
    matches = await RecallSearch(lambda: archive.search, SearchPlaces()).search(
        request(), lambda match: seen.append(match) is not None
    )
    assert matches == ([], False)
    assert len(seen) == PAGE * MOST_PAGES


async def test_a_search_whose_matches_take_long_to_read_ends(search, monkeypatch):
    monkeypatch.setattr("search_app.recall.MOST_SECONDS", -1.0)
    matches, is_complete = await search.search(request(), lambda _: True)
    assert (len(matches), is_complete) == (1, False)


@pytest.mark.parametrize("filled", [False, True])
async def test_one_session_is_searched_alone(make_archive, filled):
    archive = make_archive()
    for session_id in IDS:
        archive.keep(session_id, *["about asyncio"] * 60)
    if filled:
        archive.updater.fill()
    search = RecallSearch(lambda: archive.search, SearchPlaces())
    for session_id in IDS:
        matches, _ = await search.search(request(session_id=session_id), lambda _: True)
        assert {match.session_id for match in matches} == {session_id}
    nothing = await search.search(request(session_id="0000000000"), lambda _: True)
    assert nothing == ([], True)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"after": "yesterday"}, "after must be a date"),
        ({"before": "tomorrow"}, "before must be a date"),
        ({"query": " ".join(f"a{n}-b" for n in range(33))}, "at most 32 phrases"),
    ],
)
async def test_what_is_no_search_is_refused(search, more, words):
    with pytest.raises(ValidationFailed, match=words):
        await search.search(SearchConversations(**{"query": "x", **more}), lambda _: True)


async def test_times_and_roles_are_filters(search):
    async def count(**more):
        return len((await search.search(request(**more), lambda _: True))[0])

    assert await count(role="assistant") == 20
    assert await count(role="tool") == 0
    assert await count(after="2030-01-01") == 0
    assert await count(before="2030-01-01") == 20
    assert await count(model="other") == 0
