"""The token of a login: renewed by one process for all, and lost with none."""

import asyncio
from contextlib import asynccontextmanager

from sessions_app.errors import StorageUnavailable
from sessions_app.store.file_records import FileRecords
from tests.unit.tools_app.mcp.oauth_servers import protected
from tools_app.mcp.config import HttpSpec
from tools_app.mcp.login import EARLY_SECONDS, RENEWAL_SECONDS, ServerLogin
from tools_app.mcp.login_records import Renewal
from tools_app.mcp.logins import come_back_of
from tools_app.mcp.oauth_spec import OAuthSpec


@asynccontextmanager
async def logged_in(lab, **changes):
    """Serve a server that somebody has logged in to."""
    async with protected(**changes) as server:
        await lab.configure(docs={"url": server.url})
        begun = await lab.logins.begin("docs")
        await lab.logins.finish(come_back_of(server.logins.authorize(begun.url)))
        yield server


def login_of(lab, server):
    """Return the login as another process has it."""
    spec = HttpSpec(url=server.url, oauth=OAuthSpec())
    return ServerLogin("docs", spec, lab.policy)


def refreshes(server):
    return [form for _, form in server.logins.asked if form.get("grant_type") == "refresh_token"]


async def test_a_token_is_renewed_before_it_expires(lab):
    async with logged_in(lab) as server:
        await lab.call("docs__run")
        old = server.tokens[-1]
        lab.late = server.logins.lifetime - EARLY_SECONDS + 1

        assert (await lab.call("docs__run")).success

        assert server.tokens[-1] != old
        [asked] = refreshes(server)
        assert asked["resource"] == server.url


async def test_a_token_that_is_refused_is_renewed_once(lab):
    async with logged_in(lab) as server:
        await lab.call("docs__run")
        server.logins.access_tokens.clear()

        assert (await lab.call("docs__run")).success

        assert len(refreshes(server)) == 1


async def test_a_token_that_is_refused_when_it_is_new_needs_a_login(lab):
    async with logged_in(lab) as server:
        await lab.call("docs__run")
        server.logins.access_tokens = NoTokens()

        result = await lab.call("docs__run")

        assert "needs a login: mochi-server mcp login docs" in result.error_message
        assert len(refreshes(server)) == 1
        assert (await lab.server("docs")).state == "needs_login"


async def test_a_login_that_the_authorization_server_ended_is_needed_again(lab):
    async with logged_in(lab) as server:
        await lab.call("docs__run")
        server.logins.access_tokens.clear()
        server.logins.refresh_tokens.clear()

        result = await lab.call("docs__run")

        assert result.error_code == "SERVICE_UNAVAILABLE"
        status = await lab.server("docs")
        assert (status.state, status.login.needed) == ("needs_login", True)


async def test_an_authorization_server_that_fails_does_not_end_the_login(lab):
    async with logged_in(lab) as server:
        await lab.call("docs__run")
        server.logins.fails = True
        server.logins.access_tokens.clear()
        assert not (await lab.call("docs__run")).success
        assert (await lab.server("docs")).state != "needs_login"

        server.logins.fails = False

        await lab.eventually(lambda: succeeds(lab))


async def test_many_who_need_a_new_token_at_once_renew_it_once(lab):
    async with logged_in(lab) as server:
        processes = [login_of(lab, server) for _ in range(4)]
        old = await processes[0].token()

        tokens = await asyncio.gather(
            *(login.renewed(old, "", lacks_scope=False) for login in processes for _ in range(3))
        )

        assert len(set(tokens)) == 1
        assert set(tokens) <= server.logins.access_tokens
        assert len(refreshes(server)) == 1


async def test_a_renewal_is_not_cancelled_with_the_call_that_needs_it(lab):
    async with logged_in(lab) as server:
        login = login_of(lab, server)
        old = await login.token()
        gate = server.logins.gate = asyncio.Event()
        waiting = asyncio.create_task(login.renewed(old, "", lacks_scope=False))
        await lab.eventually(lambda: refreshes(server))

        waiting.cancel()
        await asyncio.wait([waiting])
        gate.set()
        await login.aclose()

        assert await login_of(lab, server).token() in server.logins.access_tokens
        assert await login.token() != old


async def test_a_renewal_of_a_process_that_died_is_made_by_another_one(lab):
    async with logged_in(lab) as server:
        login = login_of(lab, server)
        old = await login.token()
        now = await lab.policy.records.now()
        dead = Renewal(holder="dead", until=now + RENEWAL_SECONDS)
        await lab.change_record(renewal=dead)
        waiting = asyncio.create_task(login.renewed(old, "", lacks_scope=False))
        await asyncio.sleep(0)
        assert not refreshes(server)

        lab.late = RENEWAL_SECONDS

        assert await waiting in server.logins.access_tokens
        assert len(refreshes(server)) == 1


