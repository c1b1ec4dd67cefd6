// What the page knows of the open suite: its summary, the rows of the current filter, and items read lately.

import { Rows } from "./rows.js";

const KEPT_ITEMS = 12;
const MINE = "mine"; // items that this reviewer has not decided, whatever others did
const TODO = "todo"; // items that were assigned to this reviewer and wait for them
export const DISPUTED = "disputed"; // items on which reviewers disagree and nobody settled it
const EMPTY = { whose: "", test: "", state: "", failed_check: "", q: "" };

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
    this.undecided = this.left === this.filter.state ? this.rows : this.list({ ...this.filter, state: this.left });
  }

  /** The state of what is left to do in the list: of items of one's own, what waits for oneself. */
  get left() {
    return this.filter.state === DISPUTED ? DISPUTED : this.filter.whose ? TODO : "undecided";
  }

  clearFilter() {
    this.setFilter(EMPTY);
  }

  get filtered() {
    return Object.values(this.filter).some(Boolean);
  }

  list(filter) {
    const query = { ...this.query(filter), reviewer: this.reviewer };
    return new Rows((offset, limit) => this.api.items(this.key, { ...query, offset, limit }));
  }

  /** A filter of the page in the server's words, without what is empty. */
  query({ state, whose, ...rest }) {
    const special = { [MINE]: { mine: "undecided" }, [TODO]: { todo: this.reviewer }, [DISPUTED]: { disagreement: "unsettled" } };
    const named = { ...rest, ...(special[state] ?? { state }), ...(whose ? { assigned: this.reviewer } : {}) };
    return Object.fromEntries(Object.entries(named).filter(([, value]) => value));
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
  moved(item, now) {
    const { index } = item;
    this.forget(index);
    if (this.suite) this.recount(item, now);
    let stale = false;
    for (const rows of new Set([this.rows, this.undecided])) {
      const keeps = this.keeps(rows === this.rows ? this.filter.state : this.left, now);
      if (!rows.update(index, now.state, keeps)) {
        rows.clear();
        stale ||= rows === this.rows;
      }
    }
    return stale;
  }

  /** Whether an item as it is now belongs to a list of this state; null where every state does. */
  keeps(state, now) {
    if (!state) return null;
    if (state === MINE) return () => now.mine === null;
    if (state === TODO) return () => now.waits;
    if (state === DISPUTED) return () => now.disagreement === "unsettled";
    return (after) => after === state;
  }

  recount(item, now) {
    const { states, progress, disagreements, assignment } = this.suite;
    if (item.state !== now.state) {
      count(states, item.state, now.state);
      count(progress[item.needs_decision ? "needed" : "by_code"], plain(item.state), plain(now.state));
    }
    if (item.disagreement) disagreements[item.disagreement] -= 1;
    if (now.disagreement) disagreements[now.disagreement] += 1;
    const own = assignment?.reviewers.find(({ name }) => name === this.reviewer);
    if (own && item.assigned.includes(this.reviewer)) {
      own[part(item)] -= 1;
      own[part(now)] += 1;
    }
  }

  /** How far this reviewer is with their own items, or null. */
  get share() {
    return this.suite.assignment?.reviewers.find(({ name, assigned }) => name === this.reviewer && assigned) ?? null;
  }

  /** Read every list anew, as after a decision about many items. */
  clear() {
    this.items.clear();
    this.rows.clear();
    this.undecided.clear();
  }
}

/** Where an assigned item counts in its reviewer's progress. */
function part({ mine, waits }) {
  return mine ? "decided" : waits ? "open" : "by_others";
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
