// Draws Markdown as elements. What it does not know stays text; images are shown as links, because
// loading them would tell their server what the model has read.

import { add, element, link } from "./elements.js";

// A line may have a megabyte: none of these goes through it again and again where it does not match.
const FENCE = /^ {0,3}(`{3,}|~{3,}(?!~))[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(?![ \t])(.*)$/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])[ \t]+(?![ \t])(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const INLINE =
  /(`+)([^`](?:.*?[^`])?)\1(?!`)|!?\[([^\[\]\n]*)\]\(([^()\s]+(?:\([^()\s]*\))?)\)|\*\*(?=\S)(.+?)\*\*|\*(?=\S)([^*\n]+?)\*|~~(?=\S)(.+?)~~|(https?:\/\/[^\s<>()"'`]+[^\s<>()"'`.,;:!?])|`+/s;
const DEEPEST = 8;
const LONGEST = 5000; // of a paragraph whose marks are drawn: looking for them takes the square of it

/** Return a fragment with the elements of a text. */
export function markdown(text) {
  const fragment = document.createDocumentFragment();
  add(fragment, blocks(text.split("\n"), 0));
  return fragment;
}

function* blocks(lines, depth) {
  let at = 0;
  const taken = (belongs) => {
    const first = at;
    while (at < lines.length && belongs(lines[at])) at++;
    return lines.slice(first, at);
  };
  while (at < lines.length) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    if (fence) {
      at++;
      const closing = new RegExp(`^ {0,3}${fence[1][0]}{${fence[1].length},}[ \\t]*$`);
      const code = taken((each) => !closing.test(each));
      at++;
      yield element("pre", { tabindex: "0" }, element("code", {}, code.join("\n")));
    } else if (!line.trim()) {
      at++;
    } else if (HEADING.test(line)) {
      const [, marks, title] = HEADING.exec(line);
      yield element(`h${Math.min(marks.length + 2, 6)}`, {}, inline(unclosed(title), 0));
      at++;
    } else if (RULE.test(line)) {
      at++;
      yield element("hr");
    } else if (QUOTE.test(line) && depth < DEEPEST) {
      const quoted = taken((each) => QUOTE.test(each)).map((each) => QUOTE.exec(each)[1]);
      yield element("blockquote", {}, blocks(quoted, depth + 1));
    } else if (ITEM.test(line) && depth < DEEPEST) {
      yield list(taken, lines, () => at, depth);
    } else {
      const first = lines[at++];
      const others = taken((each) => each.trim() && ![FENCE, HEADING, QUOTE, ITEM].some((kind) => kind.test(each)));
      yield element("p", {}, inline([first, ...others].join("\n"), 0));
    }
  }
}

/** Return a title without the marks that close it, and the blanks before them. */
function unclosed(title) {
  let end = title.length;
  while (title[end - 1] === "#") end--;
  while (title[end - 1] === " " || title[end - 1] === "\t") end--;
  return title.slice(0, end);
}

function list(taken, lines, at, depth) {
  const ordered = /\d/.test(ITEM.exec(lines[at()])[2]);
  const items = [];
  while (at() < lines.length && ITEM.test(lines[at()]) && /\d/.test(ITEM.exec(lines[at()])[2]) === ordered) {
    let isFirst = true;
    const own = taken((each) => {
      const belongs = isFirst || /^( {2,}|\t)\S/.test(each);
      isFirst = false;
      return belongs;
    });
    const [, , , text] = ITEM.exec(own[0]);
    const inside = [text, ...own.slice(1).map((each) => each.replace(/^( {2,4}|\t)/, ""))];
    items.push(element("li", {}, blocks(inside, depth + 1)));
  }
  return element(ordered ? "ol" : "ul", {}, items);
}

function* inline(text, depth) {
  let rest = text;
  while (rest) {
    const found = depth < DEEPEST && rest.length < LONGEST ? INLINE.exec(rest) : null;
    if (!found) break;
    if (found.index) yield rest.slice(0, found.index);
    const [whole, , code, label, address, bold, italic, struck, bare] = found;
    if (code !== undefined) yield element("code", {}, code);
    else if (address !== undefined) yield link(address, inline(label || address, depth + 1));
    else if (bold !== undefined) yield element("strong", {}, inline(bold, depth + 1));
    else if (italic !== undefined) yield element("em", {}, inline(italic, depth + 1));
    else if (struck !== undefined) yield element("del", {}, inline(struck, depth + 1));
    else if (bare !== undefined) yield link(bare, bare);
    else yield whole; // backquotes that nothing closes: none of them is tried again
    rest = rest.slice(found.index + whole.length);
  }
  if (rest) yield rest;
}
