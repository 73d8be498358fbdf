"""How the chat page shows messages: Markdown, code, formulas, and what can be done with them."""

import pytest

from tests.functional.browser import needs_browser
from tests.functional.chat_page.conftest import MARKDOWN, Page
from tests.functional.conftest import block

pytestmark = [pytest.mark.interop, needs_browser]

TABLE = "| Step | Time |\n| --- | ---: |\n| Parse | 12 ms |\n"
CODE = "```python\ndef add(a, b):\n    return a + b  # <b>&amp;\n```\n"
DRAW = (
    MARKDOWN
    + """
    const draw = (text) => {
      const article = document.createElement('article');
      article.append(document.createElement('div'));
      article.lastChild.className = 'text';
      article.lastChild.append(markdown(text));
      $('messages').replaceChildren(article);
      return article.lastChild;
    };
"""
)


async def test_tables_tasks_and_strikes_are_drawn(page: Page) -> None:
    shown = f"""{DRAW}
        const text = draw(source);
        const inside = (selector) => [...text.querySelectorAll(selector)];
        const cells = inside('td').map((each) => [each.textContent, each.className]);
        const tasks = inside('li.task').map((each) => [each.textContent, each.firstChild.checked]);
        return [cells, tasks, text.querySelector('s').textContent];
    """
    source = f"{TABLE}\n- [x] Parser\n- [ ] ~~Renderer~~\n"
    assert await page.do(shown, source=source) == [
        [["Parse", ""], ["12 ms", "right"]],
        [["Parser", True], ["Renderer", False]],
        "Renderer",
    ]


async def test_code_has_its_language_its_colours_and_is_copied_as_it_was_written(
    page: Page,
) -> None:
    shown = f"""{DRAW}
        let copied;
        const clipboard = {{ writeText: async (text) => (copied = text) }};
        Object.defineProperty(navigator, 'clipboard', {{ value: clipboard }});
        const text = draw(source);
        press('Copy', text);
        await until(() => text.querySelector('figcaption button').textContent === 'Copied');
        const spans = [...text.querySelectorAll('code span')];
        const colours = new Set(spans.map((each) => getComputedStyle(each).color));
        const language = text.querySelector('figcaption span').textContent;
        const code = text.querySelector('code').textContent;
        return [language, copied, colours.size > 2, code === copied];
    """
    code = "def add(a, b):\n    return a + b  # <b>&amp;"
    assert await page.do(shown, source=CODE) == ["python", code, True, True]


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("The cost is $O(n \\log n)$.", ["O(n \\log n)"]),
        ("$x$, \\(y\\) and\n\n\\[z\\]", ["x", "y", "z"]),
        ("Before\n$$\na^2\n$$\nafter", ["\na^2\n"]),
        ("Tea is $5 and cake $10.", []),
        ("From $5 to US$10, or 5$ to 10$.", []),
        ("($5) or ($6), $7/mo or $8/mo, $1,000-$2,000.", []),
        ("Set $HOME and $PATH, or $HOME/$USER.", []),
        ("`$a$` and \\$b\\$ and $$", []),
    ],
)
async def test_formulas_are_told_from_prices(page: Page, text: str, formulas: list[str]) -> None:
    shown = f"""{DRAW}
        const drawn = draw(source);
        const found = [...drawn.querySelectorAll('.formula')];
        await until(() => found.every((each) => each.querySelector('.katex')));
        return found.map((each) => each.ariaLabel);
    """
    assert await page.do(shown, source=text) == formulas
    assert page.crashes == []


async def test_a_formula_that_is_wrong_is_shown_as_it_was_written(page: Page) -> None:
    shown = f"""{DRAW}
        const drawn = draw('$\\\\frac{{1}}$');
        await until(() => drawn.querySelector('.formula.plain'));
        return drawn.textContent;
    """
    assert await page.do(shown) == "\\frac{1}"


async def test_no_formula_covers_what_is_below_its_text(page: Page) -> None:
    covered = f"""{DRAW}
        const text = draw(source);
        const below = document.createElement('div');
        below.className = 'question';
        below.style.height = '20rem';
        text.after(below);
        const rule = await until(() => text.querySelector('.katex-rule'));
        const {{ left, width, bottom }} = rule.getBoundingClientRect();
        const {{ top }} = below.getBoundingClientRect();
        const under = document.elementFromPoint(left + Math.min(width, 200) / 2, bottom - 8);
        return [bottom > top + 16, under === below];
    """
    source = r"Look: $\smash{\textcolor{red}{\rule[-9em]{40em}{8em}}}$"
    assert await page.do(covered, source=source) == [True, True]


