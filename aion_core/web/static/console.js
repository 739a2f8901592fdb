// Console: chat with an agent of this server, and control of the connection, the task and the worker.

import { advice, errors } from "./card.js";
import { answersOf, fieldsets, questionsOf } from "./form.js";
import { element, part } from "./render.js";
import { pytest } from "./save.js";
import { TaskList } from "./tasks.js";
import { Timeline } from "./timeline.js";
import { CREDENTIAL, Wire, hasEnded, isInterrupted, short, visible } from "./wire.js";

const $ = (id) => document.getElementById(id);
const timeline = new Timeline($("events"));
const tasks = new TaskList($("task-list"), $("more"), (id, context) => open(id, context).catch((error) => say("error", error.message)));
const narrow = matchMedia("(max-width: 800px)");
const turns = []; // requests and final answers, for "Save as test"
let wire;
let quiet; // Wire for the list of tasks, which would fill the timeline
let agent; // path of the agent
let card;
let contextId;
let task; // id of the running or waiting task
let shownTask; // id of the newest task in the chat
let last; // the last request, for "Repeat message"
let connection; // AbortController of the newest open connection
let visits = 0; // number of conversations shown: a late answer for an earlier one is dropped
const streams = new Set(); // open streams of the conversation: {task, stop, answers}
let isDevelopment = false;
let showState; // views of the development console
let webhooks;

const credentials = () => ($("credential").value ? { [$("header").value]: $("credential").value } : {});

// ── Agents

async function start() {
  const manifest = await (await fetch(".well-known/manifest.json")).json();
  const features = await (await fetch("console/features.json")).json();
  for (const [id, path] of Object.entries(manifest.endpoints)) $("agent").append(element("option", { value: path, selected: id === features.agent }, id));
  $("hook").value = features.receiver;
  if (features.development) {
    const views = await import("./inspect.js"); // only a development server has this file
    showState = views.showState;
    webhooks = new views.Webhooks($("hooks"), () => [wire, shownTask]);
    isDevelopment = true;
  }
  for (const each of document.querySelectorAll("#kill, [data-panel=stored], [data-panel=webhooks]")) each.hidden = !isDevelopment;
  panel(isDevelopment ? "stored" : "timeline");
  panel("chat");
  await choose();
}

