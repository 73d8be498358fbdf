// Draws Markdown as elements, from the parser's tokens: no markup is made of a text, so none of it
// can run. Images are shown as links, because loading them would tell their server what the model has read.

import { CodeBlock } from "./code.js";
import { element, link } from "./elements.js";
import { findsFormulas, formula } from "./math.js";
import MarkdownIt from "./vendor/markdown-it.js";

// What is longer is shown as it was written: looking for marks can take the square of a paragraph's
// length, and many small blocks are slow to lay out.
const LONGEST_PARAGRAPH = 5000;
const LONGEST = 200_000;
const PLAIN = { type: "plain", nesting: 0, level: 0, children: null };
// What may become a table, a heading, a list or a fence is not shown before it is one: else it flickers.
const UNDECIDED =
  /(?:(?:^|\n[ \t]*\n)\|[^\n]*(?:\n[-|: \t]*\n?)?|\n\|[^\n]*|(?:^|\n)[ \t]*(?:[-=*+>#`~$]+|\d+[.)]?|\[[ x]?)[ \t]*)$/;
const TASK = /^\[([ xX])\]\s+/;

const parser = new MarkdownIt({ linkify: true, breaks: true });
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
parser.use(findsFormulas);
const parseInline = parser.inline.parse;
parser.inline.parse = function (text, ...others) {
  if (text.length < LONGEST_PARAGRAPH) return parseInline.call(this, text, ...others);
  others[2].push({ ...PLAIN, content: text });
};

/** A text that may grow: what is added changes its last block alone, the others stay as they are. */
export class MarkdownText {
  constructor(node = element("div", { class: "text" })) {
    this.element = node;
    this.finished = ""; // the part of the text whose blocks stay
    this.last = []; // the nodes of the last block
    this.code = null; // which may be code
  }

  update(text) {
    this.draw(text.replace(UNDECIDED, ""));
  }

  draw(text) {
    if (text === this.shown) return; // what is selected in it stays selected
    if (!text.startsWith(this.finished)) this.clear();
    this.shown = text;
    const rest = text.slice(this.finished.length);
    const tokens = rest.length < LONGEST ? parser.parse(rest, {}) : [{ ...PLAIN, content: rest }];
    const start = Math.max(tokens.findLastIndex((each) => each.level === 0 && each.nesting >= 0), 0);
    const begun = tokens[start];
    if (this.code && start === 0 && begun?.type === "fence" && languageOf(begun) === this.code.language) {
      this.code.update(begun.content.replace(/\n$/, ""));
      return;
    }
    for (const node of this.last) node.remove();
    this.element.append(draw(tokens.slice(0, start)).root);
    const { root, codes } = draw(tokens.slice(start));
    this.last = [...root.childNodes];
    this.code = begun?.type === "fence" ? codes[0] : null;
    this.element.append(root);
    if (start > 0) this.finished += rest.slice(0, offsetOf(rest, begun.map[0]));
  }

  /** Draw the whole text, and what was left for later while it grew. */
  finish(text) {
    if (/^ {0,3}\[[^\]\n]+\]:/m.test(text) && text !== this.whole) this.clear(); // addresses at the end, of links before
    this.whole = text;
    this.draw(text);
    this.code?.finish();
  }

  clear() {
    this.element.replaceChildren();
    this.shown = null;
    this.finished = "";
    this.last = [];
    this.code = null;
  }
}

function draw(tokens) {
  const root = document.createDocumentFragment();
  const open = [root];
  const codes = [];
  tokens.forEach((token, index) => {
    if (token.hidden) return; // paragraphs of lists whose items have no blank lines between them
    if (token.nesting < 0) return void open.pop();
    const inLink = open.some((each) => each.localName === "a");
    const made = nodeOf(token, tokens.slice(index + 1, index + 3), inLink);
    if (made instanceof CodeBlock) codes.push(made);
    open.at(-1).append(made.outer ?? made.element ?? made);
    if (token.nesting > 0) open.push(made.inner ?? made);
  });
  return { root, codes };
}

function nodeOf(token, following, inLink) {
  switch (token.type) {
    case "inline":
      return draw(token.children).root;
    case "plain":
      return element("span", { class: "plain" }, token.content);
    case "text":
      return document.createTextNode(token.content);
    case "softbreak":
    case "hardbreak":
      return element("br");
    case "code_inline":
      return element("code", {}, token.content);
    case "fence":
    case "code_block":
      return new CodeBlock(languageOf(token), token.content.replace(/\n$/, ""));
    case "formula":
      return formula(token.content, token.block);
    case "link_open":
      return link(token.attrGet("href"));
    case "image":
      return inLink ? element("span", {}, token.content) : link(token.attrGet("src"), token.content || token.attrGet("src"));
    case "heading_open":
      return element(`h${Math.min(Number(token.tag[1]) + 2, 6)}`);
    case "table_open": {
      const inner = element("table");
      return { inner, outer: element("div", { class: "table", tabindex: "0" }, inner) };
    }
    case "th_open":
    case "td_open":
      return element(token.tag, { class: token.attrGet("style")?.replace("text-align:", "") });
    case "ordered_list_open":
      return element("ol", { start: token.attrGet("start") });
    case "list_item_open":
      return item(following);
    default:
      return element(token.tag);
  }
}

/** Return an item of a list, with a box if it is a task. */
function item([paragraph, inline]) {
  const task = paragraph?.type === "paragraph_open" && inline?.children[0]?.type === "text" && TASK.exec(inline.children[0].content);
  if (!task) return element("li");
  inline.children[0].content = inline.children[0].content.replace(TASK, "");
  const isDone = task[1] !== " ";
  return element("li", { class: "task" }, element("input", { type: "checkbox", disabled: true, checked: isDone, "aria-label": isDone ? "Done" : "To do" }));
}

function languageOf(token) {
  return /^[\w+#.-]*/.exec(token.info ?? "")[0].toLowerCase();
}

/** Return where a line begins, as the parser counts lines. */
function offsetOf(text, line) {
  const ends = /\r\n?|\n/g;
  while (line-- > 0) ends.exec(text);
  return ends.lastIndex;
}
