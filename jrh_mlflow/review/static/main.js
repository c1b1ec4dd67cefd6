// Starts the page: the token, the reviewer's name, the suite; then connects keys, buttons and fields.

import { Api, takeToken } from "./api.js";
import { bulk, finish, people, reject } from "./asking.js";
import { REASONS, askName, showHelp } from "./dialogs.js";
import { byId, el, fill, plural } from "./dom.js";
import { actionButtons, toast } from "./header.js";
import { listen } from "./keys.js";
import { Place, keep, kept } from "./place.js";
import { Review } from "./review.js";
import { DISPUTED } from "./store.js";
import { jumpEdited } from "./transcript.js";

const SEARCH_PAUSE_MS = 200;

async function start() {
  const api = new Api(takeToken());
  const suites = await api.suites();
  if (!suites.length) throw new Error("There is no suite to review here.");
  const key = chosen(suites);
  const reviewer = await named();
  const review = new Review(api, key, reviewer, new Place(key));
  const acts = actsOf(review);
  actionButtons(acts);
  connect(review, acts);
  await review.start();
  listen(acts, review.queue);
}

/** The suite of the address, or the first; several get a choice. */
function chosen(suites) {
  const asked = Place.suite();
  const readable = suites.filter((suite) => !suite.problem);
  if (!readable.length) throw new Error(suites[0].problem);
  const key = readable.find((suite) => suite.key === asked)?.key ?? readable[0].key;
  if (suites.length > 1) {
    const choice = byId("suite-choice");
    const label = (suite) => `${suite.name}, ${suite.problem ? "cannot be read" : plural(suite.n_items, "item")}`;
    const option = (suite) => el("option", { value: suite.key, disabled: Boolean(suite.problem) }, label(suite));
    fill(choice, suites.map(option));
    choice.value = key;
    choice.hidden = false;
    byId("suite-name").classList.add("hidden");
    choice.addEventListener("change", () => Place.go(choice.value));
  }
  return key;
}

/** The name in the link, which leaves the address so that it can be changed; or what this browser remembers; or ask. */
async function named() {
  const address = new URL(window.location.href);
  const given = address.searchParams.get("reviewer")?.trim();
  if (given) {
    keep("reviewer", given);
    address.searchParams.delete("reviewer");
    window.history.replaceState(null, "", address);
  }
  const known = given || kept("reviewer");
  if (known) return known;
  let name = null;
  while (!name) name = await askName(null);
  keep("reviewer", name);
  return name;
}

/** Every act of the key table. */
function actsOf(review) {
  // Whether an editor is open is asked when the act takes effect: one that is being saved is closed by then.
  const attempt = (act, more) => () => review.attempt(() => (review.editor ? null : act()), more);
  return {
    accept: attempt(() => review.decide("accept")),
    edit: attempt(() => review.edit(), { asks: true }),
    reject: () => rejecting(review),
    undo: attempt(() => review.undo()),
    reopen: attempt(() => review.decide("reopen")),
    nextUndecided: attempt(() => review.nextUndecided()),
    next: attempt(() => review.step("after"), { step: true }),
    previous: attempt(() => review.step("before"), { step: true }),
    search: () => byId("search").focus(),
    disagreements: attempt(() => review.filter({ state: DISPUTED })),
    settleAs: (key) => review.attempt(() => (review.editor ? null : review.settleAs(Number(key)))),
    filterWhose: () => byId("filter-whose").focus(),
    filterTest: () => byId("filter-test").focus(),
    filterState: () => byId("filter-state").focus(),
    filterCheck: () => byId("filter-check").focus(),
    clear: attempt(() => clear(review)),
    bulk: attempt(() => bulk(review), { asks: true }),
    mode: () => review.setView({ mode: review.view.mode === "inline" ? "beside" : "inline" }),
    layout: () => review.setView({ layout: !review.view.layout }),
    nextEdited: () => jumpEdited(1),
    previousEdited: () => jumpEdited(-1),
    history: () => toggle(document.getElementById("history")),
    people: attempt(() => people(review), { asks: true }),
    finish: attempt(() => finish(review), { asks: true }),
    help: () => showHelp(),
  };
}

/** Reject the item; a number pressed right behind the key is the reason, also while both wait. */
function rejecting(review) {
  const entry = {
    asks: true,
    reason: null,
    takes(key) {
      if (!/^[1-9]$/.test(key)) return;
      entry.reason = REASONS[Number(key) - 1];
      entry.asks = false;
    },
    act: () => (review.editor ? null : reject(review, entry.reason)),
  };
  review.queue.push(entry);
}

function connect(review, acts) {
  const fields = { "filter-whose": "whose", "filter-test": "test", "filter-state": "state", "filter-check": "failed_check" };
  for (const [id, part] of Object.entries(fields)) {
    byId(id).addEventListener("change", (event) => review.attempt(() => review.filter({ [part]: event.target.value })));
    byId(id).addEventListener("keydown", (event) => leaves(event, byId(id)));
  }
  searching(review);
  const clicks = { clear: "clear", bulk: "bulk", help: "help", finish: "finish", reviewer: "people", disagreements: "disagreements" };
  for (const [id, act] of Object.entries(clicks)) byId(id).addEventListener("click", () => acts[act]());
  byId("open-list").addEventListener("click", () => drawer(byId("side").classList.contains("open") === false));
  byId("rows").addEventListener("click", () => drawer(false));
}

/** Esc and Enter give the keys back to the page. */
function leaves(event, field) {
  if (event.key === "Escape" || event.key === "Enter") field.blur();
}

function searching(review) {
  const field = byId("search");
  let waiting = 0;
  const search = () => {
    window.clearTimeout(waiting);
    if (field.value !== review.store.filter.q) review.attempt(() => review.filter({ q: field.value }));
  };
  field.addEventListener("input", () => {
    window.clearTimeout(waiting);
    waiting = window.setTimeout(search, SEARCH_PAUSE_MS);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") search();
    leaves(event, field);
  });
}

async function clear(review) {
  byId("search").value = "";
  review.store.clearFilter();
  await review.filter({});
}

function drawer(open) {
  byId("side").classList.toggle("open", open);
  byId("open-list").setAttribute("aria-expanded", String(open));
}

function toggle(details) {
  if (details) details.open = !details.open;
}

start().catch((error) => {
  toast(error.message);
  fill(byId("item"), el("p", { class: "nothing" }, error.message));
});
