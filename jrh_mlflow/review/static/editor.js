// Editing an item's text and label. What was typed survives a refused save, a reload and a wrong key.

import { el, named, number } from "./dom.js";
import { lineStart, plainPane } from "./textview.js";

const KEPT_UP_TO = 500_000; // characters of a draft that the browser's storage takes
const WHOLE_UP_TO = 100_000; // characters a text box takes at once; of longer texts a stretch is edited
const STRETCH = 40_000;
const BEFORE_CHANGE = 4_000;

/** Drafts by item, in this tab's storage. */
export class Drafts {
  constructor(key, reviewer) {
    this.prefix = `jrh-draft ${key} ${reviewer} `;
  }

  get(id) {
    const kept = window.sessionStorage.getItem(this.prefix + id);
    return kept === null ? null : JSON.parse(kept);
  }

  set(id, draft) {
    if ((draft.text ?? "").length > KEPT_UP_TO) return;
    try {
      window.sessionStorage.setItem(this.prefix + id, JSON.stringify(draft));
    } catch (error) {
      if (error.name !== "QuotaExceededError") throw error; // a full storage costs the draft, not the edit
    }
  }

  drop(id) {
    window.sessionStorage.removeItem(this.prefix + id);
  }
}

/** The form that replaces the changed text while it is edited. `save(change)` and `cancel()` end it. */
export class Editor {
  constructor(item, { drafts, save, cancel }) {
    this.item = item;
    this.drafts = drafts;
    this.save = save;
    this.problem = el("p", { class: "problem", role: "alert", hidden: true });
    this.text = el("textarea", { id: "edit-text", spellcheck: "true", dir: "auto" });
    this.label = labelField(item);
    this.message = messageField(item);
    this.node = this.form(cancel);
    this.restore();
  }

  form(cancel) {
    const draftNote = el("p", { class: "how", id: "draft-note", hidden: true }, "Your unsaved draft is back.");
    const form = el(
      "form",
      { class: "editor", "aria-label": "Edit the item" },
      this.problem,
      draftNote,
      el("p", { class: "how", id: "stretch-note", hidden: true }),
      this.message && el("p", { class: "field" }, el("label", { for: "edit-message" }, "Message"), this.message),
      el("div", { class: "beside" }, this.original(), this.textPane()),
      el(
        "div",
        { class: "editor-foot" },
        this.label && el("p", { class: "field" }, el("label", { for: "edit-label" }, "Target label"), this.label),
        el("button", { type: "submit", class: "main" }, "Save ", el("kbd", {}, "Ctrl"), el("kbd", {}, "⏎")),
        el("button", { type: "button", class: "quiet", click: cancel }, "Cancel ", el("kbd", {}, "Esc")),
      ),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    form.addEventListener("input", (event) => this.changed(event.target));
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.submit();
      } else if (event.key === "Escape") {
        event.preventDefault();
        cancel();
      }
    });
    return form;
  }

  original() {
    const text = this.item.original ?? this.item.perturbed ?? "";
    return this.item.part === "transcript" ? null : plainPane("Original", text);
  }

  textPane() {
    const label = el("h3", {}, el("label", { for: "edit-text" }, "Edited text"));
    return el("section", { class: "pane" }, label, this.text);
  }

  restore() {
    const draft = this.drafts.get(this.item.id);
    if (this.message && draft?.message !== undefined) this.message.value = String(draft.message);
    this.show(this.saved());
    if (draft) this.text.value = draft.text;
    if (this.label && draft?.label !== undefined) this.label.value = draft.label;
    this.node.querySelector("#draft-note").hidden = draft === null;
  }

  /** Put a text into the box, or the stretch of a long one where its changes begin; the rest is kept beside it. */
  show(text) {
    const [from, to] = stretch(this.item.original ?? "", text);
    [this.head, this.tail] = [text.slice(0, from), text.slice(to)];
    this.text.value = text.slice(from, to);
    this.text.rows = Math.min(24, Math.max(8, Math.ceil((to - from) / 80)));
    const note = this.node.querySelector("#stretch-note");
    note.hidden = to - from === text.length;
    note.textContent = `A long text: characters ${number(from + 1)} to ${number(to)} of ${number(text.length)} are edited, the rest stays as it is.`;
  }

  /** The text as the server has it. */
  saved() {
    if (!this.message) return this.item.perturbed ?? "";
    return this.item.transcript[Number(this.message.value)]?.content ?? "";
  }

  changed(field) {
    if (field === this.message) this.show(this.saved());
    this.drafts.set(this.item.id, { ...this.values(), text: this.text.value });
  }

  values() {
    const message = this.message ? { message: Number(this.message.value) } : {};
    return { text: this.head + this.text.value + this.tail, ...(this.label ? { label: this.label.value } : {}), ...message };
  }

  /** What differs from the item as it is; only that is sent. */
  change() {
    const { text, label, message } = this.values();
    const change = {};
    if (normal(text) !== normal(this.saved())) Object.assign(change, { text }, message === undefined ? {} : { message });
    if (label !== undefined && label !== this.item.expected) change.label = label;
    return change;
  }

  /** Hand over what was changed. Until it is saved or refused, keys belong to the page, where they wait. */
  submit() {
    if (this.text.readOnly) return;
    this.problem.hidden = true;
    this.text.readOnly = true;
    document.activeElement?.blur();
    this.save(this.change());
  }

  /** Say why a save was refused; the typed text stays where it is. */
  refuse(message) {
    this.problem.textContent = message;
    this.problem.hidden = false;
    this.text.readOnly = false;
    this.text.focus();
  }

  /** Take over the item as somebody else left it; the next save is measured against that. */
  renew(item) {
    this.item = item;
  }

  focus() {
    this.text.focus();
    this.text.setSelectionRange(0, 0);
    this.text.scrollTop = 0;
  }
}

/** From where to where a text is edited: all of it, or a stretch from shortly before its first change. */
function stretch(original, text) {
  if (text.length <= WHOLE_UP_TO) return [0, text.length];
  let same = 0;
  while (same < text.length && text[same] === original[same]) same += 1;
  const from = Math.max(0, Math.min(same - BEFORE_CHANGE, text.length - STRETCH));
  return [lineStart(text, from), lineStart(text, from + STRETCH)];
}

/** A text box turns every line end into a line feed: a text is compared as the box gives it back. */
function normal(text) {
  return text.replace(/\r\n?/g, "\n");
}

function labelField(item) {
  if (item.expected === null || item.expected === undefined || !item.labels?.length) return null;
  const field = el("select", { id: "edit-label" }, item.labels.map((label) => el("option", { value: label }, named(item, label))));
  field.value = item.expected;
  return field;
}

function messageField(item) {
  if (item.part !== "transcript" || !item.transcript) return null;
  const options = item.transcript.map((message, i) =>
    el("option", { value: i }, `${i + 1}: ${message.role}${message.edited ? " (edited)" : ""}`),
  );
  const field = el("select", { id: "edit-message" }, options);
  field.value = String(Math.max(0, item.transcript.findIndex((message) => message.edited)));
  return field;
}