async function choose() {
  ready(false);
  const chosen = $("agent").value;
  const url = new URL(chosen.replace(/^\//, ""), document.baseURI).href;
  let found, failure;
  try {
    const response = await fetch(`${url}/.well-known/agent-card.json`, { headers: { "A2A-Version": "1.0" } });
    if (response.ok) found = await response.json();
    else failure = (await response.json().catch(() => ({}))).error?.message ?? `HTTP status ${response.status}`;
  } catch (error) {
    failure = error.message;
  }
  if (chosen !== $("agent").value) return; // the user has chosen another agent meanwhile
  if (!found) {
    say("error", `The agent's card cannot be read: ${failure}`);
    $("agent").value = agent ?? chosen;
    ready(Boolean(agent));
    return;
  }
  [agent, card] = [chosen, found];
  const extensions = (card.capabilities?.extensions ?? []).filter((each) => each.required).map((each) => each.uri);
  wire = new Wire(url, { headers: credentials, extensions, record: (each) => timeline.add(each) });
  quiet = new Wire(url, { headers: credentials, extensions, record: () => {} });
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
  // Leave the streams only: their tasks go on, and the list opens them again.
  streams.forEach(close);
  visits += 1;
  $("save").disabled = false;
  contextId = task = shownTask = last = undefined;
  turns.length = 0;
  $("log").replaceChildren(invitation());
  ask(undefined);
  show("no task");
  enable();
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
  const speaker = { user: "You", agent: card?.name }[kind];
  const made = element("div", { class: `message ${kind}`, dir: "auto", ...(speaker && { role: "article", "aria-label": speaker }) }, ...nodes);
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

function enable() {
  $("cancel").disabled = !task;
  $("drop").disabled = !streams.size;
  $("repeat").disabled = !last || streams.size > 0;
}

async function send(request) {
  last = request;
  ask(undefined);
  await stream("SendStreamingMessage", request, request.message.taskId);
}

/** Show the events of a stream. It replaces an open stream of the same task, because both have the same events. */
async function stream(method, params, id, drawn = new Map()) {
  const replaced = id && [...streams].find((each) => each.task === id);
  if (replaced) close(replaced);
  const own = { task: id, stop: new AbortController(), answers: replaced?.answers ?? drawn };
  streams.add(own);
  const { answers, stop: { signal } } = own;
  let answer = "";
  let isRunning = false;
  enable();
  try {
    const events = wire.converse(method, params, { connection: (each) => (connection = each), lost, signal });
    for await (const event of events) {
      answer = receive(event, answers) || answer;
      own.task ??= task;
    }
    if (signal.aborted) return;
    const artifacts = [...answers.values()].flatMap(({ parts }) => parts).map(({ text }) => text ?? "").find(Boolean);
    if (params.message) turns.push({ message: params.message, isAnswer: Boolean(id), answer: answer || artifacts, state: $("state").textContent });
  } catch (error) {
    if (signal.aborted) return;
    say("error", error.message);
    if (error.code === 401) $("access").open = true;
    // The chat already has the messages of a task whose question got a refused answer.
    isRunning = await recall(params.message && id && !replaced ? undefined : answers);
    if (signal.aborted) return;
  }
  for (const { shown } of answers.values()) shown.ariaBusy = "false";
  streams.delete(own);
  // A refused message has replaced the stream of its running task.
  if (isRunning && params.message) return stream("SubscribeToTask", { id: task }, task, answers);
  enable();
  inspect();
  await tasks.load(quiet);
}

function close(each) {
  each.stop.abort();
  streams.delete(each);
}

/**
 * Show the state of the task after an error: it may have ended, or still wait for an answer. Return true if it is running.
 * If it is not, its message and artifacts are drawn into `answers`.
 */
async function recall(answers) {
  const visit = visits;
  const found = task && (await quiet.call("GetTask", { id: task }).catch(() => ({ status: { state: "disconnected" } })));
  if (!found || visit !== visits) return false;
  const isRunning = !hasEnded(found.status.state) && !isInterrupted(found.status.state);
  if (answers && !isRunning) receive({ task: found }, answers);
  else update(found.status);
  return isRunning;
}

/** Show a task's state; if the task waits for an answer, show a form. */
function update(status) {
  show(short(status.state));
  if (isInterrupted(status.state)) ask(status);
  if (hasEnded(status.state)) task = undefined;
}

function lost(cursor, closed, isReceived) {
  const place = cursor ? ` after event ${cursor}` : "";
  timeline.note(`${closed ? "The stream ended" : "The connection is lost"}; ${isReceived ? `subscribing again${place}` : "sending the request again"}.`);
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
    if ($("state").textContent === "reconnecting") show("working");
    const { artifact, append, lastChunk } = artifactUpdate;
    const { shown } = draw(answers, artifact.artifactId, artifact.parts, append);
    shown.ariaBusy = String(!lastChunk); // a screen reader reads the whole text, not each chunk
  }
  const status = (statusUpdate ?? told)?.status;
  const whole = message ?? status?.message;
  if (whole) {
    // The message replaces its own preview, which came as a stream delta. The status message of a stopped turn has another text.
    if (!["TASK_STATE_FAILED", "TASK_STATE_CANCELED"].includes(status?.state)) {
      answers.get("aion:stream-delta")?.shown.remove();
      answers.delete("aion:stream-delta");
    }
    draw(answers, whole.messageId, visible(whole));
  }
  if (status) {
    if (status.state === "TASK_STATE_FAILED") say("error", "The task failed.");
    update(status);
  }
  if (message) show("completed");
  $("cancel").disabled = !task;
  return (whole?.parts ?? []).map(({ text }) => text ?? "").join("");
}

// Draw a message, or an artifact with `append`. Consecutive files of one name in an artifact are chunks of a file.
function draw(answers, id, parts, append) {
  const known = answers.get(id) ?? { shown: say("agent"), parts: [] };
  if (!append) known.parts = [];
  for (const each of parts) {
    const before = known.parts.at(-1);
    const isSameFile = each.raw !== undefined && before?.raw !== undefined && each.filename && each.filename === before.filename;
    if (append && before?.text !== undefined && each.text !== undefined) before.text += each.text;
    else if (append !== undefined && isSameFile) before.raw = btoa(atob(before.raw) + atob(each.raw));
    else known.parts.push({ ...each });
  }
  // Draw once in each frame: to parse the whole text again for each of thousands of chunks would block the page.
  known.frame ??= requestAnimationFrame(() => {
    known.frame = undefined;
    follow(() => {
      known.shown.replaceChildren(...known.parts.flatMap(part));
      known.shown.hidden = !known.shown.hasChildNodes();
    });
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
    const [{ id }] = questions;
    const metadata = { ...(questions.length === 1 && id && { interruptId: id }), ...(isSecret && { [CREDENTIAL]: true }) };
    say("user", ...visible({ parts, metadata }).flatMap(part));
    send(compose(parts, metadata));
    $("text").focus(); // the form that had the focus is gone
  };
  form.querySelector("[name]")?.focus();
}

/** Return what the user has typed as a part: JSON as data for an agent that takes no text, and if it is an example. */
function asPart(text) {
  const isExample = (card.skills ?? []).some(({ examples = [] }) => examples.includes(text.trim()));
  if (card.defaultInputModes?.includes("text/plain") && !isExample) return { text };
  try {
    const data = JSON.parse(text);
    return isExample || typeof data === "object" ? { data } : { text };
  } catch {
    return { text };
  }
}

function compose(parts, metadata = {}) {
  // Without a context id of its own, a repeated message would begin another context.
  contextId ??= crypto.randomUUID();
  const message = { messageId: crypto.randomUUID(), role: "ROLE_USER", parts, contextId, taskId: task, ...(Object.keys(metadata).length && { metadata }) };
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

/** Show a stored task, or a whole context if `id` is missing. The stream of a running task continues. */
async function open(id, context) {
  const visit = ++visits;
  const found = id ? await wire.call("GetTask", { id }) : await wire.call("GetContext", { contextId: context });
  const newest = id ?? found.history?.at(-1)?.taskId;
  // The status of a context has no message: an open question needs that of its task.
  const status = id || !newest || hasEnded(found.status?.state) ? found.status : (await wire.call("GetTask", { id: newest })).status;
  if (visit !== visits) return; // the user has opened something else meanwhile
  fresh();
  $("save").disabled = true; // the messages before this visit are unknown
  contextId = context;
  shownTask = id;
  task = newest;
  const answers = new Map();
  const seen = new Set();
  for (const message of [...(found.history ?? []), status?.message].filter(Boolean)) {
    if (seen.has(message.messageId)) continue;
    seen.add(message.messageId);
    if (message.role === "ROLE_USER") say("user", ...visible(message).flatMap(part));
    else draw(answers, message.messageId, visible(message));
  }
  for (const { artifactId, parts } of found.artifacts ?? []) draw(answers, artifactId, parts, false);
  if (status) update(status);
  enable();
  inspect();
  panel("chat");
  if (task && !isInterrupted(status.state)) await stream("SubscribeToTask", { id: task }, task, answers);
}

// ── Controls

/** Show a panel: alone on a narrow screen, else those of the state and the webhooks below the timeline. */
function panel(name) {
  const { dataset } = document.querySelector("main");
  if (name === "stored" || name === "webhooks") dataset.side = name;
  dataset.panel = name;
  mark();
  if (name === "webhooks") webhooks?.load();
}

function mark() {
  const { panel: alone, side } = document.querySelector("main").dataset;
  for (const each of document.querySelectorAll("#tabs button")) each.setAttribute("aria-pressed", String(each.dataset.panel === (narrow.matches ? alone : side)));
}

$("agent").addEventListener("change", choose);
$("fresh").addEventListener("click", () => {
  fresh();
  tasks.load(quiet);
});
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
  const parts = $("text").value.trim() ? [asPart($("text").value)] : [];
  parts.push(...(await Promise.all([...$("files").files].map(filePart))));
  if (!parts.length) return;
  event.target.reset();
  $("chosen").textContent = "";
  say("user", ...parts.flatMap(part));
  send(compose(parts));
});
for (const each of document.querySelectorAll("#tabs button")) each.addEventListener("click", () => panel(each.dataset.panel));

start().catch((error) => say("error", `The server's manifest cannot be read: ${error.message}`));
