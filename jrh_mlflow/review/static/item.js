// One item as the reviewer reads it: what is asked, what was changed, what is known of it, and what was decided.

import { el, named, plural, words } from "./dom.js";
import { OPTIONAL } from "./header.js";
import { appendText } from "./marks.js";
import { besideView, inlineView, plainPane, summaryText } from "./textview.js";
import { conversation } from "./transcript.js";

export const STATES = {
  undecided: ["○", "undecided"],
  accepted: ["✓", "accepted"],
  edited: ["✎", "edited"],
  rejected: ["✕", "rejected"],
  exempt: ["–", "needs no decision"],
};
const VALIDATOR = "validator";
/** Of labels that are no ground truth. */
const LABEL_SOURCES = { unverified: "unverified: no validator confirmed it", model: "written by a model" };
const PARTS = { response: "response", rubric: "rubric", transcript: "transcript" };

/** A state as a sign and a word: never by colour alone. */
export function stateChip(state) {
  const [sign, word] = STATES[state] ?? ["?", state];
  return el("span", { class: `chip state ${state}` }, el("span", { "aria-hidden": "true" }, sign), ` ${word}`);
}

/** Everything about an item. `view` has `mode` ("beside" or "inline") and `layout`; `setView` changes them. */
export function itemView(item, { view, setView, place, draft, settle, queue }) {
  return [
    heading(item, place, draft),
    disagreement(item, settle, queue),
    knowledge(item),
    context(item),
    changed(item, view, setView),
    past(item.history ?? []),
  ];
}

function heading(item, place, draft) {
  const title = el("h2", { id: "item-title", tabindex: "-1", dir: "auto" });
  appendText(title, String(item.id));
  return el(
    "header",
    { class: "head" },
    el("p", { class: "place" }, place),
    title,
    el("p", { class: "chips" }, el("span", { class: "chip test" }, words(item.test)), stateChip(item.state), optional(item), mine(item), draft && draftChip()),
    target(item),
    item.reason && rejection(item.reason),
  );
}

/** Of an item by code that was decided all the same: where the decision counts. */
function optional(item) {
  const decided = !item.needs_decision && item.state !== "exempt";
  return decided && el("span", { class: "chip", title: OPTIONAL }, "by code: an optional decision, not in the total");
}

function draftChip() {
  return el("span", { class: "chip edited" }, "unsaved draft, ", el("kbd", {}, "e"), " to go on");
}

function mine(item) {
  const parts = [item.by && `by ${item.by}`, item.mine && item.mine !== item.state && `you: ${item.mine}`].filter(Boolean);
  return parts.map((part) => el("span", { class: "chip", dir: "auto" }, part));
}

function rejection(reason) {
  const node = el("p", { class: "why", dir: "auto" }, "Reason: ");
  appendText(node, reason);
  return node;
}

function target(item) {
  const known = item.expected !== null && item.expected !== undefined;
  const value = el("strong", { dir: "auto" });
  appendText(value, known ? named(item, item.expected) : "a direction only");
  const before = item.original_label;
  const was = before !== null && before !== undefined && before !== item.expected ? `was ${named(item, before)} before the change` : null;
  return el("p", { class: "target" }, el("span", {}, "Target label"), value, was && el("span", {}, was));
}

/** What each reviewer decided, side by side, where they disagree; and how it was settled. */
function disagreement(item, settle, queue) {
  if (!item.disagreement) return null;
  const { settled } = item;
  const how = settled
    ? ["Settled by ", el("strong", { dir: "auto" }, settled.by), " ", when(settled.when), settled.as ? [", as ", el("strong", { dir: "auto" }, settled.as), " decided"] : null, ". ", el("kbd", {}, "o"), " reopens it."]
    : [queue ? "A decision in this list is final and settles it. " : "Until somebody settles it, the last decision counts. ", "A number settles it as that reviewer decided."];
  const title = `Reviewers disagree on the ${item.disputed.join(" and the ") || "item"}`;
  return el(
    "section",
    { class: "disagreement", id: "disagreement", "aria-labelledby": "disagreement-title" },
    el("h3", { id: "disagreement-title" }, settled ? `${title}: settled` : title),
    el("p", { class: "how" }, how.flat()),
    el("div", { class: "opinions" }, item.opinions.map((opinion, i) => opinionCard(opinion, i, item, settle))),
  );
}

function opinionCard(opinion, i, item, settle) {
  const who = el("strong", { dir: "auto" });
  appendText(who, opinion.who);
  const label = opinion.state === "rejected" ? null : el("p", { dir: "auto" }, "Label ", el("strong", {}, named(item, opinion.label ?? item.generated_label ?? "none")));
  const button = el("button", { type: "button", class: "quiet", click: () => settle(i + 1) }, el("kbd", {}, i + 1), " Settle so");
  return el(
    "article",
    { class: "opinion" },
    el("p", { class: "opinion-head" }, who, " ", stateChip(opinion.state), button),
    label,
    opinion.reason && rejection(opinion.reason),
    opinion.text !== undefined && inlineView(item.generated ?? "", opinion.text, `${opinion.who}'s text, changes marked`),
  );
}

