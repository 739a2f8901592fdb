// Rendering of messages: texts, files and data as DOM nodes. No text of an agent is ever parsed as HTML.

import { element } from "./element.js";
import { code, foreign, picture } from "./nodes.js";
import { Text } from "./text.js";

export { element } from "./element.js";

const PREVIEW = 20000; // characters of a text file
const texts = new WeakMap(); // the texts in an element, by their place among its parts
const files = new WeakMap(); // {raw, nodes} of a part that is a file

/** Return the nodes of one part of a message or artifact. */
export function part(each) {
  if (each.text !== undefined) return each.text && [new Text().update(each.text, false)];
  if (each.data !== undefined) return [code("json", [JSON.stringify(each.data, null, 2)])];
  return file(each);
}

/** Show the parts of a message, which may be `open`: its last text still grows. What is the same as before stays. */
export function show(shown, parts, isOpen) {
  const own = texts.get(shown) ?? [];
  texts.set(shown, own);
  const nodes = parts.flatMap((each, place) => {
    if (each.text) return [(own[place] ??= new Text()).update(each.text, isOpen)];
    const known = files.get(each);
    const made = known && known.raw === each.raw ? known : { raw: each.raw, nodes: part(each) };
    files.set(each, made);
    return made.nodes;
  });
  if (nodes.length !== shown.childNodes.length || nodes.some((each, place) => each !== shown.childNodes[place])) shown.replaceChildren(...nodes);
  shown.hidden = !nodes.length;
}

function file({ raw, url, filename, mediaType = "" }) {
  const name = filename || mediaType || "file";
  if (raw === undefined) return [foreign(url, name) ?? element("code", {}, String(url))];
  const type = mediaType.split(";")[0].trim().toLowerCase();
  const src = `data:${type || "application/octet-stream"};base64,${raw}`;
  if (/^image\/(png|jpe?g|gif|webp)$/.test(type)) return [picture(name, src)];
  const player = /^(audio|video)\//.exec(type)?.[1];
  if (player) return [element(player, { src, controls: true, "aria-label": name })];
  const saved = element("a", { href: src, download: name }, name);
  if (!/^text\/|[/+]json$/.test(type)) return [saved];
  const bytes = Uint8Array.from(atob(raw), (each) => each.charCodeAt(0));
  return [saved, code("", [new TextDecoder().decode(bytes).slice(0, PREVIEW)])];
}