async def test_code_and_tables_scroll_on_a_phone_and_long_words_wrap(page: Page) -> None:
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    await page.tab.call("Emulation.setDeviceMetricsOverride", **metrics)
    wide = f"""{DRAW}
        const drawn = draw(source);
        const scrolls = (selector) => {{
          const {{ scrollWidth, clientWidth }} = drawn.querySelector(selector);
          return scrollWidth > clientWidth;
        }};
        const {{ scrollWidth, clientWidth }} = $('messages');
        return [scrolls('pre'), scrolls('.table'), scrollWidth <= clientWidth];
    """
    row = "| " + " | ".join(f"column{number}" for number in range(12)) + " |"
    table = f"{row}\n{'| --- ' * 12}|\n{row}\n"
    source = (
        f"{table}\n```\n{'word ' * 60}\n```\n\n{'unbroken' * 30} https://example.org/{'a' * 200}"
    )
    assert await page.do(wide, source=source) == [True, True, True]


async def test_what_is_selected_in_finished_blocks_stays_while_more_is_written(page: Page) -> None:
    pieces = ["First paragraph.\n\n", f"{CODE}\n", *(f"word{number} " for number in range(40))]
    message = block({"text_message": {"text": pieces}}, words_per_second=40)
    await page.do("await say(text)", text=message)
    selected = await page.do(
        """
        const text = () => all('article.assistant .text').at(-1);
        await until(() => text()?.textContent.includes('word2'));
        const [paragraph, figure] = text().children;
        getSelection().selectAllChildren(paragraph);
        await idle();
        await until(() => text().textContent.includes('word39'));
        const [first, second] = text().children;
        return [getSelection().toString(), first === paragraph, second === figure];
        """
    )
    assert selected == ["First paragraph.", True, True]


async def test_what_is_half_received_does_not_flicker(page: Page) -> None:
    source = f"Steps:\n- one\n- two\n\n{TABLE}\nCode:\n\n{CODE}\n1. x\n\nTotal:\n---\nEnd"
    shown = """
        const { MarkdownText } = await import('/markdown.js');
        const drawn = new MarkdownText();
        const seen = new Set();
        for (let end = 1; end <= source.length; end++) {
          drawn.update(source.slice(0, end));
          const last = drawn.element.lastElementChild;
          if (last) seen.add(last.localName === 'p' ? last.textContent : last.localName);
        }
        const words = ['Steps:', 'Code:', 'Total:', 'End'];
        return [...seen].filter((each) => !words.some((word) => word.startsWith(each)));
    """
    kinds = ["ul", "div", "figure", "ol", "h4"]
    assert await page.do(shown, source=source) == kinds


async def test_links_to_addresses_at_the_end_are_drawn_once_they_are_there(page: Page) -> None:
    source = "See [the docs][1].\n\nMore.\n\n[1]: https://example.org/docs\n"
    shown = """
        const { MarkdownText } = await import('/markdown.js');
        const drawn = new MarkdownText();
        for (let end = 1; end <= source.length; end += 3) drawn.update(source.slice(0, end));
        drawn.finish(source);
        return [drawn.element.querySelector('a').href, drawn.element.children.length];
    """
    assert await page.do(shown, source=source) == ["https://example.org/docs", 2]


async def test_a_text_that_grows_ends_as_the_same_text_drawn_at_once(page: Page) -> None:
    lists = "- a\n  - b\n\n    c\n- d\n"
    source = f"# Title\n\nOne\ntwo\n\n{lists}\n{TABLE}\n> q\nlazy\n\n{CODE}\n1. x\n\n$$\ny\n$$\nEnd"
    shown = (
        MARKDOWN
        + """
        const drawn = new MarkdownText();
        for (let end = 1; end <= source.length; end++) drawn.update(source.slice(0, end));
        drawn.finish(source);
        await until(() => drawn.element.querySelector('.katex'));
        const whole = document.createElement('div');
        whole.append(markdown(source));
        await until(() => whole.querySelector('.katex'));
        return drawn.element.isEqualNode(Object.assign(whole, { className: 'text' }));
    """
    )
    assert await page.do(shown, source=source) is True


async def test_an_answer_shows_what_it_took_and_when_it_was_given(page: Page) -> None:
    line, more = await page.do(
        """
        await say(text);
        await idle();
        const line = await until(() => all('article.assistant .usage').at(-1));
        return [line.textContent, line.title];
        """,
        text=block({"text_message": {"length": 40}}, words_per_second=100),
    )
    tokens, seconds, _ = line.split(" · ")
    assert tokens.endswith(" tokens")
    assert seconds.endswith(" s")
    assert more.startswith("qwen3:14b\n")
    assert "tokens in" in more


async def test_a_message_is_deleted_after_a_question(page: Page) -> None:
    deleted = """
        await say('Hello');
        await idle();
        press('Delete', all('article.assistant')[0]);
        await until(() => $('ask').open);
        press('OK', $('ask'));
        await until(() => !all('article.assistant').length);
        return all('article').length;
    """
    assert await page.do(deleted) == 1


