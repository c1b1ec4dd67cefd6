// What others do while the page is open: asked for every few seconds, less often when nobody looks.

const EVERY_MS = 2_000;
const HIDDEN_MS = 15_000;
const SLOWEST_MS = 30_000;

/** Call `changed(events)` when somebody else decided or items arrived; `failed(error)` when the server stops answering. */
export function follow(store, { changed, failed }) {
  let since = store.suite.version;
  let size = store.suite.n_items;
  let pause = EVERY_MS;

  const look = async () => {
    try {
      const answer = await store.api.events(store.key, since);
      const events = answer.events.filter((event) => !store.own.has(event.number));
      const arrived = answer.n_items !== size || answer.growing !== store.suite.growing;
      since = answer.last;
      size = answer.n_items;
      if (events.length || arrived) await changed(events);
      pause = EVERY_MS;
    } catch (error) {
      if (pause === EVERY_MS) failed(error);
      pause = Math.min(2 * pause, SLOWEST_MS);
    }
    next();
  };
  const next = () => window.setTimeout(look, document.hidden ? HIDDEN_MS : pause);
  next();
}
