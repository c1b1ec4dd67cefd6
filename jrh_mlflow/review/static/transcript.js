// A conversation, message by message; what was edited is marked and compared with what the log held.

import { el, plural } from "./dom.js";
import { appendText } from "./marks.js";
import { inlineView, plainPane } from "./textview.js";

const SHORT = 600; // characters of an unedited message that is shown open

/** The messages of an item, after a line that says how many were edited. */
export function conversation(item, view) {
  const before = item.original_transcript ?? [];
  const edited = item.transcript.filter((message) => message.edited).length;
  const same = before.length === item.transcript.length;
  const told = `${plural(item.transcript.length, "message")}, ${edited} edited`;
  return [
    el("p", { class: "how", id: "diff-summary" }, edited ? `${told}; ] and [ jump between the edited ones.` : `${told}.`),
    el("ol", { class: "messages" }, item.transcript.map((message, i) => row(message, same ? before[i] : null, i, view))),
  ];
}

/** Bring the next (or previous) edited message into view. */
export function jumpEdited(step) {
  const all = [...document.querySelectorAll(".message.edited")];
  if (!all.length) return;
  const here = all.indexOf(document.activeElement?.closest(".message.edited"));
  const next = all[here < 0 ? (step > 0 ? 0 : all.length - 1) : (here + step + all.length) % all.length];
  next.scrollIntoView({ block: "center" });
  next.focus({ preventScroll: true });
}

function row(message, before, i, view) {
  const role = el("span", { class: `role ${known(message.role)}` });
  appendText(role, String(message.role));
  const head = el(
    "p",
    { class: "message-head" },
    el("span", { class: "turn" }, String(i + 1)),
    role,
    message.name ? el("span", { class: "chip" }, message.name) : null,
    message.edited ? el("span", { class: "chip edited-mark" }, "✎ edited") : null,
  );
  const options = { class: `message${message.edited ? " edited" : ""}`, tabindex: message.edited ? "-1" : null };
  return el("li", options, head, body(message, before, view), calls(message, before, view));
}

function known(role) {
  return ["user", "assistant", "tool", "system"].includes(role) ? role : "other";
}

function body(message, before, view) {
  const text = message.content ?? "";
  const was = before?.content ?? "";
  if (message.edited && before && was !== text) return inlineView(was, text, "Content, changes marked", { layout: view.layout });
  if (!text) return null;
  if (message.edited || text.length <= SHORT) return plainPane("Content", text);
  const summary = el("summary", { dir: "auto" });
  appendText(summary, `${text.slice(0, 140).trim()} …`);
  return lazy(summary, () => plainPane("Content", text));
}

/** Content that is made when it is opened. */
function lazy(summary, make) {
  const node = el("details", {}, summary);
  node.addEventListener("toggle", () => node.open && node.append(make()), { once: true });
  return node;
}

function calls(message, before, view) {
  return (message.tool_calls ?? []).map((call, i) => {
    const [was, now] = [before?.tool_calls?.[i], call].map((one) => (one ? spelled(one) : null));
    const name = `Call of ${call.name ?? call.function?.name ?? "a tool"}`;
    if (was !== null && was !== now) return inlineView(was, now, `${name}, changes marked`, { layout: view.layout });
    return plainPane(name, now);
  });
}

function spelled(call) {
  const given = call.arguments ?? call.function?.arguments ?? call;
  return typeof given === "string" ? given : JSON.stringify(given, null, 2);
}
