// Console: chat with an agent of this server, and control of the connection, the task and the worker.

import { advice, errors } from "./card.js";
import { answersOf, fieldsets, questionsOf } from "./form.js";
import { Webhooks, showState } from "./inspect.js";
import { element, part } from "./render.js";
import { pytest } from "./save.js";
import { TaskList } from "./tasks.js";
import { Timeline } from "./timeline.js";
import { Wire, hasEnded, isInterrupted, short } from "./wire.js";

const $ = (id) => document.getElementById(id);
const timeline = new Timeline($("events"));
const tasks = new TaskList($("task-list"), $("more"), (id, context) => open(id, context).catch((error) => say("error", error.message)));
const webhooks = new Webhooks($("hooks"), () => [wire, shownTask]);
const narrow = matchMedia("(max-width: 800px)");
const turns = []; // requests and final answers, for "Save as test"
let wire;
let quiet; // Wire for the list of tasks, which would fill the timeline
let card;
let contextId;
let task; // id of the running or waiting task
let shownTask; // id of the newest task in the chat
let last; // the last request, for "Repeat message"
let connection; // AbortController of the open connection
let isDevelopment = false;

const credentials = () => ($("credential").value ? { [$("header").value]: $("credential").value } : {});

// ── Agents

async function start() {
  const manifest = await (await fetch(".well-known/manifest.json")).json();
  const features = await (await fetch("console/features.json")).json();
  for (const [id, path] of Object.entries(manifest.endpoints)) $("agent").append(element("option", { value: path, selected: id === features.agent }, id));
  isDevelopment = features.development;
  $("hook").value = features.receiver;
  for (const each of document.querySelectorAll("#kill, [data-panel=stored], [data-panel=webhooks]")) each.hidden = !isDevelopment;
  panel(isDevelopment ? "stored" : "timeline");
  panel("chat");
  await choose();
}

