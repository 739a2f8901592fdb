// Rendering of messages: Markdown, files and data as DOM nodes. No text of an agent is ever parsed as HTML.

/** Create an element with attributes and children. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key in made && typeof value !== "string") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

const PREVIEW = 20000; // characters of a text file

/** Return the nodes of one part of a message or artifact. */
export function part({ text, data, raw, url, filename, mediaType = "" }) {
  if (text !== undefined) return markdown(text);
  if (data !== undefined) return [code(JSON.stringify(data, null, 2))];
  const name = filename || mediaType || "file";
  if (raw === undefined) return /^https?:/i.test(url ?? "") ? [link(url, name)] : [element("code", {}, String(url))];
  const type = mediaType.split(";")[0].trim().toLowerCase();
  const src = `data:${type || "application/octet-stream"};base64,${raw}`;
  if (/^image\/(png|jpe?g|gif|webp)$/.test(type)) return [element("img", { src, alt: name })];
  const player = /^(audio|video)\//.exec(type)?.[1];
  if (player) return [element(player, { src, controls: true, "aria-label": name })];
  const file = element("a", { href: src, download: name }, name);
  if (!/^text\/|[/+]json$/.test(type)) return [file];
  const bytes = Uint8Array.from(atob(raw), (each) => each.charCodeAt(0));
  return [file, code(new TextDecoder().decode(bytes).slice(0, PREVIEW))];
}

const code = (text) => element("pre", { tabindex: "0" }, text);
const link = (href, text) => element("a", { href, rel: "noreferrer noopener", target: "_blank" }, text);

/** Return the nodes of a text in the common subset of Markdown: headings, lists, code, quotes, emphasis, links. */
export function markdown(text) {
  const nodes = [];
  const lines = text.split("\n");
  while (lines.length) {
    const line = lines.shift();
    const heading = /^(#{1,6}) (.*)/.exec(line);
    if (/^\s*```/.test(line)) {
      const block = until(lines, (each) => /^\s*```/.test(each));
      lines.shift();
      nodes.push(code(block.join("\n")));
    } else if (heading) {
      nodes.push(element("p", {}, element("strong", {}, ...inline(heading[2]))));
    } else if (/^\s*([-*+]|\d+[.)]) /.test(line)) {
      const items = [line, ...until(lines, (each) => !/^\s*([-*+]|\d+[.)]) /.test(each))];
      const list = element(/^\s*\d/.test(line) ? "ol" : "ul");
      // Each item has the number of the text: code or a blank line between two items ends the list.
      for (const item of items) {
        const [marker, depth, number] = /^(\s*)(?:(\d+)[.)]|[-*+]) /.exec(item);
        const level = `level-${Math.min(depth.length >> 1, 3)}`;
        list.append(element("li", { class: level, ...(number && { value: number }) }, ...inline(item.slice(marker.length))));
      }
      nodes.push(list);
    } else if (line.startsWith("|") && /^\|?[\s:|-]+$/.test(lines[0] ?? "")) {
      lines.shift();
      const rows = [line, ...until(lines, (each) => !each.startsWith("|"))].map((each) => each.replace(/^\||(?<!\\)\|\s*$/g, "").split(/(?<!\\)\|/));
      nodes.push(element("table", { tabindex: "0" }, ...rows.map((row, place) => element("tr", {}, ...row.map((each) => element(place ? "td" : "th", {}, ...inline(each.trim().replaceAll("\\|", "|"))))))));
    } else if (line.startsWith("> ")) {
      const quoted = [line, ...until(lines, (each) => !each.startsWith(">"))].map((each) => each.replace(/^> ?/, ""));
      nodes.push(element("blockquote", {}, ...broken(quoted)));
    } else if (line.trim()) {
      const paragraph = [line, ...until(lines, (each) => !each.trim() || /^(\s*```|#{1,6} |> |\||\s*([-*+]|\d+[.)]) )/.test(each))];
      nodes.push(element("p", {}, ...broken(paragraph)));
    }
  }
  return nodes;
}

function until(lines, ends) {
  const end = lines.findIndex(ends);
  return lines.splice(0, end < 0 ? lines.length : end);
}

// The lines of a paragraph, each on its own line as in the text.
function broken(lines) {
  return lines.flatMap((each, place) => (place ? [element("br"), ...inline(each)] : inline(each)));
}

function inline(text) {
  const nodes = [];
  const emphasis = /\\([!-/:-@[-`{-~])|`([^`]+)`|\*\*((?:[^*]|\*[^*]+\*)+)\*\*|\*([^*\s][^*]*)\*/;
  const links = /!?\[([^[\]]+)\]\(((?:[^()\s]|\([^()\s]*\))+)(?:\s+"[^"]*")?\)|<?(https?:\/\/[^\s<>]*[\w/#=&%-])>?/;
  const pattern = new RegExp(`${emphasis.source}|${links.source}`, "gi");
  let place = 0;
  for (const found of text.matchAll(pattern)) {
    nodes.push(text.slice(place, found.index));
    const [whole, escaped, literal, strong, em, label, target, address] = found;
    if (escaped) nodes.push(escaped);
    else if (literal) nodes.push(element("code", {}, literal));
    else if (strong) nodes.push(element("strong", {}, ...inline(strong)));
    else if (em) nodes.push(element("em", {}, ...inline(em)));
    else if (address) nodes.push(link(address, address));
    else if (/^https?:/i.test(target)) nodes.push(link(target, label));
    else nodes.push(whole);
    place = found.index + whole.length;
  }
  nodes.push(text.slice(place));
  return nodes.filter((each) => each !== "");
}
