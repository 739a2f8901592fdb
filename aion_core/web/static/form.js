// Forms for an agent's questions, made from the forms of the answers in the metadata of its message.

import { element } from "./render.js";

const NESTING = 3; // objects within objects; a deeper one, as in a recursive schema, is JSON

/** Return the questions in the status message of an interrupted task: the id, text, schema and choices of each. */
export function questionsOf({ metadata = {} }) {
  const listed = metadata.interrupts ?? [{ id: metadata.interruptId }];
  return listed.map(({ id, text, schema = {}, choices }) => ({ id, text: listed.length === 1 ? "" : text, schema: formOf(schema, choices) }));
}

function formOf(schema, choices) {
  return objectOf(schema, schema) || !choices?.length ? schema : { enum: choices };
}

/** Return a group of fields for each question. The fields of a `secret` answer hide their text. */
export function fieldsets(questions, secret) {
  return questions.map(({ text, schema }) => element("fieldset", {}, ...(text ? [element("legend", {}, text)] : []), ...fields(schema, secret)));
}

/** Return an answer part for each group. Throws a SyntaxError with the name of a field that is not JSON. */
export function answersOf(form, questions) {
  return [...form.querySelectorAll(":scope > fieldset")].map((group, place) => {
    const given = values(group);
    const isObject = objectOf(questions[place].schema, questions[place].schema) !== undefined;
    const content = !isObject && typeof given.answer === "string" ? { text: given.answer } : { data: isObject ? given : given.answer };
    return questions.length > 1 ? { ...content, metadata: { interruptId: questions[place].id } } : content;
  });
}

function resolved(schema, root) {
  const { $ref: reference, anyOf, oneOf, allOf, ...rest } = schema ?? {};
  if (Array.isArray(rest.type)) rest.type = rest.type.find((each) => each !== "null");
  if (reference) return resolved({ ...reference.slice(1).split("/").filter(Boolean).reduce((inner, key) => inner?.[key], root), ...rest }, root);
  const choices = (anyOf ?? oneOf ?? allOf ?? []).filter((each) => each.type !== "null");
  if (choices.length === 1) return { ...resolved(choices[0], root), ...rest };
  return choices.length && choices.every((each) => "const" in each) ? { ...rest, enum: choices.map((each) => each.const) } : rest;
}

function objectOf(schema, root) {
  const whole = resolved(schema, root);
  return (whole.type ?? "object") === "object" && whole.properties ? whole : undefined;
}

function fields(schema, secret) {
  const object = objectOf(schema, schema);
  if (object) return propertiesOf(object, schema, secret, 0);
  const only = { title: "Answer", ...resolved(schema, schema) };
  return [field("answer", only.type === "boolean" ? { ...only, enum: [true, false] } : only, schema, true, secret, false)];
}

/** Return the fields of an object's properties in the author's order, or the required ones first if it is not known. */
function propertiesOf({ properties, propertyOrdering = [], required = [] }, root, secret, depth) {
  const names = new Set([...propertyOrdering, ...required, ...Object.keys(properties)].filter((name) => name in properties));
  return [...names].map((name) => {
    const schema = resolved(properties[name], root);
    const isRequired = required.includes(name);
    const object = depth < NESTING && objectOf(schema, root);
    return object ? group(name, object, root, isRequired, secret, depth + 1) : field(name, schema, root, isRequired, secret);
  });
}

function group(name, schema, root, isRequired, secret, depth) {
  const made = element("fieldset", {}, element("legend", {}, ...caption(name, schema, isRequired)), ...propertiesOf(schema, root, secret, depth));
  Object.assign(made.dataset, { name, ...(isRequired && { sent: "" }) });
  if (isRequired) return made;
  // An optional object is sent once the user has changed one of its fields. The server names what is missing then.
  made.addEventListener("input", () => (made.dataset.sent = ""));
  for (const input of made.querySelectorAll(":required")) input.required = false;
  return made;
}

function caption(name, { title, description }, isRequired) {
  const hint = description && title ? [element("small", {}, description)] : [];
  const mark = isRequired ? [element("span", { "aria-hidden": "true" }, " *")] : [];
  return [element("span", {}, title ?? description ?? name, ...mark), ...hint];
}

