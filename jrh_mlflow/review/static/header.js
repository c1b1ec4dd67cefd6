// What stands above and below the item: progress, filters and the buttons, and what the page says.

import { byId, el, fill, number, plural, words } from "./dom.js";
import { keyOf, shown } from "./keys.js";

const TOAST_MS = 6_000;
const MAIN_ACTS = ["accept", "edit", "reject"];
const CALM_ACTS = ["undo", "reopen"];
const WAYS = ["previous", "next", "nextUndecided"];

/** Show how far the review is: decided of all, as a bar and in words. */
export function showProgress(suite) {
  const { undecided = 0, accepted = 0, edited = 0, rejected = 0, exempt = 0 } = suite.states;
  const total = undecided + accepted + edited + rejected;
  const decided = total - undecided;
  const share = (count) => `${total ? (100 * count) / total : 0}%`;
  const bar = byId("bar");
  bar.setAttribute("aria-valuenow", String(total ? Math.round((100 * decided) / total) : 0));
  bar.setAttribute("aria-valuetext", `${decided} of ${total} decided`);
  [accepted, edited, rejected].forEach((count, i) => {
    bar.children[i].style.width = share(count);
  });
  const parts = [
    [`${number(decided)} of ${number(total)} decided`, ""],
    [`✓ ${number(accepted)} accepted`, "accepted"],
    [`✎ ${number(edited)} edited`, "edited"],
    [`✕ ${number(rejected)} rejected`, "rejected"],
  ];
  if (exempt) parts.push([`${number(exempt)} by code`, ""]);
  fill(byId("counts"), parts.map(([text, kind]) => el("span", { class: kind }, text)));
}

/** Fill the choices of tests and failed checks. */
export function fillFilters(suite, filter) {
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
  byId("filter-test").value = filter.test;
  byId("filter-state").value = filter.state;
  byId("filter-check").value = filter.failed_check;
}

/** Say in words which items the filter keeps. */
export function describe(filter) {
  const parts = [
    filter.test && `test ${words(filter.test)}`,
    filter.failed_check && (filter.failed_check === "any" ? "a failed check" : `failed check ${words(filter.failed_check)}`),
    filter.q && `search “${filter.q}”`,
  ].filter(Boolean);
  return parts.length ? parts.join(", ") : "the whole suite";
}

/** Make the buttons below the item. */
export function actionButtons(acts) {
  const button = (act, kind) => {
    const entry = keyOf(act);
    const key = entry.keys[0];
    return el("button", { type: "button", id: `act-${act}`, class: kind, "aria-keyshortcuts": key, click: () => acts[act]() }, entry.label, " ", el("kbd", {}, shown(key)));
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
