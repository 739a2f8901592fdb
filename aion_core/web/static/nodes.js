// DOM nodes of a Markdown tree, which the server makes (aion_core/web/markdown/tree.py). A node has a permitted tag, or none.

import { element } from "./element.js";

const TAGS = new Set(["p", "blockquote", "ul", "li", "thead", "tbody", "tr", "em", "strong", "s", "code", "hr", "br"]);
const WEB = /^https?:\/\//i;
const PICTURE = /^data:image\/(png|jpeg|gif|webp);/i;
const pictures = new Map(); // the pictures among the files of the conversation, by name

/** Return a link to another page. */
const link = (href, ...nodes) => element("a", { href, title: href, rel: "noreferrer noopener", target: "_blank" }, ...nodes);

/** Return a link to a file of another host, with the name of this host; undefined for an address that is not of the web. */
export const foreign = (href, name) => (WEB.test(href) ? link(href, `${name} (${URL.canParse(href) ? new URL(href).host : href})`) : undefined);

/** Return a picture that is a file, and show it wherever a text names it. */
export function picture(name, src) {
  pictures.set(name, src);
  for (const each of document.querySelectorAll("[data-picture]")) if (each.dataset.picture === name) each.replaceWith(element("img", { src, alt: each.dataset.alt }));
  return element("img", { src, alt: name });
}

/** Forget the files of a conversation. */
export const forget = () => pictures.clear();

/** Return a button that copies what `text` returns. */
export function copying(text, label = "Copy") {
  const button = element("button", { type: "button" }, label);
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text());
    button.textContent = label.replace(/^Copy( as)?/, "Copied");
    setTimeout(() => (button.textContent = label), 2000);
  });
  return button;
}

/** Return a block of code, with the name of its language and a button that copies it. `pieces` are texts, or [kind, text]. */
export function code(language, pieces) {
  const text = element("code", {}, ...pieces.map(build));
  return element("div", { class: "code" }, element("div", { class: "bar" }, element("small", {}, language), copying(() => text.textContent)), element("pre", { tabindex: "0" }, text));
}

/** Return the DOM node of a tree. */
export function build(tree) {
  if (typeof tree === "string") return document.createTextNode(tree);
  if (Array.isArray(tree)) return element("span", { class: tree[0] }, tree[1]);
  const { tag, children, align, start = 1, checked } = tree;
  if (tag === "pre") return code(tree.language, children);
  if (tag === "img") return named(tree);
  const nodes = children.map(build);
  if (tag === "a") return WEB.test(tree.href) ? link(tree.href, ...nodes) : element("span", {}, ...nodes, ...address(tree.href, children));
  // A table scrolls in its box. The page has the first two levels of headings.
  if (tag === "table") return element("div", { class: "scroll", tabindex: "0" }, element("table", {}, ...nodes));
  if (/^h[1-6]$/.test(tag)) return element(`h${Math.min(6, Number(tag[1]) + 2)}`, { class: tag }, ...nodes);
  if (tag === "th" || tag === "td") return element(tag, { ...(align && { class: align }), ...(tag === "th" && { scope: "col" }) }, ...nodes);
  if (tag === "ol") return element("ol", { start }, ...nodes);
  if (checked !== undefined) nodes.unshift(element("input", { type: "checkbox", checked, disabled: true, "aria-label": checked ? "Done" : "Not done" }), " ");
  return element(TAGS.has(tag) ? tag : "span", checked === undefined ? {} : { class: "todo" }, ...nodes);
}

// An address that is no link is shown beside its label.
const address = (href, [label]) => (label === href.replace("mailto:", "") ? [] : [` (${href})`]);

/** Return an address with its characters, as far as its escapes are those of UTF-8. */
function decoded(address) {
  try {
    return decodeURI(address);
  } catch {
    return address;
  }
}

/** Return a picture: shown from a data URL or a file of the conversation, else a link that names its host. */
function named({ src, alt }) {
  const name = decoded(src).split("/").pop();
  if (PICTURE.test(src)) return element("img", { src, alt });
  if (pictures.has(name) && !WEB.test(src)) return element("img", { src: pictures.get(name), alt });
  return foreign(src, alt || "Picture") ?? element("span", { "data-picture": name, "data-alt": alt }, `${alt} (${src})`);
}

/** Change the children of an element, from the `first` on, from the nodes of the trees `before` to those `after`. Equal ones stay. */
export function patch(parent, first, before, after) {
  let same = 0;
  while (same < before.length && same < after.length && isEqual(before[same], after[same])) same += 1;
  if (grows(before[same], after[same])) {
    const [grown, inner] = [parent.childNodes[first + same], { pre: "code", table: "table" }[after[same].tag]];
    patch(inner ? grown.querySelector(inner) : grown, 0, before[same].children, after[same].children);
    same += 1;
  }
  const old = [...parent.childNodes].slice(first + same, first + before.length);
  const next = parent.childNodes[first + before.length] ?? null;
  for (const each of old) each.remove();
  for (const tree of after.slice(same)) parent.insertBefore(build(tree), next);
}

const isEqual = (one, other) => one === other || (typeof one === "object" && JSON.stringify(one) === JSON.stringify(other));
const GROWING = new Set(["p", "blockquote", "ul", "ol", "li", "table", "thead", "tbody", "tr", "pre"]);

/** Return true if the nodes differ in their children only, and if these are the children of their DOM nodes. */
function grows(one, other) {
  return GROWING.has(one?.tag) && one.checked === undefined && JSON.stringify({ ...one, children: [] }) === JSON.stringify({ ...other, children: [] });
}
