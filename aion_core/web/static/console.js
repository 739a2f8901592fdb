// Console: chat with an agent of this server, and control of the connection, the task and the worker.

import { advice, errors } from "./card.js";
import { Conversations } from "./conversations.js";
import { answersOf, fieldsets, questionsOf } from "./form.js";
import { Log } from "./log.js";
import { home, keepPlace, place, root } from "./place.js";
import { element, part } from "./render.js";
import { pytest } from "./save.js";
import { render } from "./text.js";
import { Timeline } from "./timeline.js";
import { CREDENTIAL, ServerError, Wire, hasEnded, isInterrupted, short, visible } from "./wire.js";

const $ = (id) => document.getElementById(id);
const log = new Log($("log"));
const timeline = new Timeline($("events"));
const conversations = new Conversations($("task-list"), $("more"), (path, context) => visit({ path, context }));
const agents = new Map(); // {id, path, wire} of each agent, by its path; the wires do not fill the timeline
const narrow = matchMedia("(max-width: 800px)");
const turns = []; // requests and final answers, for "Save as test"
let wire;
let quiet; // Wire that does not fill the timeline
let agent; // path of the agent
let card;
let contextId;
let task; // id of the running or waiting task
let shownTask; // id of the newest task in the chat
let asked; // parts of the user's newest message
let last; // the last request, for "Repeat message"
let connection; // AbortController of the newest open connection
let visits = 0; // number of conversations shown: a late answer for an earlier one is dropped
const streams = new Set(); // open streams of the conversation: {task, stop, answers}
let isDevelopment = false;
let views; // views of the development console
let webhooks;
let remote; // URL of another server, whose console this is; undefined for the page's own
let work;
let reachable = ""; // the state to show again when the server is back

// The browser reads the icon again at each address that the page gets.
document.querySelector("link[rel=icon]").href = new URL("console/favicon.svg", root).href;
document.querySelector("header > a[href$=docs]").href = new URL("docs", root).href;
render({ ask: (texts) => quiet.own("markdown", {}, { texts }), change: (draw) => log.follow(draw), isLive: () => isDevelopment || Boolean(remote) });

const credentials = () => ($("credential").value ? { [$("header").value]: $("credential").value } : {});

// ── Agents

async function start() {
  const manifest = await (await fetch(new URL(".well-known/manifest.json", root))).json();
  const features = await (await fetch(new URL("console/features.json", root))).json();
  home.agent = features.agent;
  for (const [id, path] of Object.entries(manifest.endpoints)) {
    agents.set(path, { id, path, wire: new Wire(urlOf(path), { headers: credentials, record: () => {} }) });
    $("agent").append(element("option", { value: path, selected: id === place().agent }, id));
  }
  $("hook").value = features.receiver;
  remote = features.remote;
  document.querySelector("a[href$=docs]").hidden = Boolean(remote);
  if (features.receiver) {
    views = await import("./inspect.js"); // only a server on this machine has this file
    webhooks = new views.Webhooks($("hooks"), () => [wire, shownTask]);
  }
  if (features.development) {
    work = new views.Work($("waterfall"), $("drawing"), () => wire);
    isDevelopment = conversations.isLive = true;
    setInterval(lookForServer, 5000);
  }
  for (const each of document.querySelectorAll("#kill, [data-panel=graph], [data-panel=trace], [data-panel=stored]")) each.hidden = !isDevelopment;
  document.querySelector("[data-panel=webhooks]").hidden = !webhooks;
  panel(isDevelopment ? "graph" : webhooks ? "webhooks" : "timeline");
  panel("chat");
  await visit(place());
}

