// Panes that show a text or a comparison. Long ones appear in parts, so that five megabytes open as fast as five lines.

import { ADDED, REMOVED, SAME, compare } from "./diff.js";
import { el, number, plural } from "./dom.js";
import { appendText, countHidden, drawLayout } from "./marks.js";

const FIRST_PART = 30_000; // characters shown at once
const NEXT_PART = 60_000;
const FOLDED_FROM = 5_000; // unchanged characters in a row before their middle is folded
const BESIDE_FOLD = 1_200;
const NEAR = 200;
const SIGN_COSTS = 40; // a hidden sign that is spelled out takes as long to show as this many characters
const SIGNS_PART = 500;
const REWRITTEN_BELOW = 0.3; // share of unchanged text

let last = null;

/** Compare two texts; the last answer is kept, because both views of an item need it. */
export function compared(before, after) {
  if (last?.before !== before || last?.after !== after) last = { before, after, result: compare(before, after) };
  return last.result;
}

/** One text without a comparison. */
export function plainPane(label, text, options = {}) {
  return pane(label, [[SAME, text]], { folds: false, ...options });
}

/** Both texts beside each other, what changed marked in each. */
export function besideView(before, after, names, options = {}) {
  const { runs } = compared(before, after);
  const one = pane(names[0], runs.filter(([kind]) => kind !== ADDED), options);
  const other = pane(names[1], runs.filter(([kind]) => kind !== REMOVED), options);
  return el("div", { class: "beside" }, one, other);
}

/** One text with what was removed and what was added. */
export function inlineView(before, after, name, options = {}) {
  return pane(name, compared(before, after).runs, options);
}

/** Say in words what changed. */
export function summaryText(before, after) {
  if (before === after) return "No difference.";
  const told = compared(before, after);
  const parts = [];
  if (told.removed || told.added) parts.push(`${plural(told.removed, "word")} removed, ${number(told.added)} added`);
  if (told.layout) parts.push(`layout changed in ${plural(told.layout, "place")}`);
  if (told.kept < REWRITTEN_BELOW) parts.push("almost everything is rewritten");
  const hidden = countHidden(after);
  if (hidden) parts.push(plural(hidden, "hidden sign"));
  return parts.length ? `${capital(parts.join("; "))}.` : "Only signs changed.";
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

function pane(label, runs, options) {
  // What scrolls by itself must be reachable by keyboard.
  const reachable = options.scrolls ? { tabindex: "0", role: "region", "aria-label": label } : { tabindex: "-1" };
  const body = el("div", { class: "text", dir: "auto", ...reachable });
  const length = runs.reduce((sum, [, text]) => sum + text.length, 0);
  const size = length > FIRST_PART ? el("span", { class: "size" }, ` ${number(length)} characters`) : null;
  const node = el("section", { class: "pane" }, el("h3", {}, label, size), body);
  if (length) new Parts(body, runs, options).show(FIRST_PART);
  else body.append(el("span", { class: "nothing" }, "(empty text)"));
  return node;
}

/** Writes runs into a pane, part by part. */
class Parts {
  constructor(body, runs, { folds = true, layout = false } = {}) {
    this.body = body;
    this.runs = folds ? runs.flatMap((run, i) => folded(run, i === 0, i === runs.length - 1)) : runs;
    this.layout = layout;
    this.next = 0;
    this.within = 0;
    this.lineStart = true;
  }

  show(room) {
    const target = document.createDocumentFragment();
    while (this.next < this.runs.length && room > 0) {
      const [kind, text] = this.runs[this.next];
      const piece = kind === "fold" ? text : affordable(text, this.within, room);
      if (kind === "fold") this.fold(target, text);
      else {
        this.write(target, kind, piece);
        room -= cost(piece);
      }
      this.within += piece.length;
      if (this.within >= text.length) [this.next, this.within] = [this.next + 1, 0];
    }
    this.body.append(target);
    if (this.next < this.runs.length) this.body.append(this.more());
  }

  more() {
    const rest = this.runs.slice(this.next).reduce((sum, [, text]) => sum + text.length, -this.within);
    const button = el("button", { type: "button", class: "more" }, `Show more: ${number(rest)} characters follow`);
    button.addEventListener("click", () => {
      button.remove();
      this.show(NEXT_PART);
      this.body.focus({ preventScroll: true });
    });
    return button;
  }

  write(target, kind, text) {
    const drawn = this.drawn(kind, text);
    this.lineStart = text.endsWith("\n");
    if (kind === SAME) {
      appendText(target, drawn);
      return;
    }
    const only = text.trim() ? null : "layout";
    const node = el(kind === REMOVED ? "del" : "ins", { class: only });
    appendText(node, drawn);
    target.append(node);
  }

  drawn(kind, text) {
    if (kind === SAME && !this.layout) return text;
    return drawLayout(text, { lineStart: this.lineStart, everywhere: this.layout });
  }

  fold(target, text) {
    const button = el("button", { type: "button", class: "more fold" }, `${number(text.length)} unchanged characters`);
    const inner = el("span");
    button.addEventListener("click", () => {
      const parts = new Parts(inner, [[SAME, text]], { folds: false, layout: this.layout });
      parts.lineStart = false;
      button.replaceWith(inner);
      parts.show(NEXT_PART);
    });
    target.append(button);
    this.lineStart = text.endsWith("\n");
  }
}

/** A long unchanged run keeps its ends beside the changes; the middle is folded. */
function folded([kind, text], first, final) {
  if (kind !== SAME || text.length < FOLDED_FROM || (first && final)) return [[kind, text]];
  const from = first ? 0 : lineStart(text, BESIDE_FOLD);
  const to = final ? text.length : lineStart(text, text.length - BESIDE_FOLD);
  const parts = [[SAME, text.slice(0, from)], ["fold", text.slice(from, to)], [SAME, text.slice(to)]];
  return parts.filter(([, part]) => part);
}

/** The next part of a text; where many signs have to be spelled out it is a short one. */
function affordable(text, from, room) {
  const piece = cut(text, from, room);
  return cost(piece) > room ? cut(text, from, Math.min(room, SIGNS_PART)) : piece;
}

function cost(piece) {
  return piece.length + SIGN_COSTS * countHidden(piece);
}

function cut(text, from, room) {
  return text.slice(from, from + room >= text.length ? text.length : whole(text, from + room));
}

/** Move a place on to where a line begins, when that is near. */
export function lineStart(text, at) {
  if (at <= 0 || at >= text.length) return Math.max(0, Math.min(at, text.length));
  const end = text.slice(at, at + NEAR).indexOf("\n");
  return end < 0 ? whole(text, at) : at + end + 1;
}

/** Move a place off the middle of a surrogate pair. */
function whole(text, at) {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at + 1 : at;
}
