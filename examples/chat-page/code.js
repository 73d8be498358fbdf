// Draws a block of code: its language, a button that copies it, and the code with colours.

import { button, element } from "./elements.js";
import highlighter from "./vendor/highlight.js";

const LONGEST = 50_000; // characters that are coloured: it takes about a millisecond for each thousand
const GROWTH = 1.2; // while it is written, code is coloured anew when it is this much longer
const ENTITIES = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'" };

export class CodeBlock {
  constructor(language, code) {
    this.language = language;
    this.code = "";
    this.coloured = 0; // characters
    this.body = element("code");
    this.element = element(
      "figure",
      { class: "code" },
      element("figcaption", {}, element("span", {}, language || "text"), copyButton(() => this.code)),
      element("pre", { tabindex: "0" }, this.body),
    );
    this.update(code);
  }

  /** Show the code, which may have grown; only what is new is drawn, unless its colours are due. */
  update(code) {
    if (code.length > Math.max(this.coloured * GROWTH, 1) || !code.startsWith(this.code)) this.draw(code);
    else if (code.length > this.code.length) this.body.append(code.slice(this.code.length));
    this.code = code;
  }

  /** Colour what was added since the colours were due. */
  finish() {
    if (this.coloured < this.code.length) this.draw(this.code);
  }

  draw(code) {
    this.coloured = code.length;
    this.body.replaceChildren(...coloured(code, this.language));
  }
}

/** Return a button that copies what a function returns, and says that it did. */
export function copyButton(text) {
  const made = button("Copy", async () => {
    await copy(text());
    made.textContent = "Copied";
    setTimeout(() => (made.textContent = "Copy"), 1500);
  });
  return made;
}

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = element("textarea", { class: "quiet" }); // a page without TLS has no clipboard
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

/** Return nodes with the classes that the highlighter gave: its markup is read, never parsed as HTML. */
function coloured(code, language) {
  if (!highlighter.getLanguage(language) || code.length > LONGEST) return [code];
  const root = document.createDocumentFragment();
  const open = [root];
  for (const part of highlighter.highlight(code, { language, ignoreIllegals: true }).value.split(/(<[^>]*>)/)) {
    if (part === "</span>") open.pop();
    else if (part.startsWith("<")) {
      const span = element("span", { class: /class="([^"]*)"/.exec(part)[1] });
      open.at(-1).append(span);
      open.push(span);
    } else if (part) open.at(-1).append(part.replace(/&(?:amp|lt|gt|quot|#x27);/g, (entity) => ENTITIES[entity]));
  }
  return [root];
}
