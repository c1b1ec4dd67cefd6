// What a reviewer can do on the page: one item at a time, decided by keyboard or touch.

import { Refused } from "./api.js";
import { byId, el, fill, number, plural, words } from "./dom.js";
import { Drafts, Editor } from "./editor.js";
import { fillFilters, say, showBulk, showFilter, showFound, showProgress, showWaiting, toast } from "./header.js";
import { itemView } from "./item.js";
import { List } from "./list.js";
import { follow } from "./live.js";
import { keep, kept } from "./place.js";
import { ActQueue } from "./queue.js";
import { DISPUTED, Store } from "./store.js";

const STAYING = ["undo", "reopen"];
const NARROW = window.matchMedia("(max-width: 1000px)");

export class Review {
  constructor(api, key, reviewer, place) {
    this.api = api;
    this.reviewer = reviewer;
    this.place = place;
    this.store = new Store(api, key, reviewer);
    this.drafts = new Drafts(key, reviewer);
    this.view = { mode: kept("view") ?? (NARROW.matches ? "inline" : "beside"), layout: false };
    this.item = null;
    this.editor = null;
    this.turn = 0;
    this.towards = null;
    this.queue = new ActQueue({ failed: (error, dropped) => this.refused(error, dropped), changed: showWaiting });
    this.list = new List(byId("scroller"), byId("rows"), {
      open: (row) => this.attempt(() => this.open(row.index)),
      failed: (error) => this.refused(error),
    });
  }

  async start() {
    const asked = this.place.index;
    await this.store.refresh();
    if (this.store.share) this.store.setFilter({ whose: "me" }); // one's own items first
    const known = asked === null ? null : this.store.item(asked).catch(missing);
    const [item] = await Promise.all([known, this.store.rows.ready(), this.store.undecided.ready()]);
    this.showSuite();
    fillFilters(this.store.suite, this.store.filter, this.store.share);
    this.list.show(this.store.rows);
    const row = item ?? (await this.store.undecided.at(0)) ?? (await this.store.rows.at(0));
    await this.open(row?.index ?? null);
    if (this.item && this.drafts.get(this.item.id)) this.edit();
    follow(this);
  }

  showSuite() {
    const { suite } = this.store;
    byId("suite-name").textContent = suite.name;
    document.title = `Review ${suite.name}`;
    byId("growing").hidden = !suite.growing;
    const unreadable = suite.unreadable ? `; ${plural(suite.unreadable, "line")} cannot be read` : "";
    byId("growing").textContent = `still being generated${unreadable}`;
    byId("reviewer").textContent = this.reviewer;
    this.showCounts();
  }

  showCounts() {
    showProgress(this.store.suite, this.store.share);
    showFound(this.store.rows.total ?? 0);
    showBulk(this.store.filter.state === DISPUTED ? 0 : this.store.undecided.total);
    byId("clear").hidden = !this.store.filtered;
  }

  /** Open an item; null when the list is empty. */
  async open(index) {
    const turn = (this.turn += 1);
    this.towards = index; // steps go on from here, also from an item that was passed without being loaded
    if (index === null) {
      this.leave();
      return;
    }
    byId("item").setAttribute("aria-busy", "true");
    const item = await this.loaded(index);
    if (turn !== this.turn) return;
    byId("item").setAttribute("aria-busy", "false");
    this.item = item;
    this.place.remember(index);
    this.list.select(index);
    this.draw();
    window.scrollTo(0, 0);
    say(`Item ${item.id}, ${words(item.test)}, ${item.state}, target label ${item.expected ?? "none"}`);
    this.prefetch(index);
  }

  async loaded(index) {
    try {
      return await this.store.item(index);
    } catch (error) {
      this.towards = this.item?.index ?? null;
      byId("item").setAttribute("aria-busy", "false");
      throw error;
    }
  }

  leave() {
    [this.item, this.editor] = [null, null];
    byId("item").setAttribute("aria-busy", "false");
    this.list.select(null);
    const growing = this.store.suite.growing ? " More are being generated." : "";
    fill(byId("item"), el("p", { class: "nothing" }, `No item matches.${growing}`));
    this.buttons();
  }

