// Console: chat with an agent of this server, and control of the connection, the task and the worker.

import { element, fields, part, values } from "./render.js";
import { Timeline } from "./timeline.js";
import { Wire, hasEnded, isInterrupted } from "./wire.js";

const $ = (id) => document.getElementById(id);
const timeline = new Timeline($("events"));
const conversation = []; // requests and final answers, for "Save as test"
let wire;
let quiet; // Wire for the list of tasks, which would fill the timeline
let card;
let contextId;
let task; // the running or waiting task
let last; // the last sent message, for "Send same message again"
let connection; // AbortController of the open connection
let page; // token of the next page of tasks

const credentials = () => ($("credential").value ? { [$("header").value]: $("credential").value } : {});
const short = (state) => String(state).replace("TASK_STATE_", "").toLowerCase().replaceAll("_", " ");

// ── Agents ──────────────────────────────────────────────────────────────────────────────────────────────────────────

async function start() {
  const manifest = await (await fetch(".well-known/manifest.json")).json();
  for (const [id, path] of Object.entries(manifest.endpoints)) $("agent").append(element("option", { value: path }, id));
  const features = await (await fetch("console/features.json")).json();
  $("kill").hidden = !features.kill;
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
  $("card-notes").replaceChildren(...notes(card).map((each) => element("p", {}, each)));
  fresh();
  ready(true);
  await list();
}

/** Let the user write, once the agent is known. */
function ready(isReady) {
  $("text").disabled = $("submit").disabled = !isReady;
}

/** Return remarks on a card that would make it less useful to clients. */
function notes({ description, skills = [], provider, securitySchemes }) {
  return [
    !description && "The card has no description: clients choose agents by it.",
    !skills.length && "The card has no skills: other agents find this one by its skills.",
    skills.some(({ examples }) => !examples?.length) && "A skill has no examples.",
    !provider && "The card names no provider.",
    !securitySchemes && "The card has no security schemes: everyone who can reach the server may use the agent.",
  ].filter(Boolean);
}

// ── Conversation ────────────────────────────────────────────────────────────────────────────────────────────────────

function fresh() {
  contextId = task = last = undefined;
  conversation.length = 0;
  $("log").replaceChildren();
  ask(undefined);
  show("no task");
  enable(false);
}

function say(kind, ...nodes) {
  const follows = $("log").scrollTop + $("log").clientHeight > $("log").scrollHeight - 60;
  const made = element("div", { class: `message ${kind}` }, ...nodes);
  $("log").append(made);
  if (follows) made.scrollIntoView({ block: "nearest" });
  return made;
}

function show(state) {
  $("state").textContent = state;
}

function enable(running) {
  $("cancel").disabled = !task;
  $("drop").disabled = !running;
  $("repeat").disabled = !last || running;
}

async function send(message) {
  last = message;
  ask(undefined);
  const answers = new Map(); // artifact id or message id → its element and parts
  let answer = "";
  enable(true);
  try {
    const streams = { connection: (each) => (connection = each), lost };
    for await (const event of wire.converse({ message }, streams)) answer = receive(event, answers) || answer;
    conversation.push({ message, answer, state: $("state").textContent });
  } catch (error) {
    say("error", error.message);
  }
  for (const { shown } of answers.values()) shown.classList.remove("streaming");
  enable(false);
  await list();
}

function lost(cursor, closed) {
  const place = cursor ? ` after event ${cursor}` : "";
  timeline.note(`${closed ? "The stream ended" : "The connection is lost"}; subscribing again${place}.`);
  show("reconnecting");
}

/** Show one event. Return the text of a final answer, or "". */
function receive({ task: told, statusUpdate, artifactUpdate, message }, answers) {
  if (told) {
    task = told.id;
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
    if (isInterrupted(status.state)) ask(status.message);
    if (hasEnded(status.state)) task = undefined;
  }
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
  known.shown.replaceChildren(...known.parts.flatMap(part));
  known.shown.hidden = !known.shown.hasChildNodes();
  answers.set(id, known);
  const log = $("log");
  if (log.scrollTop + log.clientHeight > log.scrollHeight - 160) log.scrollTop = log.scrollHeight;
  return known;
}

// ── Questions ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Show a form for the question of an interrupted task, or none. */
function ask(message) {
  const form = $("question");
  form.hidden = !message;
  form.replaceChildren();
  if (!message) return;
  const data = message.parts.find((each) => each.data !== undefined)?.data;
  const options = Array.isArray(data?.options) ? { enum: data.options } : undefined;
  const schema = data?.response_schema ?? data?.schema ?? options;
  const interruptId = message.metadata?.interruptId;
  const buttons = element("div", { class: "bar" }, element("button", { type: "submit" }, "Answer"));
  form.append(...fields(schema), buttons);
  form.onsubmit = (event) => {
    event.preventDefault();
    const given = values(form);
    const alone = Object.keys(given).length === 1 && "answer" in given;
    const content = alone && typeof given.answer === "string" ? { text: given.answer } : { data: alone ? given.answer : given };
    say("user", ...part(content));
    send(compose([content], interruptId && { interruptId }));
  };
  form.querySelector("[name]")?.focus();
}

