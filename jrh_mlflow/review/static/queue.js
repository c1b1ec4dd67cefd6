// Acts wait for one another: a key pressed while a decision is on its way takes effect on the item the page moves to.

export class ActQueue {
  /** `failed(error, dropped)` is told of an act that went wrong; `changed(waiting, busy)` how many wait. */
  constructor({ failed, changed }) {
    this.failed = failed;
    this.changed = changed;
    this.waiting = [];
    this.current = null;
  }

  get busy() {
    return this.current !== null;
  }

  /**
   * Run an act after those before it; at once when there is none. Besides `act` an entry may have
   * `asks`: it opens a question or a field, so keys pressed until then are typed towards that and are no acts;
   * `takes(key)`: is given such a key, which may be the answer; `step`: it only moves to another item;
   * `quiet`: no act of the reviewer, and not dropped with theirs.
   */
  push(entry) {
    this.waiting.push(entry);
    if (this.busy) this.tell();
    else this.run();
  }

  /** The entry that will ask something and did not yet get its answer. */
  get asking() {
    return [this.current, ...this.waiting].findLast((entry) => entry?.asks) ?? null;
  }

  /** The open question was answered: what is pressed from now on is an act again. */
  answered() {
    if (this.current) this.current.asks = false;
  }

  /** Whether the next act is a step too: the item in between need not be loaded. */
  get stepsOn() {
    return Boolean(this.waiting[0]?.step);
  }

  /** Forget what waits and return how much it was. */
  drop() {
    const dropped = this.pressed;
    this.waiting = this.waiting.filter((entry) => entry.quiet);
    this.tell();
    return dropped;
  }

  /** How many acts of the reviewer wait. */
  get pressed() {
    return this.waiting.filter((entry) => !entry.quiet).length;
  }

  tell() {
    this.changed(this.pressed, this.busy);
  }

  async run() {
    try {
      while (this.waiting.length) {
        this.current = this.waiting.shift();
        this.tell();
        try {
          await this.current.act();
        } catch (error) {
          await this.failed(error, this.drop());
        }
      }
    } finally {
      this.current = null;
      this.tell();
    }
  }
}
