// What others do while the page is open: asked for every few seconds, less often when nobody looks.

import { fillFilters, toast } from "./header.js";

const EVERY_MS = 2_000;
const HIDDEN_MS = 15_000;
const SLOWEST_MS = 30_000;

/** Keep a review up to date from now on; that the server stopped answering is said once. */
export function follow(review) {
  const { store } = review;
  let since = store.suite.version;
  let size = store.suite.n_items;
  let pause = EVERY_MS;

  const look = async () => {
    try {
      if (review.queue.busy) return next();
      const answer = await store.api.events(store.key, since);
      // The answer may tell of a decision of this page that it does not know of yet: ask again when it does.
      if (review.queue.busy) return next();
      const events = answer.events.filter((event) => !store.own.has(event.number));
      const arrived = answer.n_items !== size || answer.growing !== store.suite.growing;
      since = answer.last;
      size = answer.n_items;
      if (events.length || arrived) review.attempt(() => catchUp(review, events), { quiet: true });
      pause = EVERY_MS;
    } catch (error) {
      if (pause === EVERY_MS) review.refused(error);
      pause = Math.min(2 * pause, SLOWEST_MS);
    }
    next();
  };
  const next = () => window.setTimeout(look, document.hidden ? HIDDEN_MS : pause);
  next();
}

/** Others decided, or items arrived: read the lists anew and leave the reviewer where they are. */
async function catchUp(review, events) {
  const { store } = review;
  const touched = new Set(events.map((event) => event.index));
  const here = review.item !== null && touched.has(review.item.index);
  for (const index of touched) store.forget(index);
  store.rows.clear();
  store.undecided.clear();
  await Promise.all([store.refresh(), store.rows.ready(), store.undecided.ready()]);
  if (review.item) await store.rows.seek(review.item.index);
  fillFilters(store.suite, store.filter, store.share);
  review.showSuite();
  review.list.draw();
  if (!review.item) await review.filter({});
  else if (here && !review.editor) await renewItem(review, events);
  else if (here) toast(`${whoOf(events, review.item.index)} changed this item meanwhile. Your text is kept.`);
}

async function renewItem(review, events) {
  const { index, version } = review.item;
  const fresh = await review.store.item(index);
  if (review.item?.index !== index || fresh.version === version || review.editor) return;
  review.item = fresh;
  review.draw();
  toast(`${whoOf(events, index)} changed this item: ${fresh.state}.`, "done");
}

function whoOf(events, index) {
  return events.findLast((event) => event.index === index)?.who ?? "Somebody";
}
