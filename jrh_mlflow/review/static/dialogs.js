// Questions the page asks. Each is a native dialog: focus stays inside, Esc closes, focus returns to where it was.

import { el, isTyping, number, plural, words } from "./dom.js";
import { OPTIONAL } from "./header.js";
import { KEYS, shown } from "./keys.js";

export const REASONS = [
  "The target label is not right for this text",
  "The meaning changed where it should not",
  "The meaning did not change where it should",
  "Garbled or unnatural text",
  "Facts, numbers or names were lost",
  "The text gives the answer away",
  "The generator's own chatter or a refusal",
  "The original item is faulty",
  "Too close to another item",
];
const NAME_LENGTH = 80;

/**
 * Open a dialog; `make(close)` returns its content. Resolves to what `close` was given, or null.
 * An `unarmed` one begins on its title, where neither Enter nor Space answers it.
 */
function ask(title, make, { label = null, wide = false, unarmed = false } = {}) {
  return new Promise((resolve) => {
    const begins = unarmed ? { tabindex: "-1", autofocus: true } : {};
    const heading = el("h2", { id: "dialog-title", ...begins }, title);
    const node = el("dialog", { "aria-labelledby": "dialog-title", "aria-label": label, class: wide ? "wide" : null }, heading);
    // At once: the event `close` comes later, and a key pressed in between would be neither an answer nor an act.
    const close = (value = null) => {
      resolve(value);
      node.close();
      node.remove();
    };
    node.append(...[make(close, node)].flat(2).filter(Boolean));
    node.addEventListener("cancel", () => close());
    node.addEventListener("close", () => close());
    document.body.append(node);
    node.showModal();
    const opened = performance.now();
    const early = (event) => event.timeStamp < opened || (event.repeat && (event.key === "Enter" || !isTyping(event.target)));
    // A key that was pressed before the question could be seen, or is still held down, is no answer to it.
    node.addEventListener("keydown", (event) => early(event) && swallow(event), { capture: true });
  });
}

function swallow(event) {
  event.preventDefault();
  event.stopPropagation();
}

function buttons(...children) {
  return el("p", { class: "dialog-buttons" }, children);
}

function cancelButton(close, label = "Cancel") {
  return el("button", { type: "button", class: "quiet", click: () => close() }, label, " ", el("kbd", {}, "Esc"));
}

/** A button that Enter presses too, from anywhere in the dialog. */
function mainButton(label, act) {
  return el("button", { type: "button", class: "main", click: act }, label);
}

/** Ask who reviews; the name goes beside every decision. */
export function askName(current) {
  return ask(current ? "Your name" : "Who is reviewing?", (close) => {
    const field = el("input", { id: "your-name", type: "text", maxlength: NAME_LENGTH, autocomplete: "name", autofocus: true, required: true });
    field.value = current ?? "";
    const take = () => (field.value.trim() ? close(field.value.trim()) : field.focus());
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      take();
    });
    return [
      el("p", { class: "how" }, "It is written beside each of your decisions and remembered in this browser."),
      el("label", { for: "your-name" }, "Name"),
      field,
      buttons(mainButton("Start reviewing", take), current ? cancelButton(close) : null),
    ];
  });
}

/** Ask why an item is rejected: a ready reason by number, or own words. */
export function askReason() {
  return ask("Reject: why?", (close, node) => {
    const own = el("input", { id: "own-reason", type: "text", maxlength: 500, autocomplete: "off" });
    own.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key !== "Enter") return;
      event.preventDefault();
      if (own.value.trim()) close(own.value.trim());
    });
    node.addEventListener("keydown", (event) => {
      const reason = /^[1-9]$/.test(event.key) && !event.ctrlKey && !event.metaKey ? REASONS[Number(event.key) - 1] : null;
      if (reason) {
        event.preventDefault();
        close(reason);
      } else if (event.key === "0") {
        event.preventDefault();
        own.focus();
      }
    });
    const ready = REASONS.map((reason, i) =>
      el("li", {}, el("button", { type: "button", class: "reason", click: () => close(reason) }, el("kbd", {}, i + 1), reason)),
    );
    return [
      el("ol", { class: "reasons" }, ready),
      el("label", { for: "own-reason" }, "Own words ", el("kbd", {}, "0")),
      own,
      buttons(mainButton("Reject", () => (own.value.trim() ? close(own.value.trim()) : own.focus())), cancelButton(close)),
    ];
  });
}