  draw() {
    this.editor = null;
    const at = this.store.rows.positionOf(this.item.index);
    const place = at >= 0 ? `${number(at + 1)} of ${number(this.store.rows.total)}` : `item ${number(this.item.index + 1)}`;
    const draft = this.drafts.get(this.item.id) !== null;
    const settle = (number) => this.attempt(() => this.settleAs(number));
    const queue = this.store.filter.state === DISPUTED;
    fill(byId("item"), itemView(this.item, { settle, queue, view: this.view, setView: (change) => this.setView(change), place, draft }));
    this.buttons();
  }

  buttons() {
    const editing = this.editor !== null;
    byId("actions").classList.toggle("editing", editing);
    for (const button of byId("actions").querySelectorAll("button")) button.disabled = editing || !this.item;
    byId("act-reopen").disabled ||= ["undecided", "exempt"].includes(this.item?.state);
  }

  setView(change) {
    Object.assign(this.view, change);
    if (change.mode) keep("view", change.mode);
    if (this.item && !this.editor) this.draw();
  }

  /** Have the items that probably come next ready. */
  prefetch(index) {
    const load = (row) => row && this.store.item(row.index);
    Promise.all([this.store.undecided.after(index).then(load), this.store.rows.after(index).then(load)]).catch((error) => this.refused(error));
  }

  edit() {
    if (!this.item || this.editor) return;
    this.editor = new Editor(this.item, {
      drafts: this.drafts,
      save: (change) => this.attempt(() => this.saveEdit(change)),
      cancel: () => this.endEdit(),
    });
    byId("changed").replaceChildren(this.editor.node);
    this.buttons();
    this.editor.focus();
  }

  endEdit() {
    this.drafts.drop(this.item.id);
    this.draw();
    byId("item-title").focus({ preventScroll: true });
  }

  async saveEdit(change) {
    if (!this.editor) return; // saved already: the key was pressed twice
    if (!Object.keys(change).length) {
      this.queue.drop();
      this.editor.refuse("Nothing was changed. Cancel with Esc, then accept the item.");
      return;
    }
    const { editor, item } = this;
    try {
      await this.send("edit", change);
    } catch (error) {
      this.queue.drop(); // keys pressed behind it meant the next item
      if (error.status === 409) await this.renew(editor, item);
      editor.refuse(error.status === 409 ? `${error.message} Your text is kept: save again to put it in place.` : error.message);
      if (!(error instanceof Refused)) throw error;
      return;
    }
    await this.goOn(item.index);
  }

  /** After a refused save: take over the item's new version, keep what was typed. */
  async renew(editor, item) {
    this.store.forget(item.index);
    const fresh = await this.store.item(item.index);
    this.item = fresh;
    editor.renew(fresh);
    this.noteState(item, fresh);
  }

  /** Send a decision and, once it is saved, go on to the next item. */
  async decide(action, extra = {}) {
    // Where an item could not be loaded, a key would decide the one that is still shown.
    if (!this.item || this.towards !== this.item.index) return;
    const { index } = this.item;
    await this.send(action, extra);
    await (STAYING.includes(action) ? this.open(index) : this.goOn(index));
  }

  async send(action, extra) {
    const { item } = this;
    const body = { index: item.index, action, reviewer: this.reviewer, version: item.version, ...this.final(action), ...extra };
    const answer = await this.api.decide(this.store.key, body);
    this.store.own.add(answer.number);
    this.drafts.drop(item.id);
    this.editor = null;
    if (!STAYING.includes(action)) this.place.decided(item.index);
    this.noteState(item, answer);
    say(`${item.id}: ${answer.state}`);
    // Keys belong to the page again; a field that was entered meanwhile keeps them.
    if (document.activeElement?.closest("#item, .actions")) document.activeElement.blur();
  }

  /** In the list of disagreements a decision is the final one. */
  final(action) {
    return this.store.filter.state === DISPUTED && !STAYING.includes(action) ? { settles: true } : {};
  }

