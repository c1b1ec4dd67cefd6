// What changed between two texts, word by word. Pure functions: texts in, runs of [kind, text] out.
//
// Small texts are compared word by word (Myers). Large ones first line by line, and word by word inside the lines that
// changed. Where even that is too much, a changed stretch is told as a whole; no input takes longer than a moment.

export const SAME = 0;
export const REMOVED = -1;
export const ADDED = 1;

const WORDS_UP_TO = 150_000; // characters compared word by word at once
const REFINED_UP_TO = 400_000; // characters of changed lines looked into
const MAX_EDITS = 1_200; // edits that Myers looks for before the texts are split at unique words
const SCRAP_UP_TO = 12; // characters of an unchanged scrap between two changed phrases
const AROUND_SCRAP = 6; // how much more must have changed around it

const SINGLE = "\\p{sc=Han}\\p{sc=Hiragana}\\p{sc=Katakana}\\p{sc=Thai}\\p{sc=Lao}\\p{sc=Khmer}";
const WORD = new RegExp(
  `[${SINGLE}]|(?:(?![${SINGLE}])[\\p{L}\\p{M}\\p{N}_])+(?:['’](?![${SINGLE}])\\p{L}+)*|\\r?\\n|[^\\S\\r\\n]+|[^]`,
  "gu",
);

/** Split a text into words, single signs, runs of spaces and line ends. Joined they are the text again. */
export function tokens(text) {
  return text.match(WORD) ?? [];
}

/**
 * Compare two texts.
 * Returns `runs` of [kind, text] in reading order, and what is worth saying: words removed and added, places where only
 * the layout changed, and `kept`, the share of the longer text that is unchanged.
 */
export function compare(before, after) {
  const [head, tail] = commonEnds(before, after);
  const one = before.slice(head, before.length - tail);
  const other = after.slice(head, after.length - tail);
  const runs = [[SAME, before.slice(0, head)], ...middle(one, other), [SAME, before.slice(before.length - tail)]];
  const groups = tidy(grouped(runs));
  return { runs: flat(groups), ...summary(groups, Math.max(before.length, after.length)) };
}

