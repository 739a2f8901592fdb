// Chat page: connects to an agent, streams its answers, and cancels a running task.

import { A2AClient } from "./a2a.js";

const $ = (selector) => document.querySelector(selector);
let client;
let contextId;
let task; // the task that is running or waits for input

$("#connect").addEventListener("submit", async (event) => {
  event.preventDefault();
  const { url, key } = Object.fromEntries(new FormData(event.target));
  try {
    client = await A2AClient.connect(url, key ? { "X-API-Key": key } : {});
  } catch (error) {
    return add("error", error.message);
  }
  contextId = task = undefined;
  $("#name").textContent = client.card.name;
  enable({ running: false });
});

$("#send").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = event.target.text.value;
  event.target.reset();
  add("user", text);
  const answer = add("agent", "");
  enable({ running: true });
  try {
    for await (const update of client.send(text, { contextId, taskId: task })) show(update, answer);
  } catch (error) {
    add("error", error.message);
  }
  enable({ running: false });
});

$("#cancel").addEventListener("click", async () => {
  try {
    await client.call("CancelTask", { id: task });
  } catch (error) {
    add("error", error.message);
  }
});

/** Show an event of the stream: text of the answer, or a new state of the task. */
function show({ task: created, statusUpdate, artifactUpdate, message }, answer) {
  if (created) {
    task = created.id;
    contextId = created.contextId;
  }
  if (artifactUpdate) {
    const text = textOf(artifactUpdate.artifact);
    answer.textContent = artifactUpdate.append ? answer.textContent + text : text;
  }
  const whole = message ?? statusUpdate?.status.message;
  if (whole && textOf(whole)) answer.textContent = textOf(whole);
  const state = statusUpdate?.status.state;
  if (state && state !== "TASK_STATE_SUBMITTED" && state !== "TASK_STATE_WORKING") {
    // Keep a task that waits for input, because it gets the next message. Forget a terminal task.
    if (state !== "TASK_STATE_INPUT_REQUIRED") task = undefined;
    if (state !== "TASK_STATE_COMPLETED") add("state", state.replace("TASK_STATE_", "").toLowerCase());
  }
}

function textOf({ parts = [] }) {
  return parts.map((part) => part.text ?? "").join("");
}

function add(kind, text) {
  const line = document.createElement("p");
  line.className = kind;
  line.textContent = text;
  $("#chat").append(line);
  return line;
}

function enable({ running }) {
  const [text, send, cancel] = $("#send").elements;
  text.disabled = send.disabled = running;
  cancel.disabled = !running;
}