async def test_no_id_of_a_message_leads_to_another_conversation(page: Page) -> None:
    other = await page.new_session()
    refused = """
        const { Conversation } = await import('/conversation.js');
        const said = [];
        const hooks = { alert: (line) => said.push(line) };
        const conversation = new Conversation($('messages'), {}, hooks);
        conversation.id = '0123456789';
        conversation.remove(`../../${other}?force=true#`);
        await until(() => $('ask').open);
        press('OK', $('ask'));
        await until(() => said.some((line) => line));
        return [said.at(-1), (await api(`sessions/${other}`)).session_id];
    """
    said, kept = await page.do(refused, other=other)
    assert said.startswith("This is not the id of a message: ../../")
    assert kept == other


async def test_nothing_jumps_when_an_answer_is_stopped(page: Page) -> None:
    words = [f"word{number} " for number in range(500)]
    message = block({"text_message": {"text": words}}, words_per_second=20)
    heights = """
        await say(text);
        await until(() => answers().at(-1)?.includes('word1'));
        const end = all('article.assistant .end').at(-1);
        const before = end.offsetHeight;
        $('stop').click();
        await idle();
        await until(() => end.textContent.includes('You stopped this answer.'));
        return [before, end.offsetHeight];
    """
    before, after = await page.do(heights, text=message)
    assert before == after


async def test_an_image_is_shown_larger_when_it_is_clicked(page: Page) -> None:
    shown = """
        const { filesPart } = await import('/files.js');
        const canvas = new OffscreenCanvas(12, 9);
        canvas.getContext('2d').fillRect(0, 0, 12, 9);
        const drawn = await canvas.convertToBlob();
        const { upload } = await import('/client.js');
        const file = await upload(new File([drawn], 'square.png', { type: 'image/png' }));
        $('messages').append(...filesPart([file]));
        const image = all('.files img')[0];
        await until(() => image.naturalWidth === 12);
        image.closest('button').click();
        const [dialog] = all('dialog.picture');
        const open = [dialog.open, dialog.querySelector('img').alt];
        press('Close', dialog);
        await until(() => !all('dialog.picture').length);
        return open;
    """
    assert await page.do(shown) == [True, "square.png"]


async def test_a_file_is_saved_by_its_own_name(page: Page) -> None:
    saved = """
        const { filesPart } = await import('/files.js');
        const { upload } = await import('/client.js');
        const blobs = [];
        URL.createObjectURL = (blob) => blobs.push(blob) && 'blob:x';
        const names = [];
        HTMLAnchorElement.prototype.click = function () { names.push(this.download); };
        $('messages').append(...filesPart([await upload(new File(['Salt.'], 'Übung (1).txt'))]));
        all('.files .chip')[0].click();
        await until(() => names.length);
        return [names, await blobs[0].text()];
    """
    assert await page.do(saved) == [["Übung (1).txt"], "Salt."]


async def test_opening_a_conversation_reads_nothing_aloud_and_lets_go_of_pictures(
    page: Page,
) -> None:
    session_id = await page.new_session()
    await page.api(f"chat/{session_id}", {"message": "Hello"})
    opened = """
        const { attachmentUrl, upload } = await import('/client.js');
        const picture = await attachmentUrl((await upload(new File(['x'], 'x.txt'))).id);
        const revoked = [];
        URL.revokeObjectURL = (url) => revoked.push(url);
        const states = [];
        const note = () => all('article').length && states.push($('messages').ariaBusy);
        new MutationObserver(note).observe($('thread'), { childList: true });
        location.hash = `#/${id}`;
        await until(() => states.length && $('messages').ariaBusy === 'false');
        return [states[0], revoked.includes(picture)];
    """
    assert await page.do(opened, id=session_id) == ["true", True]


@pytest.mark.timeout(120)
async def test_an_answer_is_drawn_fluently_below_two_hundred_messages_with_code(page: Page) -> None:
    answer = f"Some **text** with `code`.\n\n{CODE}\n{TABLE}\n" * 3
    times = await page.do(
        """
        const { LiveTurn, drawMessages } = await import('/message_view.js');
        const saved = Array.from({ length: 200 }, (_, index) => ({
          role: index % 2 ? 'assistant' : 'user', content: answer, message_id: String(index),
        }));
        const log = $('messages');
        log.replaceChildren(...drawMessages(saved, () => []));
        const live = new LiveTurn(log, () => {}, () => {});
        live.handle({ event: 'turn_started', data: { model: 'm', message_id: 'last' } });
        const times = [];
        for (const piece of answer.repeat(4).match(/[^]{1,12}/g)) {
          live.handle({ event: 'content_delta', data: { content: piece } });
          const begun = performance.now();
          live.draw();
          log.scrollTop = log.scrollHeight; // has the page laid out
          times.push(performance.now() - begun);
        }
        live.handle({ event: 'done', data: {} });
        return times.sort((a, b) => a - b);
        """,
        answer=answer,
    )
    assert times[len(times) // 2] < 50  # 2 on an idle machine, where drawing all anew takes 270
