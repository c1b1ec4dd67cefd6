// What the page knows of the open suite: its summary, the rows of the current filter, and items read lately.

import { Rows } from "./rows.js";

const KEPT_ITEMS = 12;
const MINE = "mine"; // items that this reviewer has not decided, whatever others did
const EMPTY = { test: "", state: "", failed_check: "", q: "" };

export class Store {
  constructor(api, key, reviewer) {
    this.api = api;
    this.key = key;
    this.reviewer = reviewer;
    this.suite = null;
    this.items = new Map();
    this.own = new Set(); // numbers of this page's own decisions
    this.setFilter(EMPTY);
  }

  /** Change some parts of the filter; lists start anew. */
  setFilter(change) {
    this.filter = { ...EMPTY, ...this.filter, ...change };
    this.rows = this.list(this.filter);
    this.undecided = this.filter.state === "undecided" ? this.rows : this.list({ ...this.filter, state: "undecided" });
  }

  clearFilter() {
    this.setFilter(EMPTY);
  }

  get filtered() {
    return Object.values(this.filter).some(Boolean);
  }

  list(filter) {
    const { state, ...rest } = filter;
    const query = { ...rest, ...(state === MINE ? { mine: "undecided" } : { state }), reviewer: this.reviewer };
    return new Rows((offset, limit) => this.api.items(this.key, { ...query, offset, limit }));
  }

  async refresh() {
    this.suite = await this.api.suite(this.key, this.reviewer);
    return this.suite;
  }

  /** An item, from memory when it was read lately. */
  item(index) {
    if (!this.items.has(index)) {
      const coming = this.api.item(this.key, index, this.reviewer);
      coming.catch(() => this.items.delete(index));
      this.items.set(index, coming);
      if (this.items.size > KEPT_ITEMS) this.items.delete(this.items.keys().next().value);
    }
    return this.items.get(index);
  }

  forget(index) {
    this.items.delete(index);
  }

  /** Note an item's new state everywhere. True when a list has to be read anew. */
  moved({ index, state: before, needs_decision: needed }, after) {
    this.forget(index);
    if (before !== after && this.suite) {
      count(this.suite.states, before, after);
      count(this.suite.progress[needed ? "needed" : "by_code"], plain(before), plain(after));
    }
    let stale = false;
    for (const rows of new Set([this.rows, this.undecided])) {
      const state = rows === this.rows ? this.filter.state : "undecided";
      const wanted = state === MINE ? "undecided" : state;
      if (!rows.update(index, after, wanted ? (now) => now === wanted : null)) {
        rows.clear();
        stale ||= rows === this.rows;
      }
    }
    return stale;
  }

  /** Read every list anew, as after a decision about many items. */
  clear() {
    this.items.clear();
    this.rows.clear();
    this.undecided.clear();
  }
}

/** What an item by code is without a decision has a name of its own. */
function plain(state) {
  return state === "exempt" ? "undecided" : state;
}

/** Move one item from a state to another; a total never changes by deciding. */
function count(counts, before, after) {
  counts[before] -= 1;
  counts[after] += 1;
  if ("decided" in counts) counts.decided = counts.total - counts.undecided;
}