/** Show every key. */
export function showHelp() {
  const rows = KEYS.map(({ keys, told }) =>
    el("div", {}, el("dt", {}, keys.map((key) => el("kbd", {}, shown(key)))), el("dd", {}, told)),
  );
  return ask("Keys", (close) => [
    el("dl", { class: "keys" }, rows),
    el("p", { class: "how" }, "Every decision is saved when it is made. Rejected and undecided items never reach a judge. " + OPTIONAL),
    el("p", { class: "how" }, "Keys pressed while a decision is on its way wait for it and take effect on the item the page moves to; when one is refused, those behind it are dropped."),
    buttons(el("button", { type: "button", class: "main", autofocus: true, click: () => close() }, "Close ", el("kbd", {}, "Esc"))),
  ], { wide: true });
}

/** Ask before many items are accepted at once. */
export function askBulk(count, described) {
  return ask(`Accept ${plural(count, "item")}?`, (close) => [
    el("p", {}, `Every undecided item of the list is accepted as it stands: ${described}.`),
    el("p", { class: "how" }, "Each can be reopened or decided anew later. Enter alone accepts nothing: press the button, or Tab to it."),
    // In the order of Tab: first the way out.
    el("p", { class: "dialog-buttons forward" }, cancelButton(close), mainButton(`Accept ${number(count)}`, () => close(true))),
  ], { unarmed: true });
}

/** Ask before the reviewed suite is written, saying what is left out. Resolves to {allow} or null. */
export function askFinish({ states, n_items: total, disagreements }) {
  const { undecided = 0, rejected = 0 } = states;
  const { unsettled } = disagreements;
  return ask("Write the reviewed suite?", (close) => {
    const box = el("input", { id: "leave-out", type: "checkbox" });
    const warning = el("p", { class: "problem", role: "alert", hidden: true }, "Tick the box, or decide the items first.");
    const go = () => {
      if (undecided && !box.checked) {
        warning.hidden = false;
        box.focus();
      } else close({ allow: Boolean(undecided) });
    };
    const kept = total - undecided - rejected;
    return [
      el("p", {}, `A new version with ${plural(kept, "perturbed item")} is written. The suite itself stays as it is.`),
      el("ul", { class: "left-out" },
        el("li", {}, `${plural(rejected, "rejected item")} left out`),
        el("li", {}, `${plural(undecided, "undecided item")} left out`),
      ),
      unsettled ? el("p", { id: "unsettled" }, `${plural(unsettled, "disagreement")} unsettled: on each the last decision counts. `, el("kbd", {}, "g"), " lists them.") : null,
      undecided ? el("p", {}, box, " ", el("label", { for: "leave-out" }, `Leave the ${plural(undecided, "undecided item")} out`)) : null,
      warning,
      buttons(mainButton("Write suite", go), cancelButton(close)),
    ];
  });
}

/** Say what was written. */
export function showFinished(answer) {
  const facts = Object.entries(answer).filter(([, value]) => value !== null && value !== undefined);
  return ask("Written", (close) => [
    el("dl", { class: "written", id: "written" }, facts.map(([name, value]) => el("div", {}, el("dt", {}, words(name)), el("dd", {}, spelled(value))))),
    buttons(el("button", { type: "button", class: "main", autofocus: true, click: () => close() }, "Close ", el("kbd", {}, "Esc"))),
  ], { wide: true });
}

/** Show reviewers, their progress and agreement. Resolves to "rename", "assign" or null. */
export function showPeople(suite, reviewer) {
  const names = suite.reviewers ?? [];
  return ask("Reviewers", (close) => [
    el("p", {}, "You review as ", el("strong", {}, reviewer), "."),
    names.length
      ? el("ul", { class: "people" }, names.map((one) => el("li", {}, typeof one === "object" ? spelled(one) : one)))
      : el("p", { class: "how" }, "Nobody has decided anything yet."),
    el("h3", {}, "Assignment"),
    assignment(suite.assignment),
    el("h3", {}, "Agreement"),
    agreement(suite.agreement),
    buttons(
      el("button", { type: "button", class: "main", autofocus: true, click: () => close() }, "Close ", el("kbd", {}, "Esc")),
      el("button", { type: "button", class: "quiet", click: () => close("assign") }, "Assign…"),
      el("button", { type: "button", class: "quiet", click: () => close("rename") }, "Change my name…"),
    ),
  ]);
}

