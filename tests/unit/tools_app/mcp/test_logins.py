"""People log in to a server: in a browser, while turns go on without it."""

import asyncio
import json
import stat
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.tools_app.mcp.http_servers import listening, older_server
from tests.unit.tools_app.mcp.oauth_servers import protected
from tools_app.errors import LoginNotOffered, ToolServerNotFound, ToolServerUnavailable
from tools_app.mcp.logins import LoginFailed, come_back_of


async def log_in(lab, server, **refusal):
    """Log in as a person with a browser does."""
    begun = await lab.logins.begin("docs")
    back = server.logins.authorize(begun.url, **refusal)
    return await lab.logins.finish(come_back_of(back))


async def test_a_server_that_wants_a_login_says_so_and_turns_go_on(lab):
    async with protected() as server:
        await lab.configure(docs={"url": server.url})

        result = await lab.call("docs__run")

        assert result.error_code == "SERVICE_UNAVAILABLE"
        assert "needs a login: mochi-server mcp login docs" in result.error_message
        status = await lab.server("docs")
        assert (status.state, status.tools) == ("needs_login", [])
        assert status.error == "It needs a login: mochi-server mcp login docs."
        assert status.login is not None
        assert (status.login.needed, status.login.url) == (True, None)
        asked = len(server.tokens)
        await lab.call("docs__run")
        assert len(server.tokens) == asked, "a server is not asked again before a login"


async def test_after_a_login_its_tools_run_with_the_token(lab):
    async with protected() as server:
        await lab.configure(docs={"url": server.url})
        await lab.listed("docs")

        assert await log_in(lab, server) == "docs"

        assert (await lab.call("docs__run")).result == "ran"
        assert (await lab.server("docs")).login.needed is False
        assert server.tokens[-1] in server.logins.access_tokens


async def test_a_login_is_of_use_after_a_restart(lab):
    async with protected() as server:
        await lab.configure(docs={"url": server.url})
        await log_in(lab, server)
        await lab.tools.aclose()

        lab.start()

        assert (await lab.call("docs__run")).success


async def test_a_person_may_come_back_to_another_process_and_after_a_restart(lab):
    async with protected() as server:
        await lab.configure(docs={"url": server.url})
        begun = await lab.logins.begin("docs")
        back = server.logins.authorize(begun.url)
        await lab.tools.aclose()
        lab.start()

        await lab.logins.finish(come_back_of(back))

        assert (await lab.call("docs__run")).success


async def test_a_process_notices_the_login_that_another_one_finished(lab):
    async with protected() as server:
        await lab.configure(docs={"url": server.url})
        here, logins_here = lab.tools, lab.logins
        there = lab.start()
        await here.listing()
        begun = await lab.logins.begin("docs")
        await lab.logins.finish(come_back_of(server.logins.authorize(begun.url)))
        await there.aclose()

        lab.tools, lab.logins = here, logins_here

        assert (await lab.call("docs__run")).success


async def test_tokens_are_in_a_file_of_the_owner_alone(lab):
    async with protected() as server:
        await lab.configure(docs={"url": server.url})
        await log_in(lab, server)

        [file] = await asyncio.to_thread(lambda: list(lab.tokens.glob("*.json")))

        mode = (await asyncio.to_thread(file.stat)).st_mode
        assert stat.S_IMODE(mode) == 0o600
        shown = json.dumps([str(each) for each in await lab.tools.servers()])
        for token in (*server.logins.access_tokens, *server.logins.refresh_tokens):
            assert token in await asyncio.to_thread(file.read_text)
            assert token not in shown


async def test_a_login_that_was_begun_is_the_same_for_all_who_begin_it(lab):
    async with protected() as server:
        await lab.configure(docs={"url": server.url})

        first = await lab.logins.begin("docs")

        assert await lab.logins.begin("docs") == first
        assert len(server.logins.clients) == 1
        assert (await lab.server("docs")).login.url == first.url
        state = parse_qs(urlsplit(first.url).query)["state"][0]
        assert len(state) >= 43, "256 bits"