const urlOf = (path) => new URL(path.replace(/^\//, ""), root).href;

/** Show an agent, by its `id` or path, with a context if there is one, and the place of a task in it. */
async function visit({ agent: id, path, context, task: named }) {
  path ??= [...agents.values()].find((each) => each.id === id)?.path;
  if (path) $("agent").value = path;
  if ($("agent").value !== agent) {
    if (!(await choose(!context))) return;
  } else {
    ready(Boolean(agent)); // another agent may have been chosen, and its card not yet read
    if (!context) fresh();
  }
  if (id && !path) log.say("error", `This server has no agent ${id}.`);
  if (path && context && wire) await open(context, named).catch((error) => log.say("error", error.message));
}

/** Note that the server is gone, or back. */
async function lookForServer() {
  if (document.hidden || streams.size) return;
  const isThere = await fetch(new URL("console/features.json", root)).then(({ ok }) => ok, () => false);
  if (!isThere && $("state").textContent !== "disconnected") {
    reachable = $("state").textContent;
    show("disconnected");
  } else if (isThere && $("state").textContent === "disconnected" && reachable) show(reachable);
}

/** Show the chosen agent, and note it in the page's address unless a context follows. Return true if it is shown. */
async function choose(locates = true) {
  ready(false);
  const chosen = $("agent").value;
  const url = urlOf(chosen);
  let found, failure;
  try {
    const response = await fetch(`${url}/.well-known/agent-card.json`, { headers: { "A2A-Version": "1.0" } });
    if (response.ok) found = JSON.parse(await response.text(), (key, value) => value ?? undefined);
    else failure = (await response.json().catch(() => ({}))).error?.message ?? `HTTP status ${response.status}`;
  } catch (error) {
    failure = error.message;
  }
  if (chosen !== $("agent").value) return false; // the user has chosen another agent meanwhile
  if (!found) {
    log.say("error", `The agent's card cannot be read: ${failure}`);
    $("agent").value = agent ?? chosen;
    ready(Boolean(agent));
    return false;
  }
  [agent, card] = [chosen, found];
  const extensions = (card.capabilities?.extensions ?? []).filter((each) => each.required).map((each) => each.uri);
  wire = new Wire(url, { headers: credentials, extensions, record: (each) => timeline.add(each) });
  quiet = agents.get(chosen).wire = new Wire(url, { headers: credentials, extensions, record: () => {} });
  timeline.divide(card.name);
  document.title = `${card.name} · aion console`;
  $("card-json").textContent = JSON.stringify(card, null, 2);
  const wrong = errors(card, remote ?? url).map((each) => element("li", { class: "bad" }, each));
  $("card-notes").replaceChildren(...wrong, ...advice(card).map((each) => element("li", {}, each)));
  $("card-open").textContent = wrong.length ? `Agent card (${wrong.length} wrong)` : "Agent card";
  work?.draw(quiet);
  clear();
  if (locates) locate();
  ready(true);
  await list();
  return true;
}

/** Read the list of conversations again, of the chosen agent and of the others. */
function list() {
  const chosen = agents.get(agent);
  return conversations.load([chosen, ...[...agents.values()].filter((each) => each !== chosen)]);
}

/** Let the user write, once the agent is known. */
function ready(isReady) {
  $("text").disabled = $("submit").disabled = !isReady;
}

// ── Conversation

/** Begin another conversation. */
function fresh() {
  clear();
  locate();
}

function clear() {
  // Leave the streams only: their tasks go on, and the list opens them again.
  for (const each of streams) {
    each.fold?.end();
    close(each);
  }
  visits += 1;
  $("save").disabled = false;
  contextId = task = shownTask = last = asked = undefined;
  turns.length = 0;
  work?.show(undefined);
  log.begin(card.name, invitation());
  ask(undefined);
  show("no task");
  enable();
  inspect();
}

/** Let the page's address and the list of conversations show where the user is. */
function locate() {
  const known = shownTask ? contextId : undefined; // a context without a task cannot be opened again
  keepPlace(agents.get(agent).id, known, shownTask);
  conversations.choose(agents.get(agent), contextId);
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
  webhooks?.load();
  if (!isDevelopment) return;
  views.showState($("entries"), wire, contextId, (entry, values) => fork(entry, values).catch((error) => log.say("error", error.message)));
}

function show(state) {
  $("state").textContent = $("state").dataset.state = state;
  if (state !== "reconnecting") log.lease?.remove();
}

function enable() {
  $("cancel").disabled = !task;
  $("drop").disabled = !streams.size;
  $("repeat").disabled = !last || streams.size > 0;
}

async function send(request) {
  const { parts, metadata } = request.message;
  const text = visible({ parts, metadata }).map((each) => each.text ?? "").find(Boolean) ?? "";
  last = request;
  if (!request.message.taskId) asked = parts;
  ask(undefined);
  conversations.note(agents.get(agent), request.message.contextId, "TASK_STATE_SUBMITTED", text);
  conversations.choose(agents.get(agent), request.message.contextId);
  await stream(sending(), request, request.message.taskId);
}

const sending = () => (card.capabilities?.streaming ? "SendStreamingMessage" : "SendMessage");

/** Show the events of a stream. It replaces an open stream of the same task, because both have the same events. */
async function stream(method, params, id, drawn = new Map(), fold = undefined) {
  const replaced = id && [...streams].find((each) => each.task === id);
  if (replaced) close(replaced);
  const own = { task: id, stop: new AbortController(), answers: replaced?.answers ?? drawn, fold: replaced?.fold ?? fold };
  streams.add(own);
  own.fold?.resume();
  const { answers, stop: { signal } } = own;
  let answer = "";
  let isRunning = false;
  enable();
  try {
    const events = wire.converse(method, params, { connection: (each) => (connection = each), lost, signal });
    for await (const event of events) {
      if (params.message && !own.fold && event.task) own.fold = addFold(event.task.id);
      answer = receive(event, answers) || answer;
      own.task ??= task;
    }
    if (signal.aborted) return;
    const artifacts = [...answers.values()].flatMap(({ parts }) => parts).map(({ text }) => text ?? "").find(Boolean);
    if (params.message) turns.push({ message: params.message, isAnswer: Boolean(id), answer: answer || artifacts, state: $("state").textContent });
  } catch (error) {
    if (signal.aborted) return;
    if (params.message && !shownTask && error instanceof ServerError) conversations.forget(agents.get(agent), params.message.contextId);
    failed(error, () => stream(method, params, id, answers, own.fold));
    if (error.code === 401) $("access").open = true;
    // The chat already has the messages of a task whose question got a refused answer.
    isRunning = await recall(params.message && id && !replaced ? undefined : answers);
    if (signal.aborted) return;
  }
  for (const known of answers.values()) log.finish(known);
  streams.delete(own);
  own.fold?.end();
  // A refused message has replaced the stream of its running task.
  if (isRunning && params.message) return stream("SubscribeToTask", { id: task }, task, answers, own.fold);
  enable();
  inspect();
  await list();
}

/** Show an error of a request. One that has not reached the server can be made `again`: it keeps its message id. */
function failed(error, again) {
  if (error instanceof ServerError) return log.say("error", error.message);
  reachable = "";
  show("disconnected");
  return log.sayAgain([error.message], "Try again", again);
}

/** In place of the fold of a turn that is in the chat already. */
const NO_FOLD = { end() {}, resume() {} };

/** Add a folded line for the work of a task's next turn. */
function addFold(id) {
  if (!work) return undefined;
  const fold = work.fold(id);
  log.add(fold.shown);
  return fold;
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
  const after = cursor ? ` after event ${cursor}` : "";
  timeline.note(`${closed ? "The stream ended" : "The connection is lost"}; ${isReceived ? `subscribing again${after}` : "sending the request again"}.`);
  show("reconnecting");
  if (work && isReceived && !log.lease) log.add(work.lease(task));
}

/** Show one event. Return the text of a final answer, or "". */
function receive({ task: told, statusUpdate, artifactUpdate, message }, answers) {
  if (told) {
    task = shownTask = told.id;
    contextId = told.contextId;
    locate();
    for (const artifact of told.artifacts ?? []) log.draw(answers, artifact.artifactId, artifact.parts, false);
  }
  if (artifactUpdate) {
    if (["reconnecting", "disconnected"].includes($("state").textContent)) show("working");
    const { artifact, append, lastChunk } = artifactUpdate;
    const { shown } = log.draw(answers, artifact.artifactId, artifact.parts, append);
    shown.ariaBusy = String(!lastChunk); // a screen reader reads the whole text, not each chunk
  }
  const status = (statusUpdate ?? told)?.status;
  const whole = message ?? status?.message;
  if (whole && status?.state === "TASK_STATE_FAILED") fail(whole);
  else if (whole) {
    // The message replaces its own preview, which came as a stream delta. The status message of a stopped turn has another text.
    if (status?.state !== "TASK_STATE_CANCELED") log.replacePreview(answers, whole.messageId);
    log.draw(answers, whole.messageId, visible(whole));
  }
  if (status) {
    if (status.state === "TASK_STATE_FAILED" && !whole) fail();
    update(status);
    if (contextId) conversations.note(agents.get(agent), contextId, status.state, "", status.timestamp);
  }
  if (message) {
    show("completed");
    conversations.note(agents.get(agent), message.contextId || contextId, "TASK_STATE_COMPLETED");
  }
  $("cancel").disabled = !task;
  return (whole?.parts ?? []).map(({ text }) => text ?? "").join("");
}

/** Show that the task has failed: the agent's sentence, the place of the error in its code, and a button. */
function fail(message) {
  const [parts, id, cause] = [asked, shownTask, element("p", { class: "cause" })];
  const nodes = [element("strong", {}, "The task failed."), ...(message ? visible(message).flatMap(part) : []), cause];
  if (parts) log.sayAgain(nodes, "Try again", () => again(parts));
  else log.say("error", ...nodes);
  work?.cause(id).then((text) => (cause.textContent = text));
}

/** Send a message again as a new one, in the same context. */
function again(parts) {
  task = undefined;
  log.say("user", ...parts.flatMap(part));
  send(compose(parts));
}

/** Let another context begin at an entry of the stored state, and run the agent from there. */
async function fork(entry, values) {
  const messageId = crypto.randomUUID();
  const parts = asked ?? [{ text: "Continue" }]; // a graph's next nodes run whatever this message says
  const visit = visits;
  const made = await wire.own("fork", {}, { contextId, checkpointId: entry.id, values, messageId });
  if (visit !== visits) return; // the user has opened something else meanwhile
  clear();
  $("save").disabled = true; // a saved test could not begin in the middle
  contextId = made.contextId;
  panel("chat");
  log.say("note", `A new context begins at: ${entry.label}.`);
  if (!made.runs) return;
  const sent = made.text ? [{ text: made.text }] : parts;
  log.say("user", ...sent.flatMap(part));
  const request = compose(sent);
  send({ ...request, message: { ...request.message, messageId } });
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
      log.say("error", error.message);
      return;
    }
    const [{ id }] = questions;
    const metadata = { ...(questions.length === 1 && id && { interruptId: id }), ...(isSecret && { [CREDENTIAL]: true }) };
    log.say("user", ...visible({ parts, metadata }).flatMap(part));
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
  const isNotified = webhooks && $("notified").checked && $("hook").value;
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

/** Show a stored conversation, at its end or at the `named` task. The stream of a running task continues. */
async function open(context, named) {
  const visit = ++visits;
  const found = await wire.conversation(context);
  const newest = found.history?.findLast(({ taskId }) => taskId)?.taskId;
  // The status of a context has no message: an open question needs that of its task.
  const status = !newest || hasEnded(found.status?.state) ? found.status : (await wire.call("GetTask", { id: newest })).status;
  if (visit !== visits) return; // the user has opened something else meanwhile
  clear();
  $("save").disabled = true; // the messages before this visit are unknown
  contextId = context;
  shownTask = named ?? newest;
  task = newest;
  locate();
  shownTask = newest;
  const answers = new Map();
  const seen = new Set();
  const messages = [...(found.history ?? []), status?.message].filter(({ messageId } = {}) => messageId && !seen.has(messageId) && seen.add(messageId));
  const failure = status?.state === "TASK_STATE_FAILED" && messages.at(-1)?.role !== "ROLE_USER" ? messages.pop() : undefined;
  let fold, shown;
  for (const message of messages) {
    if (message.role !== "ROLE_USER") {
      log.draw(answers, message.messageId, visible(message));
      continue;
    }
    if (message.taskId !== shown) asked = message.parts;
    shown = message.taskId;
    log.say("user", ...visible(message).flatMap(part)).dataset.task = message.taskId;
    fold?.end();
    fold = message.taskId && addFold(message.taskId);
  }
  for (const { artifactId, parts } of found.artifacts ?? []) log.draw(answers, artifactId, parts, false);
  if (failure) fail(failure);
  if (status) update(status);
  enable();
  inspect();
  panel("chat");
  if (named && named !== newest) $("log").querySelector(`[data-task="${CSS.escape(named)}"]`)?.scrollIntoView();
  if (task && !isInterrupted(status.state)) await stream("SubscribeToTask", { id: task }, task, answers, fold);
  else fold?.end();
}

// ── Controls

/** Show a panel: alone on a narrow screen, else those of a development server beside the chat, below the timeline. */
function panel(name) {
  const { dataset } = document.querySelector("main");
  if (!["tasks", "chat", "timeline"].includes(name)) dataset.side = name;
  dataset.panel = name;
  mark();
  if (name === "webhooks") webhooks?.load();
}

function mark() {
  const { panel: alone, side } = document.querySelector("main").dataset;
  for (const each of document.querySelectorAll("#tabs button")) each.setAttribute("aria-pressed", String(each.dataset.panel === (narrow.matches ? alone : side)));
}

addEventListener("popstate", () => {
  if (!location.hash || place().context) visit(place()); // the link to the message is no place
});
$("agent").addEventListener("change", () => choose());
$("fresh").addEventListener("click", () => {
  fresh();
  $("text").focus();
  list();
});
$("refresh").addEventListener("click", list);
$("more").addEventListener("click", () => conversations.older());
$("reload").addEventListener("click", inspect);
$("answered").addEventListener("change", (event) => wire.own("receiver", {}, { status: Number(event.target.value) }).catch((error) => log.say("error", error.message)));
narrow.addEventListener("change", mark);
$("clear").addEventListener("click", () => timeline.clear());
$("card-open").addEventListener("click", () => $("card").showModal());
$("card-close").addEventListener("click", () => $("card").close());
$("credential").addEventListener("change", () => {
  work?.draw(quiet);
  inspect();
  list();
  if (place().context && !shownTask) visit(place()); // it could not be read before
});
$("drop").addEventListener("click", () => connection?.abort());
$("cancel").addEventListener("click", () => wire.call("CancelTask", { id: task }).catch((error) => log.say("error", error.message)));
$("repeat").addEventListener("click", () => {
  log.say("note", "The same message id again: the server answers with the same task.");
  stream(sending(), last, last.message.taskId, new Map(), NO_FOLD);
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
$("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $("compose").requestSubmit();
});
$("compose").addEventListener("submit", async (event) => {
  event.preventDefault();
  const parts = $("text").value.trim() ? [asPart($("text").value)] : [];
  const [files, visit] = [[...$("files").files], visits];
  event.target.reset();
  try {
    parts.push(...(await Promise.all(files.map(filePart))));
  } catch (error) {
    log.say("error", `A file cannot be read: ${error.message}`);
    return;
  }
  if (!parts.length || visit !== visits) return;
  log.say("user", ...parts.flatMap(part));
  send(compose(parts));
});
for (const each of document.querySelectorAll("#tabs button")) each.addEventListener("click", () => panel(each.dataset.panel));

start().catch((error) => log.say("error", `The server's manifest cannot be read: ${error.message}`));