async function choose() {
  ready(false);
  const path = $("agent").value.replace(/^\//, "");
  card = await (await fetch(`${path}/.well-known/agent-card.json`, { headers: { "A2A-Version": "1.0" } })).json();
  const url = new URL(path, document.baseURI).href;
  wire = new Wire(url, { headers: credentials, record: (each) => timeline.add(each) });
  quiet = new Wire(url, { headers: credentials, record: () => {} });
  document.title = `${card.name} · aion console`;
  $("card-json").textContent = JSON.stringify(card, null, 2);
  const wrong = errors(card, url).map((each) => element("li", { class: "bad" }, each));
  $("card-notes").replaceChildren(...wrong, ...advice(card).map((each) => element("li", {}, each)));
  $("card-open").textContent = wrong.length ? `Agent card (${wrong.length} wrong)` : "Agent card";
  fresh();
  ready(true);
  await tasks.load(quiet);
}

/** Let the user write, once the agent is known. */
function ready(isReady) {
  $("text").disabled = $("submit").disabled = !isReady;
}

// ── Conversation

function fresh() {
  contextId = task = shownTask = last = undefined;
  turns.length = 0;
  $("log").replaceChildren(invitation());
  ask(undefined);
  show("no task");
  enable(false);
  inspect();
}

/** Return the agent's name, its description, and the examples of its skills, each of which fills the message. */
function invitation() {
  const examples = (card.skills ?? []).flatMap((skill) => skill.examples ?? []).slice(0, 4).map((text) => {
    const button = element("button", { type: "button" }, text);
    button.addEventListener("click", () => {
      $("text").value = text;
      $("text").focus();
    });
    return button;
  });
  return element("div", { class: "empty" }, element("strong", {}, card.name), element("p", {}, card.description ?? ""), ...examples);
}

/** Show the agent's stored state and the task's webhooks again. */
function inspect() {
  if (!isDevelopment) return;
  showState($("entries"), wire, contextId);
  webhooks.load();
}

function say(kind, ...nodes) {
  const made = element("div", { class: `message ${kind}`, dir: "auto" }, ...nodes);
  follow(() => {
    $("log").querySelector(":scope > .empty")?.remove();
    $("log").append(made);
  }, kind === "user");
  return made;
}

/** Change the log. Scroll to its end if the end was visible before, or `always`. */
function follow(change, always = false) {
  const log = $("log");
  const atEnd = log.scrollTop + log.clientHeight > log.scrollHeight - 60;
  change();
  if (atEnd || always) log.scrollTop = log.scrollHeight;
}

function show(state) {
  $("state").textContent = $("state").dataset.state = state;
}

function enable(running) {
  $("cancel").disabled = !task;
  $("drop").disabled = !running;
  $("repeat").disabled = !last || running;
}

async function send(request) {
  last = request;
  ask(undefined);
  const isAnswer = Boolean(request.message.taskId);
  const answers = new Map(); // artifact id or message id → its element and parts
  let answer = "";
  enable(true);
  try {
    const streams = { connection: (each) => (connection = each), lost };
    for await (const event of wire.converse(request, streams)) answer = receive(event, answers) || answer;
    const artifacts = [...answers.values()].flatMap(({ parts }) => parts).map(({ text }) => text ?? "").find(Boolean);
    turns.push({ parts: request.message.parts, isAnswer, answer: answer || artifacts, state: $("state").textContent });
  } catch (error) {
    say("error", error.message);
  }
  for (const { shown } of answers.values()) shown.classList.remove("streaming");
  enable(false);
  inspect();
  await tasks.load(quiet);
}

function lost(cursor, closed) {
  const place = cursor ? ` after event ${cursor}` : "";
  timeline.note(`${closed ? "The stream ended" : "The connection is lost"}; subscribing again${place}.`);
  show("reconnecting");
}

/** Show one event. Return the text of a final answer, or "". */
function receive({ task: told, statusUpdate, artifactUpdate, message }, answers) {
  if (told) {
    task = shownTask = told.id;
    contextId = told.contextId;
    for (const artifact of told.artifacts ?? []) draw(answers, artifact.artifactId, artifact.parts, false);
  }
  if (artifactUpdate) {
    const { artifact, append, lastChunk } = artifactUpdate;
    const { shown } = draw(answers, artifact.artifactId, artifact.parts, append);
    shown.classList.toggle("streaming", !lastChunk);
  }
  const status = (statusUpdate ?? told)?.status;
  const whole = message ?? status?.message;
  if (whole) {
    // The message replaces its own preview, which came as a stream delta.
    answers.get("aion:stream-delta")?.shown.remove();
    answers.delete("aion:stream-delta");
    draw(answers, whole.messageId, whole.parts, false);
  }
  if (status) {
    show(short(status.state));
    if (status.state === "TASK_STATE_FAILED") say("error", "The task failed.");
    if (isInterrupted(status.state)) ask(status);
    if (hasEnded(status.state)) task = undefined;
  }
  if (message) show("completed");
  $("cancel").disabled = !task;
  return (whole?.parts ?? []).map(({ text }) => text ?? "").join("");
}

function draw(answers, id, parts, append) {
  const known = answers.get(id) ?? { shown: say("agent"), parts: [] };
  if (!append) known.parts = [];
  for (const each of parts) {
    const before = known.parts.at(-1);
    if (append && before?.text !== undefined && each.text !== undefined) before.text += each.text;
    else known.parts.push({ ...each });
  }
  follow(() => {
    known.shown.replaceChildren(...known.parts.flatMap(part));
    known.shown.hidden = !known.shown.hasChildNodes();
  });
  answers.set(id, known);
  return known;
}

// ── Questions

/** Show a form for the questions of an interrupted task, or hide the form. */
function ask(status) {
  const form = $("question");
  form.hidden = !status?.message;
  form.replaceChildren();
  if (form.hidden) return;
  const isSecret = status.state === "TASK_STATE_AUTH_REQUIRED";
  const questions = questionsOf(status.message);
  form.append(...fieldsets(questions, isSecret), element("button", { type: "submit" }, "Answer"));
  form.onsubmit = (event) => {
    event.preventDefault();
    let parts;
    try {
      parts = answersOf(form, questions);
    } catch (error) {
      say("error", error.message);
      return;
    }
    say("user", ...(isSecret ? ["••••"] : parts.flatMap(part)));
    const [{ id }] = questions;
    send(compose(parts, questions.length === 1 && id && { interruptId: id }));
  };
  form.querySelector("[name]")?.focus();
}

function compose(parts, metadata) {
  // Without a context id of its own, a repeated message would begin another context.
  contextId ??= crypto.randomUUID();
  const message = { messageId: crypto.randomUUID(), role: "ROLE_USER", parts, contextId, taskId: task, ...(metadata && { metadata }) };
  const isNotified = isDevelopment && $("notified").checked && $("hook").value;
  return isNotified ? { message, configuration: { taskPushNotificationConfig: { url: $("hook").value } } } : { message };
}

async function filePart(file) {
  const read = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
  return { raw: read.slice(read.indexOf(",") + 1), filename: file.name, mediaType: file.type || "application/octet-stream" };
}

// ── Stored tasks

/** Show a stored task, or a whole context if `id` is missing. */
async function open(id, context) {
  const found = id ? await wire.call("GetTask", { id }) : await wire.call("GetContext", { contextId: context });
  fresh();
  contextId = context;
  shownTask = id;
  task = !id || hasEnded(found.status.state) ? undefined : id;
  const seen = new Set();
  for (const message of [...(found.history ?? []), found.status?.message].filter(Boolean)) {
    if (seen.has(message.messageId)) continue;
    seen.add(message.messageId);
    say(message.role === "ROLE_USER" ? "user" : "agent", ...message.parts.flatMap(part));
  }
  for (const artifact of found.artifacts ?? []) say("agent", ...artifact.parts.flatMap(part));
  if (found.status) show(short(found.status.state));
  if (id && isInterrupted(found.status.state)) ask(found.status);
  enable(false);
  inspect();
  panel("chat");
}

// ── Controls

/** Show a panel: alone on a narrow screen, else those of the state and the webhooks below the timeline. */
function panel(name) {
  const { dataset } = document.querySelector("main");
  if (name === "stored" || name === "webhooks") dataset.side = name;
  dataset.panel = name;
  mark();
  if (name === "webhooks") webhooks.load();
}

function mark() {
  const { panel: alone, side } = document.querySelector("main").dataset;
  for (const each of document.querySelectorAll("#tabs button")) each.setAttribute("aria-pressed", String(each.dataset.panel === (narrow.matches ? alone : side)));
}

$("agent").addEventListener("change", choose);
$("fresh").addEventListener("click", fresh);
$("refresh").addEventListener("click", () => tasks.load(quiet));
$("more").addEventListener("click", () => tasks.load(quiet, true));
$("reload").addEventListener("click", inspect);
$("answered").addEventListener("change", (event) => wire.own("receiver", {}, { status: Number(event.target.value) }).catch((error) => say("error", error.message)));
narrow.addEventListener("change", mark);
$("clear").addEventListener("click", () => timeline.clear());
$("card-open").addEventListener("click", () => $("card").showModal());
$("card-close").addEventListener("click", () => $("card").close());
$("credential").addEventListener("change", () => {
  inspect();
  tasks.load(quiet);
});
$("drop").addEventListener("click", () => connection?.abort());
$("cancel").addEventListener("click", () => wire.call("CancelTask", { id: task }).catch((error) => say("error", error.message)));
$("repeat").addEventListener("click", () => {
  say("note", "The same message id again: the server answers with the same task.");
  send(last);
});
$("kill").addEventListener("click", async () => {
  timeline.note("The worker process is killed.");
  await wire.own("kill", {}, {}).catch(() => {}); // the process is gone before it answers
});
$("save").addEventListener("click", () => {
  const link = element("a", { href: URL.createObjectURL(new Blob([pytest(wire.url, $("credential").value && $("header").value, turns)], { type: "text/x-python" })), download: "test_conversation.py" });
  link.click();
  URL.revokeObjectURL(link.href);
});
$("files").addEventListener("change", () => ($("chosen").textContent = [...$("files").files].map(({ name }) => name).join(", ")));
$("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $("compose").requestSubmit();
});
$("compose").addEventListener("submit", async (event) => {
  event.preventDefault();
  const parts = $("text").value.trim() ? [{ text: $("text").value }] : [];
  parts.push(...(await Promise.all([...$("files").files].map(filePart))));
  if (!parts.length) return;
  event.target.reset();
  $("chosen").textContent = "";
  say("user", ...parts.flatMap(part));
  send(compose(parts));
});
for (const each of document.querySelectorAll("#tabs button")) each.addEventListener("click", () => panel(each.dataset.panel));

start().catch((error) => say("error", `The server's manifest cannot be read: ${error.message}`));