/** Lengths of the common beginning and end, moved out to whole words. */
function commonEnds(before, after) {
  const shorter = Math.min(before.length, after.length);
  let head = 0;
  while (head < shorter && before[head] === after[head]) head += 1;
  if (head === before.length && head === after.length) return [head, 0];
  while (head > 0 && !boundary(before, after, head)) head -= 1;
  let tail = 0;
  const room = shorter - head;
  while (tail < room && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail += 1;
  while (tail > 0 && !boundary(before, after, -tail)) tail -= 1;
  return [head, tail];
}

/** Whether both texts may be cut at a place (from the end when negative) without cutting a word or a run of spaces. */
function boundary(before, after, place) {
  return [before, after].every((text) => {
    const at = place < 0 ? text.length + place : place;
    return at === 0 || at === text.length || text[at - 1] === "\n" || !sameSort(text[at - 1], text[at]);
  });
}

function sameSort(left, right) {
  return sort(left) === sort(right) && sort(left) !== "sign";
}

function sort(char) {
  if (/\s/.test(char)) return "space";
  return /[\p{L}\p{M}\p{N}_'’\ud800-\udfff]/u.test(char) || (char >= "\ud800" && char <= "\udfff") ? "word" : "sign";
}

function middle(before, after) {
  if (before.length + after.length <= WORDS_UP_TO) return aligned(tokens(before), tokens(after));
  let left = REFINED_UP_TO;
  return grouped(aligned(lines(before), lines(after))).flatMap((group) => {
    if (group.same !== undefined) return [[SAME, group.same]];
    const size = group.removed.length + group.added.length;
    if (!group.removed || !group.added || size > Math.min(left, WORDS_UP_TO)) return flat([group]);
    left -= size;
    return aligned(tokens(group.removed), tokens(group.added));
  });
}

function lines(text) {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

/** Runs of [kind, text] that turn one list of pieces into another. */
function aligned(before, after) {
  const [one, other] = numbered(before, after);
  const matches = [];
  match(one, other, 0, one.length, 0, other.length, matches);
  const runs = [];
  let [i, j] = [0, 0];
  const upTo = (a, b) => {
    if (a > i) runs.push([REMOVED, before.slice(i, a).join("")]);
    if (b > j) runs.push([ADDED, after.slice(j, b).join("")]);
  };
  for (const [a, b, length] of matches) {
    upTo(a, b);
    runs.push([SAME, before.slice(a, a + length).join("")]);
    [i, j] = [a + length, b + length];
  }
  upTo(before.length, after.length);
  return runs;
}

/** The same piece gets the same number: numbers compare faster than texts. */
function numbered(before, after) {
  const seen = new Map();
  const number = (piece) => {
    let value = seen.get(piece);
    if (value === undefined) seen.set(piece, (value = seen.size));
    return value;
  };
  return [Int32Array.from(before, number), Int32Array.from(after, number)];
}

/** Append the matching stretches [a, b, length] of `one[aLow:aHigh]` and `other[bLow:bHigh]`, in order. */
function match(one, other, aLow, aHigh, bLow, bHigh, matches) {
  let head = 0;
  const room = Math.min(aHigh - aLow, bHigh - bLow);
  while (head < room && one[aLow + head] === other[bLow + head]) head += 1;
  let tail = 0;
  while (tail < room - head && one[aHigh - 1 - tail] === other[bHigh - 1 - tail]) tail += 1;
  if (head) matches.push([aLow, bLow, head]);
  const [a0, a1, b0, b1] = [aLow + head, aHigh - tail, bLow + head, bHigh - tail];
  if (a0 < a1 && b0 < b1) {
    const found = myers(one.subarray(a0, a1), other.subarray(b0, b1));
    if (found) for (const [a, b, length] of found) matches.push([a0 + a, b0 + b, length]);
    else split(one, other, a0, a1, b0, b1, matches);
  }
  if (tail) matches.push([aHigh - tail, bHigh - tail, tail]);
}

/** Myers' greedy algorithm; null when more than MAX_EDITS edits are needed. */
function myers(one, other) {
  const limit = Math.min(one.length + other.length, MAX_EDITS);
  const reach = new Int32Array(2 * limit + 3);
  const trace = [];
  for (let d = 0; d <= limit; d += 1) {
    trace.push(reach.slice(limit - d, limit + d + 3));
    for (let k = -d; k <= d; k += 2) {
      const at = limit + 1 + k;
      let x = k === -d || (k !== d && reach[at - 1] < reach[at + 1]) ? reach[at + 1] : reach[at - 1] + 1;
      while (x < one.length && x - k < other.length && one[x] === other[x - k]) x += 1;
      reach[at] = x;
      if (x >= one.length && x - k >= other.length) return walkBack(trace, one.length, other.length);
    }
  }
  return null;
}

function walkBack(trace, n, m) {
  const matches = [];
  let [x, y] = [n, m];
  for (let d = trace.length - 1; d >= 0; d -= 1) {
    const reach = trace[d];
    const k = x - y;
    const at = d + 1 + k;
    const down = k === -d || (k !== d && reach[at - 1] < reach[at + 1]);
    const fromX = d === 0 ? 0 : down ? reach[at + 1] : reach[at - 1];
    const fromY = d === 0 ? 0 : fromX - (down ? k + 1 : k - 1);
    const [startX, startY] = d === 0 ? [0, 0] : down ? [fromX, fromY + 1] : [fromX + 1, fromY];
    if (x > startX) matches.push([startX, startY, x - startX]);
    [x, y] = [fromX, fromY];
  }
  return matches.reverse();
}

/** Split two long stretches at the pieces that both have exactly once, in the longest common order (patience). */
function split(one, other, aLow, aHigh, bLow, bHigh, matches) {
  const anchors = longestRising(uniqueInBoth(one, other, aLow, aHigh, bLow, bHigh));
  if (!anchors.length) return;
  let [a0, b0] = [aLow, bLow];
  for (const [a, b] of anchors) {
    match(one, other, a0, a, b0, b, matches);
    matches.push([a, b, 1]);
    [a0, b0] = [a + 1, b + 1];
  }
  match(one, other, a0, aHigh, b0, bHigh, matches);
}

function uniqueInBoth(one, other, aLow, aHigh, bLow, bHigh) {
  const places = (list, low, high) => {
    const found = new Map();
    for (let i = low; i < high; i += 1) found.set(list[i], found.has(list[i]) ? -1 : i);
    return found;
  };
  const there = places(other, bLow, bHigh);
  return [...places(one, aLow, aHigh)].filter(([piece, a]) => a >= 0 && (there.get(piece) ?? -1) >= 0)
    .map(([piece, a]) => [a, there.get(piece)]);
}

function longestRising(pairs) {
  const ends = [];
  const previous = new Array(pairs.length);
  pairs.forEach(([, b], i) => {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const mid = (low + high) >> 1;
      if (pairs[ends[mid]][1] < b) low = mid + 1;
      else high = mid;
    }
    previous[i] = low ? ends[low - 1] : -1;
    ends[low] = i;
  });
  const chosen = [];
  for (let i = ends.at(-1) ?? -1; i >= 0; i = previous[i]) chosen.push(pairs[i]);
  return chosen.reverse();
}

/** Runs as alternating groups: {same} or {removed, added}. */
function grouped(runs) {
  const groups = [];
  for (const [kind, text] of runs) {
    if (!text) continue;
    const last = groups.at(-1);
    if (kind === SAME) {
      if (last?.same !== undefined) last.same += text;
      else groups.push({ same: text });
      continue;
    }
    const group = last && last.same === undefined ? last : groups[groups.push({ removed: "", added: "" }) - 1];
    group[kind === REMOVED ? "removed" : "added"] += text;
  }
  return groups;
}

/** Join changed phrases that only a space or a scrap keeps apart: whole phrases read better than confetti. */
function tidy(groups) {
  const out = [];
  for (let i = 0; i < groups.length; i += 1) {
    const [last, scrap, next] = [out.at(-1), groups[i], groups[i + 1]];
    if (last && next && scrap.same !== undefined && isScrap(last, scrap.same, next)) {
      last.removed += scrap.same + next.removed;
      last.added += scrap.same + next.added;
      i += 1;
    } else out.push({ ...scrap });
  }
  return out;
}

function isScrap(last, same, next) {
  if (same.includes("\n") || !hasWords(last) || !hasWords(next)) return false;
  if (!same.trim()) return true;
  const around = [last, next].reduce((sum, { removed, added }) => sum + removed.length + added.length, 0);
  return same.length <= SCRAP_UP_TO && around > AROUND_SCRAP * same.length;
}

function hasWords(group) {
  return /\S/.test(group.removed) || /\S/.test(group.added);
}

function flat(groups) {
  return groups.flatMap((group) => {
    if (group.same !== undefined) return [[SAME, group.same]];
    const pair = [[REMOVED, group.removed], [ADDED, group.added]];
    return pair.filter(([, text]) => text);
  });
}

function summary(groups, longest) {
  const told = { removed: 0, added: 0, layout: 0, kept: 0 };
  for (const group of groups) {
    if (group.same !== undefined) told.kept += group.same.length;
    else if (!hasWords(group)) told.layout += 1;
    else {
      told.removed += countWords(group.removed);
      told.added += countWords(group.added);
    }
  }
  return { ...told, kept: longest ? told.kept / longest : 1 };
}

function countWords(text) {
  return (text.match(/\S+/g) ?? []).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
}
