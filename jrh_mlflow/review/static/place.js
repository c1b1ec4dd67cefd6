// Where a reviewer is: in the address, so that a reload comes back to the same item; and what the browser remembers.

const PREFIX = "jrh-review ";

/** What this browser remembers under a name, or null. */
export function kept(name) {
  return window.localStorage.getItem(PREFIX + name);
}

/** Remember a value in this browser. */
export function keep(name, value) {
  window.localStorage.setItem(PREFIX + name, value);
}

/** The place in one suite, and the order in which this tab decided, for undo. */
export class Place {
  constructor(key) {
    this.key = key;
    const hash = Place.hash();
    const index = hash.get("suite") === key ? Number.parseInt(hash.get("item") ?? "", 10) : NaN;
    this.index = Number.isNaN(index) || index < 0 ? null : index;
  }

  /** The suite that the address asks for. */
  static suite() {
    return Place.hash().get("suite");
  }

  /** Open another suite. */
  static go(key) {
    window.location.hash = new URLSearchParams({ suite: key }).toString();
    window.location.reload();
  }

  static hash() {
    return new URLSearchParams(window.location.hash.slice(1));
  }

  remember(index) {
    const hash = new URLSearchParams({ suite: this.key, item: String(index) });
    window.history.replaceState(null, "", `#${hash}`);
  }

  decided(index) {
    this.order = [...this.order, index].slice(-200);
  }

  undone(index) {
    const at = this.order.lastIndexOf(index);
    this.order = this.order.filter((_, i) => i !== at);
  }

  lastDecided() {
    return this.order.at(-1);
  }

  get order() {
    return JSON.parse(window.sessionStorage.getItem(`${PREFIX}order ${this.key}`) ?? "[]");
  }

  set order(indexes) {
    window.sessionStorage.setItem(`${PREFIX}order ${this.key}`, JSON.stringify(indexes));
  }
}
