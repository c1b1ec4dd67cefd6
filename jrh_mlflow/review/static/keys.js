// Every key of the page, in one table: the buttons and the help read it too.

import { isTyping } from "./dom.js";

export const KEYS = [
  { keys: ["a"], act: "accept", label: "Accept", told: "Accept the item as it stands" },
  { keys: ["e"], act: "edit", label: "Edit", told: "Edit text and label; Ctrl+Enter or ⌘+Enter saves, Esc leaves" },
  { keys: ["r"], act: "reject", label: "Reject", told: "Reject with a reason; then 1–9 for a ready one" },
  { keys: ["u"], act: "undo", label: "Undo", told: "Undo your last decision and go back to its item" },
  { keys: ["o"], act: "reopen", label: "Reopen", told: "Back to undecided, as it was generated" },
  { keys: ["n"], act: "nextUndecided", label: "Next undecided", told: "Go to the next undecided item" },
  { keys: ["j", "ArrowRight", "ArrowDown"], act: "next", label: "Next", told: "Next item of the list; in a text that scrolls by itself ↓ scrolls, Space and PgDn scroll the page" },
  { keys: ["k", "ArrowLeft", "ArrowUp"], act: "previous", label: "Previous", told: "Previous item of the list; ↑ in such a text scrolls back" },
  { keys: ["g"], act: "disagreements", label: "Disagreements", told: "What reviewers disagree on; a decision in this list settles it" },
  { keys: ["1", "2", "3", "4", "5", "6", "7", "8", "9"], act: "settleAs", label: "Settle", told: "Settle a disagreement as the reviewer of this number decided" },
  { keys: ["/"], act: "search", label: "Search", told: "Search in ids and texts; Enter goes to the first hit" },
  { keys: ["v"], act: "filterWhose", label: "Whose", told: "Your own items or everybody's, where items are assigned" },
  { keys: ["t"], act: "filterTest", label: "Test", told: "Choose a test" },
  { keys: ["s"], act: "filterState", label: "State", told: "Choose a state" },
  { keys: ["c"], act: "filterCheck", label: "Checks", told: "Choose a failed check" },
  { keys: ["x"], act: "clear", label: "Clear filters", told: "Clear all filters" },
  { keys: ["b"], act: "bulk", label: "Accept all…", told: "Accept every undecided item of the list, after a question that Enter does not answer" },
  { keys: ["d"], act: "mode", label: "View", told: "Both texts side by side, or changes in one text" },
  { keys: ["w"], act: "layout", label: "Layout marks", told: "Draw every space and line end" },
  { keys: ["]"], act: "nextEdited", label: "Next edited message", told: "Next edited message of a transcript" },
  { keys: ["["], act: "previousEdited", label: "Previous edited message", told: "Previous edited message" },
  { keys: ["h"], act: "history", label: "History", told: "Open or close the item's history" },
  { keys: ["p"], act: "people", label: "Reviewers", told: "Reviewers, their progress and agreement, assignment, your own name" },
  { keys: ["f"], act: "finish", label: "Finish…", told: "Write the reviewed suite" },
  { keys: ["?"], act: "help", label: "Help", told: "This list" },
];

const SHOWN = { ArrowRight: "→", ArrowLeft: "←", ArrowDown: "↓", ArrowUp: "↑" };
const UP_DOWN = ["ArrowUp", "ArrowDown"];
const HELD = ["next", "previous"]; // acts that go on while their key is held down

/** How a key is written on a button. */
export function shown(key) {
  return SHOWN[key] ?? key;
}

/** The table's entry for an act. */
export function keyOf(act) {
  return KEYS.find((entry) => entry.act === act);
}

/** Call `acts[act](key)` for the keys of the page; fields, dialogs and the browser's own shortcuts keep theirs. */
export function listen(acts, queue) {
  document.addEventListener("keydown", (event) => {
    // A key that answered a question is used up, also when its dialog is closed by now.
    if (event.defaultPrevented) return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    if (UP_DOWN.includes(event.key) && (event.shiftKey || scrolls(event.target))) return;
    const { asking } = queue;
    const entry = KEYS.find(({ keys }) => keys.includes(event.key) || keys.includes(event.key.toLowerCase()));
    if (!entry && !(asking && (event.key.length === 1 || event.key === "Enter"))) return;
    event.preventDefault();
    if (asking) {
      if (!event.repeat) asking.takes?.(event.key);
      return;
    }
    // A key that is held down asks for as many steps as the page can make, and for one of everything else.
    if (!event.repeat || (HELD.includes(entry.act) && !queue.busy)) acts[entry.act](event.key);
  });
}

/** Whether a press of ↑ or ↓ belongs to a text that scrolls by itself; the list of items moves with its item. */
function scrolls(target) {
  const box = target instanceof Element ? target.closest(".text") : null;
  return box !== null && box.scrollHeight > box.clientHeight && window.getComputedStyle(box).overflowY !== "visible";
}