/** Ask who gets the items. Resolves to {shares, overlap} or null. */
export function askAssignment({ progress, assignment: before, reviewers }, reviewer) {
  return ask("Assign the items", (close) => {
    const known = before?.reviewers.map(({ name }) => name) ?? [...new Set([...reviewers, reviewer])];
    const names = el("input", { id: "assign-names", type: "text", autocomplete: "off", autofocus: true, maxlength: 4000 });
    names.value = known.join(", ");
    const overlap = el("input", { id: "assign-overlap", type: "number", min: 0, max: 100, step: 1 });
    overlap.value = String(Math.round(100 * (before?.overlap ?? 0)));
    const problem = el("p", { class: "problem", role: "alert", hidden: true });
    const go = () => {
      const shares = [...new Set(names.value.split(",").map((name) => name.trim()).filter(Boolean))].map((name) => ({ name }));
      const share = Number(overlap.value) / 100;
      const wrong = !shares.length ? "Name at least one reviewer." : !(share >= 0 && share <= 1) ? "The part for two is 0 to 100 percent." : share && shares.length < 2 ? "Items for two need two reviewers." : null;
      problem.hidden = wrong === null;
      problem.textContent = wrong ?? "";
      if (!wrong) close({ shares, overlap: share });
    };
    return [
      el("p", {}, `${plural(progress.needed.total, "item")} that need a decision are dealt out evenly. Who has decided an item keeps it; anybody may still decide any item.`),
      el("p", {}, el("label", { for: "assign-names" }, "Reviewers, with commas between them"), names),
      el("p", {}, el("label", { for: "assign-overlap" }, "Percent of the items that two reviewers decide, for their agreement"), overlap),
      problem,
      buttons(mainButton("Assign", go), cancelButton(close)),
    ];
  });
}

function assignment(found) {
  if (!found) return el("p", { class: "how" }, "No item is assigned: everybody sees all of them.");
  const head = ["reviewer", "decided", "by others", "open"].map((name) => el("th", { scope: "col" }, name));
  const rows = found.reviewers.map((one) =>
    el("tr", {}, el("th", { scope: "row", dir: "auto" }, one.name),
      [`${number(one.decided)} of ${number(one.assigned)}`, number(one.by_others), number(one.open)].map((told) => el("td", {}, told))),
  );
  return el("table", { id: "assignment" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows));
}

function agreement(found) {
  const validator = el("p", {}, `Validator and reviewers: ${reading(found?.validator)}`);
  const pairs = found?.reviewers ?? [];
  if (!pairs.length) {
    return [validator, el("p", { class: "how" }, "Between reviewers it appears when two have decided the same items.")];
  }
  const head = ["reviewers", "items", "same verdict", "kappa", "AC1"].map((name) => el("th", { scope: "col" }, name));
  const rows = pairs.map((pair) =>
    el("tr", {}, el("th", { scope: "row", dir: "auto" }, pair.reviewers.join(" · ")),
      [number(pair.n), ...[pair.rate, pair.kappa, pair.ac1].map(share)].map((value) => el("td", {}, value))),
  );
  const disputed = found.disputed.length;
  return [
    validator,
    el("table", { id: "agreement" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)),
    el("p", { class: "how" }, `${plural(disputed, "item")} kept by one and rejected by another.`),
  ];
}

function share(value) {
  return typeof value === "number" ? value.toFixed(2) : "–";
}

/** An estimate with its interval and denominator, or why there is none. */
function reading(found) {
  if (found?.rate === undefined) return found?.not_estimable ?? "nothing decided yet";
  const [rate, low, high] = [found.rate, found.ci_low, found.ci_high].map((value) => value.toFixed(2));
  return `${rate} [${low}, ${high}], ${plural(found.n, "item")}`;
}

function spelled(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return Number.isInteger(value) ? number(value) : value.toFixed(2);
  if (Array.isArray(value)) return value.map(spelled).join(", ") || "–";
  if (typeof value !== "object") return String(value);
  return Object.entries(value).map(([name, inner]) => `${words(name)}: ${spelled(inner)}`).join(", ") || "–";
}