/** Checks, validator, similarity and origin in one line of facts. */
function knowledge(item) {
  const facts = [
    ...item.checks.map((check) => checkFact(check, item)),
    item.checks.some(({ name }) => name === VALIDATOR) ? null : fact("Validator", item.validator),
    fact("Label", LABEL_SOURCES[item.label_source] ?? item.label_source, "bad"),
    fact("Similarity", typeof item.similarity === "number" ? item.similarity.toFixed(2) : null),
    fact("Written by", item.generator),
    fact("Attempts", item.attempts),
  ];
  return el("dl", { class: "facts" }, facts);
}

function fact(name, value, kind = null) {
  if (value === null || value === undefined || value === "") return null;
  const told = el("dd");
  appendText(told, String(value));
  return el("div", { class: kind }, el("dt", {}, name), told);
}

function checkFact({ name, passed, problem }, item) {
  if (name === VALIDATOR) return fact(`${passed ? "✓" : "✕"} Validator says`, item.validator, passed ? "good" : "bad");
  return fact(`${passed ? "✓" : "✕"} ${words(name)}`, problem ?? (passed ? "passed" : "failed"), passed ? "good" : "bad");
}

/** Instruction, what the response was to go by, and rubric; the one that was perturbed is shown as the changed text instead. */
function context(item) {
  const parts = [
    ["Instruction", item.instruction],
    ["Context", item.context],
    item.part === "rubric" ? ["Response", item.response] : ["Rubric", item.rubric],
  ];
  return el("div", { class: "context" }, parts.map(([name, text]) => text && plainPane(name, text, { scrolls: true })));
}

function changed(item, view, setView) {
  const content = item.part === "transcript" && item.transcript ? conversation(item, view) : texts(item, view, setView);
  return el("section", { class: "changed", id: "changed", "aria-label": "What was changed" }, content);
}

function texts(item, view, setView) {
  const noun = PARTS[item.part] ?? "text";
  const [before, after] = [item.original ?? "", item.perturbed ?? ""];
  if (item.original === null || item.original === undefined) return [plainPane(capital(noun), after)];
  if (before === after) {
    return [el("p", { class: "how" }, `The ${noun} is unchanged.`), plainPane(capital(noun), after)];
  }
  const options = { layout: view.layout };
  const shown =
    view.mode === "inline"
      ? inlineView(before, after, `${capital(noun)}, changes marked`, options)
      : besideView(before, after, [`Original ${noun}`, `Perturbed ${noun}`], options);
  return [viewBar(before, after, view, setView), shown, humanEdit(item)];
}

/** What people changed of the generated text, where they did. */
function humanEdit(item) {
  if (typeof item.generated !== "string" || item.generated === item.perturbed) return null;
  return el(
    "details",
    { class: "human" },
    el("summary", {}, "What reviewers changed in the generated text"),
    inlineView(item.generated, item.perturbed ?? "", "Generated and edited text"),
  );
}

function viewBar(before, after, view, setView) {
  const button = (label, key, pressed, change) =>
    el("button", { type: "button", class: "toggle", "aria-pressed": String(pressed), click: () => setView(change) }, label, key);
  return el(
    "div",
    { class: "view-bar" },
    el("p", { class: "how", id: "diff-summary" }, summaryText(before, after)),
    el(
      "div",
      { class: "toggles", role: "group", "aria-label": "View" },
      button("Side by side", null, view.mode === "beside", { mode: "beside" }),
      button("In one text ", el("kbd", {}, "d"), view.mode === "inline", { mode: "inline" }),
      button("Layout marks ", el("kbd", {}, "w"), view.layout, { layout: !view.layout }),
    ),
  );
}

function past(history) {
  if (!history.length) return null;
  const rows = [...history].reverse().map((event) =>
    el("li", {}, el("strong", {}, event.who), ` ${did(event.action)}${event.settles && event.action !== "settle" ? " and so settled" : ""} `, when(event.when), reason(event), previous(event)),
  );
  const title = `History: ${plural(history.length, "event")}`;
  return el("details", { class: "history", id: "history" }, el("summary", {}, title), el("ol", { reversed: true }, rows));
}

function did(action) {
  return { accept: "accepted", edit: "edited", reject: "rejected", undo: "undid a decision", reopen: "reopened", settle: "settled" }[action] ?? action;
}

function when(moment) {
  const date = new Date(moment);
  const text = Number.isNaN(date.getTime()) ? String(moment) : date.toLocaleString();
  return el("time", { datetime: moment }, text);
}

function reason(event) {
  if (!event.reason) return null;
  const node = el("q", { dir: "auto" });
  appendText(node, event.reason);
  return [" ", node];
}

function previous(event) {
  const parts = [];
  if (event.label_before !== null && event.label_before !== undefined) parts.push(` Label before: ${event.label_before}.`);
  if (event.text_before) parts.push(el("details", {}, el("summary", {}, "Text before"), plainPane("Text before", event.text_before)));
  return parts;
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}
