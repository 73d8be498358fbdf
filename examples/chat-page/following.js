// Keeps the end of a log in sight while it grows, until the person scrolls up to read.

const NEAR = 60; // pixels from the end, within which scrolling down means: go on following

export class Following {
  /**
   * @param view The element that scrolls.
   * @param content What grows in it.
   * @param jump The button that leads back to the end; shown while the end is out of sight.
   */
  constructor(view, content, jump) {
    this.view = view;
    this.jump = jump;
    this.isOn = true;
    this.top = 0;
    view.addEventListener("scroll", () => this.scrolled(), { passive: true });
    jump.addEventListener("click", () => this.toEnd());
    const grown = new ResizeObserver(() => this.keep(() => {}));
    grown.observe(view);
    grown.observe(content);
  }

  /** Show the end, and what will be added to it. */
  toEnd() {
    this.isOn = true;
    this.view.scrollTop = this.view.scrollHeight;
    this.scrolled();
  }

  /** Change what is in the log without losing its end: a shorter one in between is no scrolling up. */
  keep(change) {
    this.scrolled(); // the event of a person's scrolling may still come
    const { isOn } = this;
    change();
    if (isOn) this.toEnd();
  }

  /** Show an element; follow the end again only if that is in sight then. */
  show(target, block = "nearest") {
    this.isOn = false;
    target.scrollIntoView({ block });
    this.scrolled();
  }

  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.view;
    const left = scrollHeight - scrollTop - clientHeight;
    if (left < 2) this.isOn = true;
    else if (scrollTop < this.top) this.isOn = false;
    else if (scrollTop > this.top && left < NEAR) this.isOn = true;
    this.top = scrollTop;
    this.jump.hidden = this.isOn || left < NEAR;
  }
}