async def test_what_a_renewal_got_is_stored_when_the_store_works_again(lab, monkeypatch):
    async with logged_in(lab) as server:
        login = login_of(lab, server)
        old = await login.token()
        swap, failures = FileRecords.swap, iter([False, True, True])

        def failing(records, *arguments):
            if next(failures, False):
                raise StorageUnavailable("Not now.")
            return swap(records, *arguments)

        monkeypatch.setattr(FileRecords, "swap", failing)

        new = await login.renewed(old, "", lacks_scope=False)

        assert new in server.logins.access_tokens
        assert await login_of(lab, server).token() == new
        assert len(refreshes(server)) == 1


async def test_what_a_late_renewal_got_does_not_replace_a_login(lab):
    async with logged_in(lab) as server:
        login = login_of(lab, server)
        old = await login.token()
        gate = server.logins.gate = asyncio.Event()
        renewing = asyncio.create_task(login.renewed(old, "", lacks_scope=False))
        await lab.eventually(lambda: refreshes(server))
        begun = await lab.logins.begin("docs")
        await lab.logins.finish(come_back_of(server.logins.authorize(begun.url)))
        new = await login.token()

        gate.set()

        assert await renewing == new
        assert await login.token() == new


async def test_a_login_that_was_forgotten_during_its_renewal_stays_forgotten(lab):
    async with logged_in(lab) as server:
        login = login_of(lab, server)
        old = await login.token()
        gate = server.logins.gate = asyncio.Event()
        renewing = asyncio.create_task(login.renewed(old, "", lacks_scope=False))
        await lab.eventually(lambda: refreshes(server))
        await lab.logins.forget("docs")

        gate.set()

        assert await renewing is None
        assert await login.token() is None


async def test_rights_that_a_tool_lacks_are_asked_for_with_those_there_are(lab):
    async with logged_in(lab) as server:
        server.demanded_scope = "read"
        lacking = await lab.call("docs__run")
        assert lacking.error_code == "SERVICE_UNAVAILABLE"
        assert "needs a login with more rights (read)" in lacking.error_message
        status = await lab.server("docs")
        assert (status.state, status.login.needed, status.login.scopes) == ("ready", True, ["read"])
        await log_in(lab, server)
        assert (await lab.call("docs__run")).success

        server.demanded_scope = "write"
        await lab.call("docs__run")
        begun = await log_in(lab, server)

        assert "scope=read+write" in begun.url
        assert (await lab.call("docs__run")).success
        assert refreshes(server) == []


async def test_after_three_logins_for_more_rights_in_a_row_there_is_no_fourth(lab):
    async with logged_in(lab) as server:
        server.grants = "nothing"
        server.demanded_scope = "more"
        for _ in range(3):
            await lab.call("docs__run")
            await log_in(lab, server)
        await lab.call("docs__run")

        refused = await asyncio.gather(lab.logins.begin("docs"), return_exceptions=True)

        assert "after each of the last 3 logins" in str(refused[0])
        await lab.logins.forget("docs")
        assert await log_in(lab, server)


async def test_a_server_logs_in_by_itself(lab):
    async with protected() as server:
        oauth = {
            "grant": "client_credentials",
            "client_id": "me",
            "client_secret": "hush-hush-hush",
            "issuer": server.logins.url,
        }
        await lab.configure(docs={"url": server.url, "oauth": oauth})

        assert (await lab.call("docs__run")).success
        server.logins.access_tokens.clear()
        assert (await lab.call("docs__run")).success

        assert (await lab.server("docs")).login.needed is False
        assert [form["grant_type"] for _, form in server.logins.asked if form] == [
            "client_credentials"
        ] * 2


async def test_a_secret_that_is_wrong_is_said_without_asking_for_a_person(lab):
    async with protected() as server:
        server.logins.fails = 401
        oauth = {
            "grant": "client_credentials",
            "client_id": "me",
            "client_secret": "hush-hush-hush",
            "issuer": server.logins.url,
        }
        await lab.configure(docs={"url": server.url, "oauth": oauth})

        result = await lab.call("docs__run")

        assert "authorization server answered 401" in result.error_message
        assert "hush" not in result.error_message
        assert (await lab.server("docs")).state in {"backing_off", "failed"}


class NoTokens(set):
    def __contains__(self, token):
        return False


async def log_in(lab, server):
    begun = await lab.logins.begin("docs")
    await lab.logins.finish(come_back_of(server.logins.authorize(begun.url)))
    return begun


async def succeeds(lab):
    return (await lab.call("docs__run")).success
