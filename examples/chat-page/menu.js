// A menu of actions beside the button that opened it: arrow keys move in it, Escape closes it.

import { button } from "./elements.js";

const menu = document.getElementById("menu");

/** Open the menu with a list of `[label, action]`; what is null is left out. */
export function openMenu(opener, items) {
  const close = (action) => () => {
    menu.hidePopover(); // which gives the focus back
    action();
  };
  menu.replaceChildren(...items.filter(Boolean).map(([label, action]) => button(label, close(action), { role: "menuitem", tabindex: "-1" })));
  menu.showPopover();
  const { left, right, top, bottom } = opener.getBoundingClientRect();
  const { width, height } = menu.getBoundingClientRect();
  const below = bottom + height < innerHeight;
  menu.style.top = `${Math.max(4, below ? bottom + 4 : top - height - 4)}px`;
  menu.style.left = `${Math.max(4, left + width < innerWidth ? left : right - width)}px`;
  menu.firstElementChild.focus();
}

menu.addEventListener("keydown", (event) => {
  const entries = [...menu.children];
  const steps = { ArrowDown: 1, ArrowUp: -1, Home: -entries.indexOf(document.activeElement), End: -1 - entries.indexOf(document.activeElement) };
  if (event.key === "Tab") menu.hidePopover();
  if (!(event.key in steps)) return;
  event.preventDefault();
  entries.at((entries.indexOf(document.activeElement) + steps[event.key]) % entries.length).focus();
});
