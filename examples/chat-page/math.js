// Finds formulas in Markdown, between dollars or TeX's brackets, and draws them with KaTeX.

import { element } from "./elements.js";

const LONGEST = 5000; // of a formula that is drawn

/** Add the rules that find formulas to a parser: they make tokens of the type `formula`. */
export function findsFormulas(parser) {
  parser.inline.ruler.before("escape", "formula", inlineRule);
  parser.block.ruler.before("fence", "formula", blockRule, { alt: ["paragraph", "blockquote", "list"] });
}

/** Return an element with a formula; one that is wrong, or not complete yet, is shown as it was written. */
export function formula(tex, isBlock) {
  const shown = element(isBlock ? "div" : "span", isBlock ? { class: "formula", tabindex: "0" } : { class: "formula" }, tex);
  if (tex.length < LONGEST) import("./vendor/katex.js").then(() => {
    try {
      const drawn = document.createDocumentFragment();
      globalThis.katex.render(tex, drawn, { displayMode: isBlock, output: "html", maxExpand: 200, maxSize: 40, strict: "ignore" });
      shown.replaceChildren(drawn);
      shown.setAttribute("role", "math");
      shown.setAttribute("aria-label", tex);
    } catch {
      shown.classList.add("plain"); // KaTeX's own error says less to a reader than the formula
    }
  });
  return shown;
}

function inlineRule(state, silent) {
  const { src, pos } = state;
  const opening = ["$$", "$", "\\(", "\\["].find((each) => src.startsWith(each, pos));
  if (!opening) return false;
  const closing = { "\\(": "\\)", "\\[": "\\]" }[opening] ?? opening;
  const from = pos + opening.length;
  let to = state.unclosed?.has(closing) ? -1 : src.indexOf(closing, from);
  while (closing[0] === "$" && to > 0 && src[to - 1] === "\\") to = src.indexOf(closing, to + 1);
  if (to < 0) {
    (state.unclosed ??= new Set()).add(closing); // nor will those be that come after
    return false;
  }
  const tex = src.slice(from, to);
  if (!tex.trim() || (opening === "$" && !isFormula(tex, src[pos - 1], src[to + 1]))) return false;
  if (!silent) push(state, tex, opening === "$$" || opening === "\\[");
  state.pos = to + closing.length;
  return true;
}

/** Return whether what is between two dollars is a formula, and not prices, variables of a shell or words. */
function isFormula(tex, before = " ", after = " ") {
  if (/[\w$]/.test(before) || /[\w$]/.test(after) || /^\s|\s$/.test(tex)) return false;
  return /[\\^_={}<>+]/.test(tex) || !/[A-Za-z]{2}\s|\s[A-Za-z]{2}/.test(tex);
}

function blockRule(state, line, lastLine, silent) {
  const { src, bMarks, eMarks, sCount, tShift } = state;
  const start = bMarks[line] + tShift[line];
  const opening = src.slice(start, start + 2);
  if (opening !== "$$" && opening !== "\\[") return false;
  const closing = opening === "$$" ? "$$" : "\\]";
  for (let at = line; at < lastLine && eMarks[at] - start < LONGEST; at++) {
    if (at > line && sCount[at] < state.blkIndent) break;
    const from = at === line ? start + 2 : bMarks[at];
    const text = src.slice(from, eMarks[at]).trimEnd();
    if (!text.includes(closing)) {
      if (at > line && src.startsWith(opening, bMarks[at] + tShift[at])) break; // else each would look as far
      continue;
    }
    const tex = src.slice(start + 2, from + text.length - 2);
    if (!text.endsWith(closing) || !tex.trim() || tex.includes(closing)) return false;
    if (!silent) push(state, tex, true, [line, at + 1]);
    state.line = at + 1;
    return true;
  }
  return false;
}

function push(state, tex, isBlock, map = null) {
  const token = state.push("formula", "", 0);
  token.content = tex;
  token.block = isBlock;
  token.map = map;
}
