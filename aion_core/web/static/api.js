// The API's page: it shows the operations and types of the OpenAPI document, as text nodes only.

const place = document.getElementById("api");

function node(name, content = "", ...children) {
  const made = document.createElement(name);
  made.append(content, ...children);
  return made;
}

// A text with its code between backticks.
function prose(text = "") {
  return text.split("`").map((piece, index) => (index % 2 ? node("code", piece) : piece));
}

function nameOf(reference) {
  return reference.split("/").at(-1);
}

// The part of the document that a reference names; other parts are returned unchanged.
function resolved(part, document) {
  return part.$ref ? part.$ref.slice(2).split("/").reduce((inner, key) => inner[key], document) : part;
}

// A schema's type in a few words, with links to the types that it names.
function typeOf(schema) {
  if (schema.$ref) {
    const link = node("a", nameOf(schema.$ref));
    link.href = `#${nameOf(schema.$ref)}`;
    return [link];
  }
  if (schema.items) return ["list of ", ...typeOf(schema.items)];
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices) return choices.flatMap((choice, index) => (index ? [" or ", ...typeOf(choice)] : typeOf(choice)));
  if (schema.enum) return [schema.enum.join(" | ")];
  return [schema.format ?? schema.type ?? "any JSON"];
}

function fields(rows) {
  const list = node("dl");
  for (const [name, type, required, description] of rows) {
    list.append(node("dt", name, " · ", ...type, required ? " · required" : ""), node("dd", ...prose(description)));
  }
  return list;
}

// A media type of a body, with its type and its examples: a JSON value, or the events of a stream.
function contentOf(content, heading, parts) {
  const [[mediaType, { schema, example, examples }]] = Object.entries(content);
  const event = schema?.properties?.data?.contentSchema;
  parts.push(node("h3", heading), node("p", `${mediaType}: `, ...typeOf(event ?? schema ?? {}), event ? ", one in each event" : ""));
  if (example) parts.push(sample(JSON.stringify(example, null, 2)));
  const events = Object.values(examples ?? {}).map(({ value }) => `id: ${value.id}\ndata: ${value.data}\n`);
  if (events.length) parts.push(sample(events.join("\n")));
}

function sample(text) {
  const made = node("pre", text);
  made.tabIndex = 0;
  return made;
}

function curl(method, path, operation) {
  const address = new URL(`.${path}`, location.href).href.replaceAll("%7B", "{").replaceAll("%7D", "}");
  const body = operation.requestBody?.content["application/a2a+json"]?.example;
  const data = body ? ` \\\n  -H 'Content-Type: application/a2a+json' -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'` : "";
  return `curl -sN -X ${method.toUpperCase()} '${address}' -H 'A2A-Version: 1.0'${data}`;
}

function shownOperation(method, path, operation, document) {
  const parts = [node("p", ...prose(operation.description))];
  const parameters = (operation.parameters ?? []).map((each) => resolved(each, document));
  if (parameters.length) {
    parts.push(node("h3", "Parameters"));
    parts.push(fields(parameters.map((each) => [each.name, [`${each.in}, `, ...typeOf(each.schema)], each.required, each.description])));
  }
  if (operation.requestBody) contentOf(operation.requestBody.content, "Body", parts);
  for (const [status, response] of Object.entries(operation.responses)) {
    const { description, content } = resolved(response, document);
    if (status.startsWith("2") && content) contentOf(content, `Response ${status}`, parts);
    else parts.push(node("p", node("strong", status), " ", ...prose(description)));
    const example = !status.startsWith("2") && Object.values(content ?? {})[0]?.example;
    if (example) parts.push(node("details", node("summary", `Example of ${status}`), sample(JSON.stringify(example, null, 2))));
  }
  parts.push(node("h3", "curl"), sample(curl(method, path, operation)));
  const head = node("summary", node("code", `${method.toUpperCase()} ${path}`), operation.summary ?? "");
  const shown = node("details", head, ...parts);
  shown.id = operation.operationId;
  return shown;
}

function shownType(name, schema) {
  const rowsOf = ({ properties = {}, required = [] }) => Object.entries(properties).map(([key, value]) => [key, typeOf(value), required.includes(key), value.description]);
  const choices = (schema.oneOf ?? []).flatMap(({ properties }) => rowsOf({ properties }));
  const rows = rowsOf(schema);
  const shown = node("details", node("summary", node("code", name)), node("p", ...prose(schema.description)));
  if (choices.length) shown.append(node("p", "Exactly one of:"), fields(choices));
  if (choices.length && rows.length) shown.append(node("p", "With any of them:"));
  if (rows.length || !choices.length) shown.append(rows.length ? fields(rows) : node("p", ...typeOf(schema)));
  shown.id = name;
  return shown;
}

function show(document) {
  const groups = new Map(document.tags.map((tag) => [tag.name, node("section", node("h2", tag.name), node("p", ...prose(tag.description)))]));
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      groups.get(operation.tags[0]).append(shownOperation(method, path, operation, document));
    }
  }
  const types = Object.entries(document.components.schemas).map(([name, schema]) => shownType(name, schema));
  place.replaceChildren(node("p", ...prose(document.info.description)), ...groups.values(), node("section", node("h2", "Types"), ...types));
}

// A link to a type opens it.
function open() {
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
}

addEventListener("hashchange", open);
try {
  show(await (await fetch("openapi.json")).json());
  open();
} catch (error) {
  place.replaceChildren(node("p", `openapi.json cannot be read: ${error.message}. Reload the page.`));
}
