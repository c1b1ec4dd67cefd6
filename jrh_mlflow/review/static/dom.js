// Small helpers around the DOM. Text enters the page as text nodes only; nothing here parses markup.

/** Make an element: `el("p", {class: "how"}, "text", child)`. Empty options and children are left out. */
export function el(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") node.className = value;
    else if (name === "click") node.addEventListener("click", value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(2).filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}

/** Find the element with this id; the page cannot work without it. */
export function byId(id) {
  const node = document.getElementById(id);
  if (!node) throw new Error(`The page has no element #${id}.`);
  return node;
}

/** Replace everything inside `node`. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat(2).filter((child) => child !== undefined && child !== null && child !== false));
}

/** `plural(1, "item")` is "1 item", `plural(2000, "item")` is "2,000 items". */
export function plural(count, noun, several = `${noun}s`) {
  return `${number(count)} ${count === 1 ? noun : several}`;
}

/** Spell a count with separators, the same in every browser. */
export function number(count) {
  return Number(count).toLocaleString("en-US");
}

/** Spell an identifier of the code in words: `label_flip` is "label flip". */
export function words(name) {
  return String(name).replaceAll("_", " ");
}

/** Name a label with its meaning, where the suite says it: "1 (harmful)". */
export function named(item, label) {
  const meaning = Object.hasOwn(item.meanings ?? {}, label) ? item.meanings[label] : null;
  return meaning === null ? String(label) : `${label} (${meaning})`;
}

/** Whether a key press belongs to a field that takes text. */
export function isTyping(target) {
  if (!(target instanceof Element)) return false;
  if (target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement) return true;
  return target instanceof HTMLInputElement && !["checkbox", "radio", "button"].includes(target.type);
}
