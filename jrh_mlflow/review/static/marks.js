// Text as a reader can trust it: signs that cannot be seen, or that turn the reading direction, are shown by their code;
// layout is drawn where it matters. Everything becomes text nodes and spans, never markup.

import { el } from "./dom.js";

// Controls but tab and line feed; soft hyphen; zero-width, bidi and other format signs; half surrogates.
// The joiners U+200C and U+200D stay: emoji and several scripts are written with them.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\p{Cs}/u;
const EVERY_HIDDEN = new RegExp(HIDDEN, "gu");
const NAMES = {
  0x0000: "NUL",
  0x000d: "CR",
  0x00ad: "soft hyphen",
  0x200b: "zero-width space",
  0x200e: "left-to-right mark",
  0x200f: "right-to-left mark",
  0x202a: "left-to-right embedding",
  0x202b: "right-to-left embedding",
  0x202c: "end of embedding",
  0x202d: "left-to-right override",
  0x202e: "right-to-left override",
  0x2066: "left-to-right isolate",
  0x2067: "right-to-left isolate",
  0x2068: "first strong isolate",
  0x2069: "end of isolate",
  0xfeff: "byte order mark",
};

/** Append a text to `parent`, hidden signs shown by their code. */
export function appendText(parent, text) {
  if (!HIDDEN.test(text)) {
    parent.append(text);
    return;
  }
  let done = 0;
  for (const found of text.matchAll(EVERY_HIDDEN)) {
    if (found.index > done) parent.append(text.slice(done, found.index));
    parent.append(sign(found[0]));
    done = found.index + found[0].length;
  }
  parent.append(text.slice(done));
}

/** How many signs of a text a reader would not see. */
export function countHidden(text) {
  return text.match(EVERY_HIDDEN)?.length ?? 0;
}

function sign(char) {
  const code = char.codePointAt(0);
  const hex = code.toString(16).toUpperCase().padStart(4, "0");
  return el("span", { class: "sign", title: NAMES[code] ?? "control sign" }, code === 0x000d ? "CR" : `U+${hex}`);
}

/**
 * Draw layout: a space as ·, indentation as →, a tab as ⇥, a line end as ¶ followed by the line end itself.
 * `everywhere` draws single spaces between words too; otherwise only layout that cannot be taken for granted.
 */
export function drawLayout(text, { lineStart = false, everywhere = false } = {}) {
  const words = /\S/.test(text);
  return text.replace(/\r?\n|\t|[^\S\r\n\t]+/g, (run, at) => {
    if (run.includes("\n")) return `¶${run}`;
    if (run === "\t") return "⇥\t";
    const begins = at === 0 ? lineStart : text[at - 1] === "\n";
    if (begins) return `→${"·".repeat(run.length - 1)}`;
    const ends = /^\r?\n/.test(text.slice(at + run.length, at + run.length + 2));
    return run.length === 1 && words && !ends && !everywhere ? run : "·".repeat(run.length);
  });
}
