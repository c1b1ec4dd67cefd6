// The items that match a filter, in the suite's order, loaded in pages when they are looked at.

const PAGE = 100;

/** A list of rows {index, id, test, state, …} whose length is known and whose rows arrive as needed. */
export class Rows {
  /** `fetchPage(offset, limit)` resolves to {total, items}. */
  constructor(fetchPage) {
    this.fetchPage = fetchPage;
    this.clear();
  }

  /** Forget every row; the next look asks the server again. */
  clear() {
    this.total = null;
    this.cells = [];
    this.loading = new Map();
  }

  /** Ask for the length, and with it for the first page. */
  async ready() {
    if (this.total === null) await this.load(0);
    return this.total;
  }

  /** The row at a position, or null past the end. */
  async at(position) {
    if (this.total !== null && (position < 0 || position >= this.total)) return null;
    for (let tries = 0; !this.cells[position] && tries < 3; tries += 1) {
      if (this.total !== null && position >= this.total) break;
      await this.load(position);
    }
    return this.cells[position] ?? null;
  }

  /** The row at a position if it is here already. */
  peek(position) {
    return this.cells[position] ?? null;
  }

  /** The position of an item if it is here already, or -1. */
  positionOf(index) {
    return this.cells.findIndex((row) => row?.index === index);
  }

  /** The first position whose item comes at or after `index` in the suite; the length when there is none. */
  async seek(index) {
    await this.ready();
    let [low, high] = this.bounds(index);
    // Without a filter the position is the index; with one it comes before it.
    let probe = Math.min(index, high - 1);
    while (low < high) {
      await this.at(Math.max(low, probe));
      const [lower, higher] = this.bounds(index);
      if (lower === low && higher === high) break;
      [low, high] = [lower, higher];
      probe = (low + high) >> 1;
    }
    return low;
  }

  /** The next row after an item, or the first one of all when there is none and `wrap` is set. */
  async after(index, { wrap = false } = {}) {
    const row = await this.at(await this.seek(index + 1));
    return row ?? (wrap ? this.at(0) : null);
  }

  /** The last row before an item, or null. */
  async before(index) {
    const position = await this.seek(index);
    return position > 0 ? this.at(position - 1) : null;
  }

  /**
   * Note an item's new state. `keeps(state)` says whether an item in this state matches the filter.
   * False: the row is not here and the filter asks for states, so this list must be read anew.
   */
  update(index, state, keeps = null) {
    const position = this.positionOf(index);
    if (position < 0) return keeps === null;
    if (keeps === null || keeps(state)) {
      this.cells[position] = { ...this.cells[position], state };
      return true;
    }
    this.cells.splice(position, 1);
    this.total -= 1;
    this.loading = new Map(); // pages on their way may count the removed row
    return true;
  }

  bounds(index) {
    let [low, high] = [0, this.total ?? 0];
    this.cells.forEach((row, position) => {
      if (row.index < index) low = Math.max(low, position + 1);
      else high = Math.min(high, position);
    });
    return [low, Math.max(low, high)];
  }

  load(position) {
    const offset = Math.max(0, Math.floor(position / PAGE) * PAGE);
    if (!this.loading.has(offset)) this.loading.set(offset, this.fetched(offset));
    return this.loading.get(offset);
  }

  async fetched(offset) {
    const { loading } = this;
    try {
      const page = await this.fetchPage(offset, PAGE);
      if (loading !== this.loading) return;
      this.total = page.total;
      page.items.forEach((row, i) => {
        this.cells[offset + i] = row;
      });
      this.cells.length = Math.min(this.cells.length, page.total);
    } finally {
      loading.delete(offset);
    }
  }
}
