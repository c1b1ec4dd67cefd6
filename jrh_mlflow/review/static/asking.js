// Acts that ask the reviewer first: a reason, a confirmation, a name.

import { askAssignment, askBulk, askFinish, askName, askReason, showFinished, showPeople } from "./dialogs.js";
import { plural } from "./dom.js";
import { describe, toast } from "./header.js";
import { Place, keep } from "./place.js";
import { DISPUTED } from "./store.js";

/** Reject the open item, once a reason is given. */
export async function reject(review, given = null) {
  const { item } = review;
  const reason = item && (given ?? (await askReason()));
  review.queue.answered();
  // Live updates may have replaced the item under the question; the server checks its version again.
  if (reason && item.index === review.item?.index) await review.decide("reject", { reason });
}

/** Accept every undecided item of the list. */
export async function bulk(review) {
  const { store } = review;
  const count = store.filter.state === DISPUTED ? 0 : await store.undecided.ready();
  if (!count) {
    toast("No undecided item is in this list.", "done");
    return;
  }
  const agreed = await askBulk(count, describe(store.filter));
  review.queue.answered();
  if (!agreed) return;
  const filter = store.query({ ...store.filter, state: store.left });
  try {
    await review.api.bulk(store.key, { filter, action: "accept", reviewer: review.reviewer, expect: count });
    toast(`${plural(count, "item")} accepted.`, "done");
  } finally {
    await review.reread();
  }
}

/** Write the reviewed suite, once what is left out was said. */
export async function finish(review) {
  const suite = await review.store.refresh();
  const answer = await askFinish(suite);
  if (!answer) return;
  const order = { reviewer: review.reviewer, allow_undecided: answer.allow };
  await showFinished(await review.api.finish(review.store.key, order));
}

/** Show reviewers and agreement; the own name can be changed there. */
export async function people(review) {
  const suite = await review.store.refresh();
  const wish = await showPeople(suite, review.reviewer);
  if (wish === "assign") await assign(review, suite);
  if (wish !== "rename") return;
  const name = await askName(review.reviewer);
  if (!name || name === review.reviewer) return;
  keep("reviewer", name);
  window.location.reload();
}

/** Assign the items to reviewers, and begin anew with one's own. */
async function assign(review, suite) {
  const answer = await askAssignment(suite, review.reviewer);
  if (!answer) return;
  await review.api.assign(review.store.key, { reviewer: review.reviewer, ...answer });
  Place.go(review.store.key);
}
