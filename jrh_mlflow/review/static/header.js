// What stands above and below the item: progress, filters and the buttons, and what the page says.

import { byId, el, fill, number, plural, words } from "./dom.js";
import { keyOf, shown } from "./keys.js";

/** How decisions on items that need none are counted. */
export const OPTIONAL = "Items written by code are proven by their checks: a decision on one is optional and is counted apart, never in the total.";
const TOAST_MS = 6_000;
const MAIN_ACTS = ["accept", "edit", "reject"];
const CALM_ACTS = ["undo", "reopen"];
const WAYS = ["previous", "next", "nextUndecided"];

/** Show how far the review is: decided of those that need a decision, as a bar and in words. */
export function showProgress({ progress: { needed, by_code: optional }, disagreements }, own) {
  const { total, decided } = needed;
  const bar = byId("bar");
  bar.setAttribute("aria-valuenow", String(total ? Math.round((100 * decided) / total) : 0));
  bar.setAttribute("aria-valuetext", `${decided} of ${total} decided`);
  ["accepted", "edited", "rejected"].forEach((state, i) => {
    bar.children[i].style.width = `${total ? (100 * needed[state]) / total : 0}%`;
  });
  const parts = [
    [`${number(decided)} of ${number(total)} decided`, ""],
    [`✓ ${number(needed.accepted)} accepted`, "accepted"],
    [`✎ ${number(needed.edited)} edited`, "edited"],
    [`✕ ${number(needed.rejected)} rejected`, "rejected"],
  ];
  if (own) parts.splice(1, 0, [`yours: ${number(own.decided)} of ${number(own.assigned)}${own.by_others ? `, ${number(own.by_others)} by others` : ""}`, "own"]);
  const also = optional.decided ? `, ${number(optional.decided)} of them decided` : "";
  if (optional.total) parts.push([`+ ${number(optional.total)} by code${also}`, "optional"]);
  showDisagreements(disagreements.unsettled);
  fill(byId("counts"), parts.map(([text, kind]) => el("span", { class: kind, title: kind === "optional" ? OPTIONAL : null }, text)));
}

/** Show the way to what reviewers disagree on, while somebody has to settle it. */
function showDisagreements(count) {
  byId("disagreements").hidden = count === 0;
  fill(byId("disagreements"), plural(count, "disagreement"), " ", el("kbd", {}, keyOf("disagreements").keys[0]));
}

/** Show how many key presses wait for the ones before them. */
export function showWaiting(count, busy) {
  byId("actions").setAttribute("aria-busy", String(busy));
  byId("waiting").hidden = count === 0;
  byId("waiting").textContent = `${number(count)} waiting`;
}

/** Fill the choices of tests and failed checks; whose items are shown is a choice for those who have some. */
export function fillFilters(suite, filter, own) {
  byId("filter-whose").hidden = !own;
  const shape = JSON.stringify([suite.tests, suite.checks]);
  if (byId("filter-test").dataset.shape === shape) return; // a choice that is open stays open
  byId("filter-test").dataset.shape = shape;
  const tests = Object.entries(suite.tests ?? {});
  const all = el("option", { value: "" }, "all tests");
  fill(byId("filter-test"), all, tests.map(([test, count]) => el("option", { value: test }, `${words(test)} (${number(count)})`)));
  const failed = suite.checks.map((check) => el("option", { value: check }, `failed: ${words(check)}`));
  fill(byId("filter-check"), el("option", { value: "" }, "all checks"), el("option", { value: "any" }, "a check failed"), failed);
  showFilter(filter);
}

/** Show the filter in its fields. */
export function showFilter(filter) {
  byId("filter-whose").value = filter.whose;
  byId("filter-test").value = filter.test;
  byId("filter-state").value = filter.state;
  byId("filter-check").value = filter.failed_check;
}

/** Say in words which items the filter keeps. */
export function describe(filter) {
  const parts = [
    filter.whose && "assigned to you",
    filter.test && `test ${words(filter.test)}`,
    filter.failed_check && (filter.failed_check === "any" ? "a failed check" : `failed check ${words(filter.failed_check)}`),
    filter.q && `search “${filter.q}”`,
  ].filter(Boolean);
  return parts.length ? parts.join(", ") : "the whole suite";
}

/** Make the buttons below the item; the second click of a double click is not about the next item. */
export function actionButtons(acts) {
  const button = (act, kind) => {
    const entry = keyOf(act);
    const key = entry.keys[0];
    return el("button", { type: "button", id: `act-${act}`, class: kind, "aria-keyshortcuts": key, click: (event) => event.detail > 1 || acts[act]() }, entry.label, " ", el("kbd", {}, shown(key)));
  };
  fill(
    byId("actions"),
    el("div", { class: "group" }, MAIN_ACTS.map((act) => button(act, act))),
    el("div", { class: "group" }, CALM_ACTS.map((act) => button(act, "quiet"))),
    el("div", { class: "group end" }, WAYS.map((act) => button(act, "quiet"))),
  );
}

/** Show how many rows were found. */
export function showFound(total) {
  byId("found").textContent = plural(total, "item");
}

/** Show how many items the button for many would accept. */
export function showBulk(count) {
  const label = count === null ? "Accept all…" : count ? `Accept all ${number(count)} undecided…` : "Nothing undecided here";
  fill(byId("bulk"), label, " ", el("kbd", {}, keyOf("bulk").keys[0]));
  byId("bulk").disabled = count === 0;
}

/** Tell a screen reader. */
export function say(text) {
  byId("said").textContent = text;
}

/** Show a message above everything for a while; `kind` is "problem" or "done". */
export function toast(text, kind = "problem") {
  const close = el("button", { type: "button", class: "quiet", "aria-label": "Close this message" }, "✕");
  const node = el("div", { class: `toast ${kind}` }, el("p", {}, text), close);
  close.addEventListener("click", () => node.remove());
  byId("toasts").replaceChildren(node);
  window.setTimeout(() => node.remove(), TOAST_MS * (kind === "problem" ? 2 : 1));
}
