// The list of items beside the item: only the rows in sight exist, whatever the length of the suite.

import { el, words } from "./dom.js";
import { appendText } from "./marks.js";
import { STATES } from "./item.js";

const HEIGHT = 44; // pixels of a row, as in style.css
const SPARE = 6; // rows kept outside the window

export class List {
  /** `open(row)` is called when a reviewer picks a row, `failed(error)` when rows cannot be loaded. */
  constructor(scroller, list, { open, failed }) {
    this.scroller = scroller;
    this.list = list;
    this.open = open;
    this.failed = failed;
    this.rows = null;
    this.current = null;
    this.nodes = new Map();
    scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(scroller);
  }

  /** Show another list of rows from its start. */
  show(rows) {
    this.rows = rows;
    this.scroller.scrollTop = 0;
    this.draw();
  }

  /** Mark the open item and bring its row into sight. */
  select(index) {
    this.current = index;
    const position = this.rows?.positionOf(index) ?? -1;
    const focused = this.list.contains(document.activeElement);
    if (position >= 0) this.reveal(position);
    this.draw();
    // Whoever walks through the list by keyboard stands on the open item.
    if (focused) this.nodes.get(index)?.firstElementChild.focus({ preventScroll: true });
  }

  reveal(position) {
    const [top, bottom] = [position * HEIGHT, (position + 1) * HEIGHT];
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop) this.scroller.scrollTop = top;
    else if (bottom > scrollTop + clientHeight) this.scroller.scrollTop = bottom - clientHeight + HEIGHT;
  }

  /** Draw the rows in sight; what is missing is asked for and drawn when it comes. */
  draw() {
    const total = this.rows?.total ?? 0;
    this.list.style.height = `${total * HEIGHT}px`;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / HEIGHT) - SPARE);
    const last = Math.min(total, Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / HEIGHT) + SPARE);
    const seen = new Set();
    let missing = -1;
    for (let position = first; position < last; position += 1) {
      const row = this.rows.peek(position);
      if (row) seen.add(this.place(row, position));
      else if (missing < 0) missing = position;
    }
    for (const [index, node] of this.nodes) {
      if (!seen.has(index)) {
        node.remove();
        this.nodes.delete(index);
      }
    }
    if (missing >= 0) this.fetch(missing);
  }

  fetch(position) {
    const { rows } = this;
    rows.at(position).then((row) => row && rows === this.rows && this.draw(), this.failed);
  }

  place(row, position) {
    const key = `${row.state} ${this.current === row.index}`;
    let node = this.nodes.get(row.index);
    if (!node || node.dataset.key !== key) {
      const fresh = this.made(row, key);
      if (node) {
        const focused = node.contains(document.activeElement);
        node.replaceWith(fresh);
        if (focused) fresh.firstElementChild.focus({ preventScroll: true });
      } else this.list.append(fresh);
      node = fresh;
      this.nodes.set(row.index, node);
    }
    node.style.top = `${position * HEIGHT}px`;
    node.setAttribute("aria-posinset", String(position + 1));
    node.setAttribute("aria-setsize", String(this.rows.total));
    return row.index;
  }

  made(row, key) {
    const [sign, word] = STATES[row.state] ?? ["?", row.state];
    const id = el("span", { class: "row-id", dir: "auto" });
    appendText(id, String(row.id));
    const button = el(
      "button",
      { type: "button", class: "row", "aria-current": this.current === row.index ? "true" : null, click: () => this.open(row) },
      el("span", { class: `sign-of ${row.state}`, "aria-hidden": "true" }, sign),
      el("span", { class: "row-words" }, id, el("span", { class: "row-test" }, words(row.test))),
      el("span", { class: "hidden" }, `, ${word}`),
    );
    const node = el("li", {}, button);
    node.dataset.key = key;
    return node;
  }
}