function compose(parts, metadata) {
  // Without a context id of its own, a repeated message would begin another context.
  contextId ??= crypto.randomUUID();
  const message = { messageId: crypto.randomUUID(), role: "ROLE_USER", parts, contextId, taskId: task };
  return metadata ? { ...message, metadata } : message;
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

// ── Tasks ───────────────────────────────────────────────────────────────────────────────────────────────────────────

let listings = 0;

async function list(more = false) {
  const listing = ++listings;
  $("task-list").setAttribute("aria-busy", "true");
  try {
    const found = await quiet.call("ListTasks", { pageSize: 20, ...(more && page ? { pageToken: page } : {}) });
    if (listing !== listings) return; // a later request is under way, and its answer is newer
    page = found.nextPageToken;
    const items = (found.tasks ?? []).map((each) => {
      const button = element("button", { class: "task", type: "button" }, short(each.status.state), element("small", {}, each.id));
      button.addEventListener("click", () => open(each.id));
      return element("li", {}, button);
    });
    if (!more) $("task-list").replaceChildren();
    $("task-list").append(...items);
    $("more").hidden = !page;
  } catch (error) {
    if (listing === listings) $("task-list").replaceChildren(element("li", {}, error.message));
  } finally {
    if (listing === listings) $("task-list").setAttribute("aria-busy", "false");
  }
}

async function open(id) {
  const found = await wire.call("GetTask", { id });
  fresh();
  contextId = found.contextId;
  task = hasEnded(found.status.state) ? undefined : id;
  const seen = new Set();
  for (const message of [...(found.history ?? []), found.status.message].filter(Boolean)) {
    if (seen.has(message.messageId)) continue;
    seen.add(message.messageId);
    say(message.role === "ROLE_USER" ? "user" : "agent", ...message.parts.flatMap(part));
  }
  for (const artifact of found.artifacts ?? []) say("agent", ...artifact.parts.flatMap(part));
  show(short(found.status.state));
  if (isInterrupted(found.status.state)) ask(found.status.message);
  enable(false);
  panel("chat");
}

// ── Controls ────────────────────────────────────────────────────────────────────────────────────────────────────────

function panel(name) {
  document.querySelector("main").dataset.panel = name;
  for (const each of document.querySelectorAll("#tabs button")) each.setAttribute("aria-pressed", String(each.dataset.panel === name));
}

/** Return a pytest of the conversation. It needs a running server, since the agent's code is the server's. */
function test() {
  const steps = conversation.map(({ message: { parts }, answer, state }, turn) =>
    [
      `    answer = send(${JSON.stringify(parts)}, context)`,
      `    context = answer["contextId"]`,
      `    assert answer["status"]["state"] == "TASK_STATE_${state.toUpperCase().replaceAll(" ", "_")}"  # turn ${turn + 1}`,
      answer && `    assert ${JSON.stringify(answer)} in text(answer)`,
    ].filter(Boolean).join("\n"),
  );
  return `"""Conversation saved by the aion console. Start \`aion dev\`, then run pytest."""

import uuid

import httpx

URL = ${JSON.stringify(wire.url)}


def send(parts: list[dict], context: str | None) -> dict:
    """Send a message, wait for the end of its turn, and return the task."""
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": parts, "contextId": context or ""}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    result = httpx.post(URL, json=body, headers={"A2A-Version": "1.0"}, timeout=120).json()["result"]
    return result.get("task") or {**result["message"], "status": {"state": "TASK_STATE_COMPLETED", "message": result["message"]}}


def text(task: dict) -> str:
    """Return the text of the task's last message."""
    return "".join(part.get("text", "") for part in task["status"].get("message", {}).get("parts", []))


def test_conversation() -> None:
    context = None
${steps.join("\n") || "    assert context is None"}
`;
}

$("agent").addEventListener("change", choose);
$("fresh").addEventListener("click", fresh);
$("refresh").addEventListener("click", () => list());
$("more").addEventListener("click", () => list(true));
$("clear").addEventListener("click", () => timeline.clear());
$("card-open").addEventListener("click", () => $("card").showModal());
$("card-close").addEventListener("click", () => $("card").close());
$("credential").addEventListener("change", () => list());
$("drop").addEventListener("click", () => connection?.abort());
$("cancel").addEventListener("click", () => wire.call("CancelTask", { id: task }).catch((error) => say("error", error.message)));
$("repeat").addEventListener("click", () => {
  say("note", "The same message id again: the server answers with the same task.");
  send(last);
});
$("kill").addEventListener("click", async () => {
  timeline.note("The worker process is killed.");
  await fetch("console/kill", { method: "POST", headers: { "Content-Type": "application/json" } }).catch(() => {});
});
$("save").addEventListener("click", () => {
  const link = element("a", { href: URL.createObjectURL(new Blob([test()], { type: "text/x-python" })), download: "test_conversation.py" });
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
  const parts = $("text").value.trim() ? [{ text: $("text").value }] : [];
  parts.push(...(await Promise.all([...$("files").files].map(filePart))));
  if (!parts.length) return;
  event.target.reset();
  say("user", ...parts.flatMap(part));
  send(compose(parts));
});
for (const each of document.querySelectorAll("#tabs button")) each.addEventListener("click", () => panel(each.dataset.panel));

start().catch((error) => say("error", `The server's manifest cannot be read: ${error.message}`));
