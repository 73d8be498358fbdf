// Makes elements. Text becomes text nodes, so nothing that a model says can become markup.

/**
 * Return a new element; a property that begins with `on` is a listener, others are attributes.
 * A child is a text, a node, null, or many of them: of a text of any length nothing is spread.
 */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  for (const child of children) add(made, child);
  return made;
}

/** Add a child, or many, to a node. */
export function add(node, child) {
  if (child == null) return;
  if (typeof child === "string" || child.nodeType) node.append(child);
  else for (const each of child) add(node, each);
}

/** Return a link if its address is one that can only be visited, else its text. */
export function link(address, ...children) {
  let url = null;
  try {
    url = new URL(address);
  } catch {
    // No address, or a relative one: of this page nothing is worth linking.
  }
  if (!url || !["http:", "https:", "mailto:"].includes(url.protocol)) {
    return element("span", {}, ...children);
  }
  return element("a", { href: url.href, rel: "noopener noreferrer", target: "_blank" }, ...children);
}

/** Return a button with a text and what it does. */
export function button(text, onclick, properties = {}) {
  return element("button", { type: "button", onclick, ...properties }, text);
}

const UNSEEN = /(?![\n\t ])[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/gu;
const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/u;
const JSON_STRINGS = /("(?:[^"\\]|\\.)*")/;

/** Return a text with JSON's escapes for what is not seen, or turns what is: people decide by it. */
export function visible(text) {
  return text.replace(UNSEEN, (found) =>
    found.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""),
  );
}

/** Return a name that changes the direction of nothing beside it. */
export function isolated(name) {
  return element("bdi", {}, visible(name));
}

/** Return arguments as JSON, each string of which keeps its direction to itself. */
export function argumentsText(given) {
  const text = visible(typeof given === "string" ? given : JSON.stringify(given, null, 2));
  if (!RIGHT_TO_LEFT.test(text)) return text;
  return text.split(JSON_STRINGS).map((part, index) => (index % 2 ? element("bdi", {}, part) : part));
}

/** Show exactly these children, in place: what was there keeps its state and its focus. */
export function arrange(parent, nodes) {
  const focused = document.activeElement;
  const kept = new Set(nodes);
  for (const child of [...parent.children]) if (!kept.has(child)) child.remove(); // first: others need not move
  nodes.forEach((node, index) => {
    if (parent.children[index] !== node) parent.insertBefore(node, parent.children[index] ?? null);
  });
  if (focused !== document.activeElement && parent.contains(focused)) focused.focus({ preventScroll: true });
}

/** Focus the message field, or where that would open a phone's keyboard the messages; return it. */
export function focusMessage() {
  const target = document.getElementById(matchMedia("(pointer: coarse)").matches ? "messages" : "message");
  target.focus({ preventScroll: true });
  return target;
}