const INPUTS = { date: "date", "date-time": "datetime-local", time: "time", email: "email", uri: "url" };

function field(name, schema, root, isRequired, secret, isMarked = isRequired) {
  const isNumber = /^(integer|number)$/.test(schema.type);
  const many = schema.type === "array" && resolved(schema.items, root).enum;
  const choices = many || schema.enum || ("const" in schema && [schema.const]);
  const isBoolean = !choices && schema.type === "boolean";
  const isJson = schema.type === "object" || (schema.type === "array" && !many);
  let input;
  if (choices) {
    const shown = isRequired || many ? choices : [undefined, ...choices];
    const defaults = (many ? [schema.default].flat() : [schema.default]).map((each) => JSON.stringify(each));
    const option = (each) => element("option", { value: JSON.stringify(each) ?? "", selected: defaults.includes(JSON.stringify(each)) }, shortOf(each));
    input = element("select", { multiple: Boolean(many) }, ...shown.map(option));
  } else if (isBoolean) {
    input = element("input", { type: "checkbox", checked: schema.default === true });
  } else if (!secret && (isJson || schema.maxLength > 200)) {
    input = element("textarea", { rows: 3, placeholder: isJson ? "JSON" : "" });
  } else {
    input = element("input", { type: secret ? "password" : isNumber ? "number" : (INPUTS[schema.format] ?? "text") });
    // A JSON Schema's pattern may match a part of the text, an input's pattern has to match the whole.
    const limits = { min: schema.minimum, max: schema.maximum, minLength: schema.minLength, maxLength: schema.maxLength, pattern: schema.pattern && `.*(?:${schema.pattern}).*` };
    for (const [key, value] of Object.entries(limits)) if (value !== undefined) input.setAttribute(key.toLowerCase(), value);
    if (isNumber) input.step = schema.type === "number" ? "any" : "1";
  }
  const isInstant = input.type === "datetime-local";
  if (!choices && !isBoolean && schema.default !== undefined && schema.default !== null) input.value = isJson ? JSON.stringify(schema.default) : isInstant ? local(schema.default) : schema.default;
  input.name = name;
  input.required = isRequired && !choices && !isBoolean;
  input.dataset.kind = many ? "many" : isBoolean ? "boolean" : choices || isJson ? "json" : isNumber ? "number" : isInstant ? "instant" : "text";
  // Without a mark, an optional field is left out.
  if (isBoolean && (isRequired || "default" in schema)) input.dataset.always = "";
  return element("label", {}, ...caption(name, schema, isMarked), input);
}

/** Return a date-time of RFC 3339 as the value of an input, which is in local time and has no zone. */
function local(instant) {
  const date = new Date(instant);
  return Number.isNaN(date.valueOf()) ? "" : new Date(date - date.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

/** Return the text of a choice. */
function shortOf(choice) {
  const name = choice?.label ?? choice?.title ?? choice?.name ?? choice ?? "";
  return typeof name === "object" ? JSON.stringify(name) : String(name);
}

function values(group) {
  const found = {};
  for (const child of group.children) {
    if (child.matches("fieldset")) {
      if ("sent" in child.dataset) found[child.dataset.name] = values(child);
    }
    const input = child.matches("label") && child.querySelector("[name]");
    const value = input ? valueOf(input) : undefined;
    if (value !== undefined) found[input.name] = value;
  }
  return found;
}

/** Return the value of an input; undefined for an optional one that is left empty. */
function valueOf(input) {
  const { kind } = input.dataset;
  if (kind === "many") return [...input.selectedOptions].map((each) => JSON.parse(each.value));
  if (kind === "boolean") return input.checked || "always" in input.dataset ? input.checked : undefined;
  if (input.value === "" && !input.required) return undefined;
  if (kind === "instant") return new Date(input.value).toISOString();
  if (kind !== "json") return kind === "number" ? Number(input.value) : input.value;
  try {
    return JSON.parse(input.value);
  } catch (error) {
    throw new SyntaxError(`${input.name} is not JSON: ${error.message}`);
  }
}
