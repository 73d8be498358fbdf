"""What a page shows of a session is of one moment."""

import asyncio
import json
from contextlib import suppress

from chat.http.page import answer_with_page
from sessions_app.store.session_files import SessionFiles
from tests.unit.chat.inbox.conftest import Desk


async def test_a_page_that_is_read_within_a_claim_waits_for_its_question(house, monkeypatch):
    desk = Desk(house)
    session_id = await house.new_session()
    house.model.say_text("One.")
    await (await desk.send(session_id, "First?")).finished()
    pages = []
    loop = asyncio.get_running_loop()
    replace = SessionFiles.replace

    def read_page_before(files, *rest, **how):
        if not pages:
            page = answer_with_page(
                session_id,
                sessions=house.sessions,
                turns=house.turns,
                remote=house.remote,
                confirmations=house.confirmations,
            )
            pages.append(asyncio.run_coroutine_threadsafe(page, loop))
            with suppress(TimeoutError):  # it is read now, unless it waits
                pages[0].result(0.5)
        return replace(files, *rest, **how)

    monkeypatch.setattr(SessionFiles, "replace", read_page_before)
    house.model.say_text("Two.")
    await (await desk.send(session_id, "Second?")).finished()

    page = json.loads((await asyncio.wrap_future(pages[0])).content)
    shown = [each["content"] for each in page["messages"]]
    assert shown[:3] == ["First?", "One.", "Second?"]
