"""Pictures of the chat page, and that axe finds nothing to mend in what they show.

They are written into the folder that ``MOCHI_E2E_IMAGES`` names, else into a temporary one; ``just
screenshots`` makes those of the README.
"""

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from mochi_server.testing import MODEL, MochiServer, Reply, ToolCall, serve
from tests.functional.browser import needs_browser, tab_of
from tests.functional.chat_page.conftest import Page
from tests.functional.conftest import Server, StartServer

pytestmark = [pytest.mark.interop, needs_browser]

ROOT = Path(__file__).parents[3]
AXE = Path(os.environ.get("MOCHI_E2E_NODE_MODULES", ROOT / "node_modules")) / "axe-core/axe.min.js"
LARGEST = 250_000  # bytes
DESKTOP = {"width": 1280, "height": 840, "deviceScaleFactor": 1, "mobile": False}
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
TOOL = '''
__all__ = ["delete_folder"]


def delete_folder(path: str) -> str:
    """Delete a folder with all that is in it.

    Args:
        path: The folder.
    """
    return f"deleted {path}"
'''
FILLED = """Three folders hold most of it:

| Folder | Size | Last used |
| --- | ---: | --- |
| `~/.cache/models` | 18.2 GB | today |
| `~/.cache/thumbnails` | 8.4 GB | in March |
| `~/Downloads` | 5.1 GB | yesterday |

Thumbnails are made again when they are needed, so nothing is lost without them.
"""
FORMULA = r"""The sample mean of $n$ values has the standard error

$$
\operatorname{SE} = \frac{s}{\sqrt{n}}, \qquad s^2 = \frac{1}{n-1}\sum_{i=1}^{n} (x_i - \bar x)^2
$$

so four times the values halve it.

1. Measure before you change anything.
2. Change **one** thing, and measure again.

- [x] Baseline
- [ ] Change

```python
def standard_error(values: list[float]) -> float:
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return (variance / len(values)) ** 0.5  # of the mean
```
"""
OTHERS = (
    "Weekend in Lisbon",
    "A pattern for dates",
    "Letter to the landlord",
    "Why the tests are slow",
    "Names for a cat",
)

Open = Callable[..., Awaitable[Page]]
Shoot = Callable[..., Awaitable[None]]


@pytest.fixture
def shoot(tmp_path: Path) -> Shoot:
    """Return what takes a picture of a page, and lets axe look at it."""
    if not AXE.exists() and os.environ.get("CI") != "true":
        pytest.skip("axe-core is not installed")
    folder = Path(os.environ.get("MOCHI_E2E_IMAGES", tmp_path))

    async def shoot(page: Page, name: str) -> None:
        await page.do("await document.fonts.ready; document.activeElement.blur()")
        taken = await page.tab.call("Page.captureScreenshot", format="png")
        picture = base64.b64decode(taken["data"])
        await asyncio.to_thread((folder / f"chat-{name}.png").write_bytes, picture)
        assert len(picture) < LARGEST
        await page.tab.evaluate(await asyncio.to_thread(AXE.read_text))
        violations = """
            const { violations } = await axe.run();
            return violations.map(({ id, nodes }) => [id, nodes.map((each) => each.html)]);
        """
        assert await page.do(violations) == []
        assert page.crashes == []

    return shoot


@pytest.fixture
async def opened(browser: Path) -> AsyncIterator[Open]:
    """Return what opens the page at an address, on a screen, in a colour scheme."""
    async with tab_of(browser) as tab:

        async def show(
            url: str, path: str, screen: Mapping[str, Any] = DESKTOP, scheme: str = "light"
        ) -> Page:
            await tab.call("Emulation.setDeviceMetricsOverride", **screen)
            await tab.call("Emulation.setTouchEmulationEnabled", enabled=screen["mobile"])
            wishes = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
            features = [{"name": name, "value": value} for name, value in wishes.items()]
            await tab.call("Emulation.setEmulatedMedia", features=features)
            page = Page(tab, url)
            await page.open(path)
            return page

        yield show


def say(server: MochiServer, session: str, message: str) -> None:
    body = {"message": message, "detached": True}
    with httpx.stream(
        "POST", f"{server.api_url}/chat/{session}/stream", json=body, timeout=30
    ) as answer:
        for line in answer.iter_lines():
            if "confirmation_required" in line:
                return  # the turn waits


def made(server: MochiServer, title: str, **settings: Any) -> str:
    body = {"model": MODEL, **settings}
    session: str = httpx.post(f"{server.api_url}/sessions", json=body).json()["session_id"]
    address = f"{server.api_url}/sessions/{session}"
    httpx.patch(address, json={"title": title}).raise_for_status()
    return session