  /** Settle what reviewers disagree on as the one of this number decided. */
  async settleAs(number) {
    const opinion = this.item?.disagreement ? this.item.opinions[number - 1] : null;
    if (opinion) await this.decide("settle", { settles: true, as_decided_by: opinion.who });
    else toast("A number settles a disagreement: here is none of that number.", "done");
  }

  noteState(item, now) {
    this.store.moved(item, now);
    this.showCounts();
    this.list.draw();
  }

  /** Go on to the next item; where there is none, keys that wait have no item to be about. */
  async goOn(index) {
    const { state } = this.store.filter;
    if (state && state !== "undecided") {
      const next = await this.store.rows.after(index, { wrap: ["mine", DISPUTED].includes(state) });
      if (!next) this.dropWaiting();
      const row = next ?? (await this.store.rows.before(index));
      await this.open(row?.index ?? null);
      return;
    }
    const row = await this.store.undecided.after(index, { wrap: true });
    if (row) await this.open(row.index);
    else {
      this.dropWaiting();
      await this.open(index);
      toast(this.store.filtered ? "No undecided item is left in this list." : "Everything is decided. Finish writes the reviewed suite.", "done");
    }
  }

  dropWaiting() {
    const dropped = this.queue.drop();
    if (dropped) say(`The list is at its end: ${droppedText(dropped)}`);
  }

  async undo() {
    const index = this.place.lastDecided() ?? this.item?.index;
    if (index === undefined) return;
    this.store.forget(index);
    await this.open(index);
    try {
      await this.decide("undo");
    } finally {
      this.place.undone(index); // also when it was refused: the next undo is about the decision before
    }
  }

  async step(way) {
    if (this.towards === null) return;
    const row = await this.store.rows[way](this.towards);
    if (row && this.queue.stepsOn) this.towards = row.index;
    else if (row) await this.open(row.index);
    else {
      if (this.towards !== this.item?.index) await this.open(this.towards);
      toast(way === "after" ? "This is the last item of the list." : "This is the first item of the list.", "done");
    }
  }

  async nextUndecided() {
    const row = await this.store.undecided.after(this.item?.index ?? -1, { wrap: true });
    if (row) await this.open(row.index);
    else toast("No undecided item is left in this list.", "done");
  }

  async filter(change) {
    this.store.setFilter(change);
    await Promise.all([this.store.rows.ready(), this.store.undecided.ready()]);
    showFilter(this.store.filter);
    this.list.show(this.store.rows);
    this.showCounts();
    const index = this.item?.index ?? -1;
    const position = await this.store.rows.seek(Math.max(0, index));
    const row = (await this.store.rows.at(position)) ?? (await this.store.rows.at(0));
    if (row?.index !== index || !row) await this.open(row?.index ?? null);
    else {
      this.list.select(index);
      if (!this.editor) this.draw();
    }
  }

  /** Read everything anew and stay where the reviewer is. */
  async reread() {
    this.store.clear();
    await Promise.all([this.store.refresh(), this.store.rows.ready(), this.store.undecided.ready()]);
    this.showSuite();
    if (this.item) await this.store.rows.seek(this.item.index);
    this.list.draw();
    if (!this.editor) await this.open(this.item?.index ?? (await this.store.rows.at(0))?.index ?? null);
  }

  /** Run an act after those that wait; what the server refuses is shown, the rest is a fault of the page and goes to the console. */
  attempt(act, more = {}) {
    this.queue.push({ act, ...more });
  }

  async refused(error, dropped = 0) {
    toast(dropped ? `${error.message} ${droppedText(dropped)}` : error.message);
    if (!(error instanceof Refused)) throw error;
    if (error.status === 409 && this.item && !this.editor) {
      this.store.forget(this.item.index);
      const before = this.item;
      this.item = await this.store.item(before.index);
      this.noteState(before, this.item);
      this.draw();
    }
  }
}

function droppedText(count) {
  return `${plural(count, "key press", "key presses")} behind it ${count === 1 ? "was" : "were"} dropped.`;
}

/** An address may name an item that is not there: the page then starts like without it. */
function missing(error) {
  if (error.status === 404) return null;
  throw error;
}