async def test_a_state_is_used_once(lab):
    async with protected() as server:
        await lab.configure(docs={"url": server.url})
        begun = await lab.logins.begin("docs")
        answer = come_back_of(server.logins.authorize(begun.url))
        outcomes = await asyncio.gather(
            *(lab.logins.finish(answer) for _ in range(5)), return_exceptions=True
        )

        assert outcomes.count("docs") == 1
        assert {each.status for each in outcomes if isinstance(each, LoginFailed)} == {400}


@pytest.mark.parametrize("query", ["", "?state=", "?state=x", f"?code=c&state={'A' * 43}"])
async def test_a_state_that_nobody_was_given_is_refused(lab, query):
    async with protected() as server:
        await lab.configure(docs={"url": server.url})
        await lab.logins.begin("docs")

        with pytest.raises(LoginFailed) as refused:
            await lab.logins.finish(come_back_of("http://127.0.0.1/callback" + query))

        assert refused.value.status == 400


async def test_a_person_who_comes_back_too_late_begins_again(lab):
    async with protected() as server:
        await lab.configure(docs={"url": server.url})
        begun = await lab.logins.begin("docs")
        lab.late = 600

        with pytest.raises(LoginFailed) as late:
            await lab.logins.finish(come_back_of(server.logins.authorize(begun.url)))

        assert late.value.status == 410
        assert (await lab.logins.begin("docs")).url != begun.url


async def test_what_the_person_refused_is_told(lab):
    async with protected() as server:
        await lab.configure(docs={"url": server.url})

        with pytest.raises(LoginFailed):
            await log_in(lab, server, error="access_denied", error_description="No, " + "x" * 900)

        status = await lab.server("docs")
        assert status.state == "needs_login"
        assert "The last login failed: access_denied: No, xxx" in status.error
        assert len(status.error) < 400


async def test_an_answer_of_another_authorization_server_is_refused(lab):
    async with protected(iss="https://evil.example") as server:
        await lab.configure(docs={"url": server.url})

        with pytest.raises(LoginFailed):
            await log_in(lab, server)

        assert not [form for path, form in server.logins.asked if path == "/token"]
        assert (await lab.server("docs")).state == "needs_login"


async def test_a_server_that_asks_for_no_login_offers_none(lab):
    async with listening(older_server(dict)) as url:
        await lab.configure(open={"url": url}, local=lab.sdk())
        await lab.configure(
            open={"url": url}, keyed={"url": url, "headers": {"authorization": "x"}}
        )

        for name in ("open", "keyed"):
            with pytest.raises(LoginNotOffered):
                await lab.logins.begin(name)
        with pytest.raises(ToolServerNotFound):
            await lab.logins.begin("nobody")
        assert (await lab.server("open")).login is None


async def test_logging_out_forgets_and_revokes_the_tokens(lab):
    async with protected() as server:
        await lab.configure(docs={"url": server.url})
        await log_in(lab, server)
        await lab.listed("docs")
        [refresh] = server.logins.refresh_tokens

        await lab.logins.forget("docs")

        assert server.logins.revoked == [refresh]
        assert (await lab.call("docs__run")).error_code == "SERVICE_UNAVAILABLE"
        assert (await lab.server("docs")).state == "needs_login"
        for file in await asyncio.to_thread(lambda: list(lab.tokens.glob("*.json"))):
            assert refresh not in await asyncio.to_thread(file.read_text)


async def test_another_origin_needs_a_login_of_its_own(lab):
    async with protected() as server, protected() as other:
        await lab.configure(docs={"url": server.url})
        await log_in(lab, server)
        await lab.configure(docs={"url": other.url})

        assert not (await lab.call("docs__run")).success

        assert set(other.tokens) == {None}


async def test_a_resource_of_another_server_is_refused(lab):
    async with protected() as server:
        server.resource = "https://other.example/mcp"
        await lab.configure(docs={"url": server.url})

        with pytest.raises(ToolServerUnavailable, match="does not match"):
            await lab.logins.begin("docs")


async def test_changes_are_told(lab):
    async with protected() as server:
        await lab.configure(docs={"url": server.url})
        await lab.listed("docs")
        assert lab.told == ["docs"]
        begun = await lab.logins.begin("docs")
        await lab.logins.finish(come_back_of(server.logins.authorize(begun.url)))
        assert len(lab.told) == 3
