// Forms for an agent's questions, made from the JSON Schemas of the answers.

import { element } from "./render.js";

/** Return the questions in the status message of an interrupted task: the id, text and schema of each. */
export function questionsOf({ parts, metadata = {} }) {
  const listed = metadata.interrupts ?? [{ id: metadata.interruptId }];
  const isOnly = listed.length === 1;
  return listed.map(({ id, text, schema }) => {
    const data = parts.find((each) => each.data !== undefined && (isOnly || each.metadata?.interruptId === id))?.data;
    return { id, text: isOnly ? "" : text, schema: schema ?? schemaIn(data) };
  });
}

function schemaIn(data) {
  const decisions = data?.review_configs?.[0]?.allowed_decisions?.filter((each) => each === "approve" || each === "reject");
  const options = data?.options ?? decisions;
  return data?.response_schema ?? data?.responseSchema ?? data?.schema ?? (options?.length ? { enum: options } : {});
}

/** Return a group of fields for each question. The fields of a `secret` answer hide their text. */
export function fieldsets(questions, secret) {
  return questions.map(({ text, schema }) => element("fieldset", {}, ...(text ? [element("legend", {}, text)] : []), ...fields(schema, secret)));
}

/** Return an answer part for each group. Throws a SyntaxError with the name of a field that is not JSON. */
export function answersOf(form, questions) {
  return [...form.querySelectorAll("fieldset")].map((group, place) => {
    const given = values(group);
    const isObject = objectOf(questions[place].schema) !== undefined;
    const content = !isObject && typeof given.answer === "string" ? { text: given.answer } : { data: isObject ? given : given.answer };
    return questions.length > 1 ? { ...content, metadata: { interruptId: questions[place].id } } : content;
  });
}

function resolved(schema, root) {
  const { $ref: reference, anyOf, oneOf, allOf, ...rest } = schema ?? {};
  if (Array.isArray(rest.type)) rest.type = rest.type.find((each) => each !== "null");
  if (reference) return resolved({ ...reference.slice(2).split("/").reduce((inner, key) => inner?.[key], root), ...rest }, root);
  const choices = (anyOf ?? oneOf ?? allOf ?? []).filter((each) => each.type !== "null");
  if (choices.length === 1) return { ...resolved(choices[0], root), ...rest };
  return choices.length && choices.every((each) => "const" in each) ? { ...rest, enum: choices.map((each) => each.const) } : rest;
}

function objectOf(schema) {
  const whole = resolved(schema, schema);
  return whole.type === "object" && whole.properties ? whole : undefined;
}

function fields(schema, secret) {
  const object = objectOf(schema);
  if (!object) return [field("answer", { title: "Answer", ...resolved(schema, schema) }, schema, true, secret)];
  // The properties have lost their order on the way: the required ones come first, in the order of their list.
  const { properties, required = [] } = object;
  const names = [...required.filter((name) => name in properties), ...Object.keys(properties).filter((name) => !required.includes(name))];
  return names.map((name) => field(name, resolved(properties[name], schema), schema, required.includes(name), secret));
}

const INPUTS = { date: "date", "date-time": "datetime-local", time: "time", email: "email", uri: "url" };

function field(name, schema, root, isRequired, secret) {
  const isNumber = /^(integer|number)$/.test(schema.type);
  const many = schema.type === "array" && resolved(schema.items, root).enum;
  const choices = many || schema.enum || ("const" in schema && [schema.const]) || (schema.type === "boolean" && [true, false]);
  const isJson = schema.type === "object" || (schema.type === "array" && !many);
  let input;
  if (choices) {
    const shown = isRequired || many ? choices : [undefined, ...choices];
    const defaults = (many ? [schema.default].flat() : [schema.default]).map((each) => JSON.stringify(each));
    const option = (each) => element("option", { value: JSON.stringify(each) ?? "", selected: defaults.includes(JSON.stringify(each)) }, shortOf(each));
    input = element("select", { multiple: Boolean(many) }, ...shown.map(option));
  } else if (isJson || schema.maxLength > 200) {
    input = element("textarea", { rows: 3, placeholder: isJson ? "JSON" : "" });
  } else {
    input = element("input", { type: secret ? "password" : isNumber ? "number" : (INPUTS[schema.format] ?? "text") });
    // A JSON Schema's pattern may match a part of the text, an input's pattern has to match the whole.
    const limits = { min: schema.minimum, max: schema.maximum, minLength: schema.minLength, maxLength: schema.maxLength, pattern: schema.pattern && `.*(?:${schema.pattern}).*` };
    for (const [key, value] of Object.entries(limits)) if (value !== undefined) input.setAttribute(key.toLowerCase(), value);
    if (isNumber) input.step = schema.type === "number" ? "any" : "1";
  }
  const isInstant = input.type === "datetime-local";
  if (!choices && schema.default !== undefined && schema.default !== null) input.value = isJson ? JSON.stringify(schema.default) : isInstant ? local(schema.default) : schema.default;
  input.name = name;
  input.required = isRequired && !choices;
  input.dataset.kind = many ? "many" : choices || isJson ? "json" : isNumber ? "number" : isInstant ? "instant" : "text";
  const hint = schema.description && schema.title ? [element("small", {}, schema.description)] : [];
  return element("label", {}, schema.title ?? schema.description ?? name, ...hint, input);
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
  for (const input of group.querySelectorAll("[name]")) {
    const { kind } = input.dataset;
    if (kind === "many") found[input.name] = [...input.selectedOptions].map((each) => JSON.parse(each.value));
    else if (input.value === "" && !input.required) continue;
    else if (kind === "instant") found[input.name] = new Date(input.value).toISOString();
    else if (kind !== "json") found[input.name] = kind === "number" ? Number(input.value) : input.value;
    else {
      try {
        found[input.name] = JSON.parse(input.value);
      } catch (error) {
        throw new SyntaxError(`${input.name} is not JSON: ${error.message}`);
      }
    }
  }
  return found;
}
