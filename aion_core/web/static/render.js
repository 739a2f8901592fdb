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

/** Return the nodes of one part of a message or artifact. */
export function part({ text, data, raw, url, filename, mediaType = "" }) {
  if (text !== undefined) return markdown(text);
  if (data !== undefined) return [element("pre", { tabindex: "0" }, JSON.stringify(data, null, 2))];
  const name = filename || mediaType || "file";
  const source = raw !== undefined ? `data:${mediaType || "application/octet-stream"};base64,${raw}` : url;
  if (raw === undefined && !/^https?:/i.test(url ?? "")) return [element("code", {}, String(url))];
  if (/^image\/(png|jpeg|gif|webp)$/.test(mediaType) && raw !== undefined) return [element("img", { src: source, alt: name })];
  return [element("a", { href: source, download: name, rel: "noreferrer noopener", target: "_blank" }, name)];
}

/** Return the nodes of a text in the common subset of Markdown: headings, lists, code, quotes, emphasis, links. */
export function markdown(text) {
  const nodes = [];
  const lines = text.split("\n");
  while (lines.length) {
    const line = lines.shift();
    const heading = /^(#{1,6}) (.*)/.exec(line);
    if (line.startsWith("```")) {
      const code = until(lines, (each) => each.startsWith("```"));
      lines.shift();
      nodes.push(element("pre", { tabindex: "0" }, code.join("\n")));
    } else if (heading) {
      nodes.push(element("p", {}, element("strong", {}, ...inline(heading[2]))));
    } else if (/^\s*([-*+]|\d+[.)]) /.test(line)) {
      const items = [line, ...until(lines, (each) => !/^\s*([-*+]|\d+[.)]) /.test(each))];
      const list = element(/^\s*\d/.test(line) ? "ol" : "ul");
      for (const item of items) list.append(element("li", {}, ...inline(item.replace(/^\s*\S+ /, ""))));
      nodes.push(list);
    } else if (line.startsWith("> ")) {
      const quoted = [line, ...until(lines, (each) => !each.startsWith(">"))].map((each) => each.replace(/^> ?/, ""));
      nodes.push(element("blockquote", {}, ...inline(quoted.join(" "))));
    } else if (line.trim()) {
      const paragraph = [line, ...until(lines, (each) => !each.trim() || /^(```|#{1,6} |> |\s*([-*+]|\d+[.)]) )/.test(each))];
      const parts = paragraph.flatMap((each, place) => (place ? [element("br"), ...inline(each)] : inline(each)));
      nodes.push(element("p", {}, ...parts));
    }
  }
  return nodes;
}

function until(lines, ends) {
  const end = lines.findIndex(ends);
  return lines.splice(0, end < 0 ? lines.length : end);
}

function inline(text) {
  const nodes = [];
  const pattern = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|\[([^\]]+)\]\(([^)\s]+)\)/g;
  let place = 0;
  for (const found of text.matchAll(pattern)) {
    nodes.push(text.slice(place, found.index));
    const [whole, code, strong, em, label, target] = found;
    if (code) nodes.push(element("code", {}, code));
    else if (strong) nodes.push(element("strong", {}, strong));
    else if (em) nodes.push(element("em", {}, em));
    else if (/^https?:/i.test(target)) nodes.push(element("a", { href: target, rel: "noreferrer noopener", target: "_blank" }, label));
    else nodes.push(whole);
    place = found.index + whole.length;
  }
  nodes.push(text.slice(place));
  return nodes.filter((each) => each !== "");
}

/** Return the form fields of an answer's JSON Schema: an object's properties, choices, numbers, or one text. */
export function fields(schema) {
  if (schema?.type === "object" && schema.properties) {
    return Object.entries(schema.properties).map(([name, each]) =>
      field(name, each, (schema.required ?? []).includes(name)),
    );
  }
  return [field("answer", schema ?? {}, true)];
}

function field(name, schema, required) {
  const choices = schema.enum ?? (schema.type === "boolean" ? [true, false] : undefined);
  const input = choices
    ? element("select", {}, ...choices.map((each) => element("option", { value: JSON.stringify(each) }, String(each))))
    : element("input", { type: /^(integer|number)$/.test(schema.type) ? "number" : "text" });
  if (schema.type === "number") input.step = "any";
  input.name = name;
  input.required = required && !choices;
  input.dataset.kind = choices ? "json" : /^(integer|number)$/.test(schema.type) ? "number" : schema.type === "object" || schema.type === "array" ? "json" : "text";
  return element("label", {}, schema.title ?? schema.description ?? name, input);
}

/** Return the values of a form made by `fields`. Throws a SyntaxError if a value is not the JSON that its field requires. */
export function values(form) {
  const found = {};
  for (const input of form.querySelectorAll("[name]")) {
    if (input.value === "" && !input.required) continue;
    found[input.name] = { json: JSON.parse, number: Number, text: String }[input.dataset.kind](input.value);
  }
  return found;
}