@pytest.fixture(scope="module")
def scripted() -> Iterator[MochiServer]:
    """Return a server whose models answer what they are told to."""
    with serve() as server:
        yield server


@pytest.fixture(scope="module")
def cleaning(scripted: MochiServer) -> str:
    """Return the address of a conversation that waits for an approval, among others."""
    server = scripted
    tools = server.data_dir / "tools"
    tools.mkdir()
    (tools / "folders.py").write_text(TOOL)
    for title in OTHERS:
        server.script("Yes.")
        say(server, made(server, title), "Hello")
    settings = {"tools": ["delete_folder"], "execution_policy": "always_confirm"}
    session = made(server, "What fills the disk", tool_settings=settings)
    call = ToolCall("delete_folder", {"path": "~/.cache/thumbnails"})
    server.script(Reply(FILLED, tool_calls=[call]))
    say(server, session, "What fills my disk? Delete what can go.")
    return f"/#/{session}"


@pytest.fixture(scope="module")
def answered(scripted: MochiServer) -> str:
    """Return the address of a conversation about formulas and code."""
    session = made(scripted, "Standard error")
    scripted.script(Reply(FORMULA, "They ask about the mean: SE, not SD.", words_per_second=60))
    say(scripted, session, "How sure can I be of a mean?")
    return f"/#/{session}"


@pytest.fixture(scope="module")
def waiting(scripted: MochiServer, cleaning: str) -> str:
    """Return the address of a conversation whose answer was stopped while messages waited."""
    settings = {"tools": ["delete_folder"], "execution_policy": "always_confirm"}
    session = made(scripted, "Cleaning up", tool_settings=settings)
    scripted.script(Reply("First:", tool_calls=[ToolCall("delete_folder", {"path": "~/tmp"})]))
    say(scripted, session, "Delete what can go.")
    chat = f"{scripted.api_url}/chat/{session}"
    for message in ("Leave my pictures where they are, please.", "And the downloads"):
        body = {"message": message, "when_busy": "queue"}
        httpx.post(f"{chat}/stream", json=body).raise_for_status()
    httpx.post(f"{chat}/cancel").raise_for_status()
    return f"/#/{session}"


@pytest.fixture(scope="module")
def without_models(start_once: StartServer) -> Server:
    """Return a server whose Ollama is not there."""
    return start_once(MOCHI_OLLAMA_HOST="http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("name", "screen", "scheme"),
    [
        ("light", DESKTOP, "light"),
        ("dark", DESKTOP, "dark"),
        ("phone", PHONE, "light"),
        ("phone-dark", PHONE, "dark"),
    ],
    ids=["light", "dark", "phone", "phone-dark"],
)
async def test_a_conversation_that_waits_for_an_approval(
    scripted: MochiServer,
    cleaning: str,
    opened: Open,
    shoot: Shoot,
    name: str,
    screen: Mapping[str, Any],
    scheme: str,
) -> None:
    page = await opened(scripted.url, cleaning, screen, scheme)
    await page.do("await until(() => all('.question').length === 1)")
    await shoot(page, name)


@pytest.mark.parametrize(
    ("screen", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["light", "phone-dark"]
)
async def test_messages_that_wait(
    scripted: MochiServer,
    waiting: str,
    opened: Open,
    shoot: Shoot,
    screen: Mapping[str, Any],
    scheme: str,
) -> None:
    page = await opened(scripted.url, waiting, screen, scheme)
    await page.do("await until(() => all('#inbox li').length === 2)")
    await shoot(page, f"waiting-{scheme}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_an_answer_with_formulas_and_code(
    scripted: MochiServer, answered: str, opened: Open, shoot: Shoot, scheme: str
) -> None:
    page = await opened(scripted.url, answered, scheme=scheme)
    await page.do("await until(() => all('.katex').length >= 2)")
    await shoot(page, f"answer-{scheme}")


async def test_an_answer_that_failed(scripted: MochiServer, opened: Open, shoot: Shoot) -> None:
    scripted.script("Yes.", Reply(status=401))
    page = await opened(scripted.url, "/")
    await page.do("await say('Is it there?'); await idle(); await say('And now?'); await idle()")
    await page.do("await until(() => $('alert').textContent)")
    await shoot(page, "error")


async def test_a_server_without_a_model(without_models: Server, opened: Open, shoot: Shoot) -> None:
    page = await opened(without_models.url, "/")
    await page.do("await until(() => !$('no-model').hidden)")
    await shoot(page, "no-model")
