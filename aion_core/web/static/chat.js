// Chat with an agent: the messages of one context, the streams of its tasks, and its place in the page's address.

import { Composer } from "./composer.js";
import { Log } from "./log.js";
import { keepPlace } from "./place.js";
import { element, part } from "./render.js";
import { Timeline } from "./timeline.js";
import { ServerError, firstText, hasEnded, isInterrupted, isRunning, short, visible } from "./wire.js";

const $ = (id) => document.getElementById(id);
const NO_FOLD = { end() {}, resume() {} }; // in place of the fold of a turn that is in the chat already

export const log = new Log($("log"));
export const timeline = new Timeline($("events"));
export const composer = new Composer(log, say);
export let agent, card, wire; // {id, path, wire} of the agent, its card, and the wire that fills the timeline
export let contextId;
export let shownTask; // id of the newest task in the chat
export let turns = []; // requests and final answers, for "Save as test"; undefined if the first messages are unknown
let conversations, changed, work; // see `connect`
let task; // id of the running or waiting task
let asked; // parts of the user's newest message
let last; // the last request, for "Repeat message"
let connection; // AbortController of the newest open connection
let visits = 0; // number of conversations shown: a late answer for an earlier one is dropped
const streams = new Set(); // open streams of the conversation: {task, stop, answers, fold}

/** Set the list of conversations, what to call when a context's state may have changed, and the view of the agent's steps, if any. */
export const connect = (...given) => ([conversations, changed, work] = given);

/** Talk to an agent from now on. */
export const meet = (...given) => ([agent, card, wire] = given);

export const isStreaming = () => streams.size > 0;

/** Begin another conversation, whose address is noted unless another one follows. */
export function begin(locates = true) {
  // Leave the streams only: their tasks go on, and the list opens them again.
  for (const each of streams) {
    each.fold?.end();
    close(each);
  }
  visits += 1;
  contextId = task = shownTask = last = asked = undefined;
  turns = [];
  work?.show(undefined);
  log.begin(card.name, composer.begin(card));
  show("no task");
  enable();
  changed();
  if (locates) locate();
}

/** Say something to the agent: in the waiting task if there is one, else in a new one. */
export function say(parts, metadata = {}, messageId = crypto.randomUUID()) {
  // Without a context id of its own, a repeated message would begin another context.
  contextId ??= crypto.randomUUID();
  const shown = visible({ parts, metadata });
  const message = { messageId, role: "ROLE_USER", parts, contextId, taskId: task, ...(Object.keys(metadata).length && { metadata }) };
  const url = $("notified").checked && $("hook").value;
  log.say("user", ...shown.flatMap(part));
  last = { message, ...(url && { configuration: { taskPushNotificationConfig: { url } } }) };
  if (!task) asked = parts;
  composer.ask(undefined);
  note("TASK_STATE_SUBMITTED", { text: firstText(shown) });
  conversations.choose(agent, contextId);
  return stream(sending(), last, task);
}

/** Show a stored conversation, at its end or at the `named` task. The stream of a running task continues. */
export async function open(context, named) {
  const visit = ++visits;
  const found = await wire.conversation(context, named);
  const newest = found.history?.findLast(({ taskId }) => taskId)?.taskId;
  // The status of a context has no message: an open question needs that of its task.
  const status = !newest || hasEnded(found.status?.state) ? found.status : (await wire.call("GetTask", { id: newest })).status;
  if (visit !== visits) return; // another one is open
  begin(false);
  turns = undefined;
  [contextId, shownTask] = [context, named ?? newest];
  locate();
  task = shownTask = newest;
  if (found.isPart) log.say("note", "This server cannot list its tasks: only one task of the conversation is shown.");
  const [answers, seen] = [new Map(), new Set()];
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
  changed();
  if (named && named !== newest) $("log").querySelector(`[data-task="${CSS.escape(named)}"]`)?.scrollIntoView();
  if (task && isRunning(status.state)) await stream("SubscribeToTask", { id: task }, task, answers, fold);
  else fold?.end();
}

/** Let another context begin at an entry of the stored state, and run the agent from there. */
export async function fork(entry, values) {
  const [messageId, visit] = [crypto.randomUUID(), visits];
  const parts = asked ?? [{ text: "Continue" }]; // a graph's next nodes run whatever this message says
  const made = await wire.own("fork", {}, { contextId, checkpointId: entry.id, values, messageId });
  if (visit !== visits) return; // another one is open
  begin(false);
  turns = undefined; // a saved test could not begin in the middle
  contextId = made.contextId;
  log.say("note", `A new context begins at: ${entry.label}.`);
  if (made.runs) say(made.parts.length ? made.parts : parts, {}, messageId);
}

/** Send the last request again, with the same message id. */
export function repeat() {
  log.say("note", "The same message id again: the server answers with the same task.");
  stream(sending(), last, last.message.taskId, new Map(), NO_FOLD);
}

/** Close the newest connection, as if it were lost. */
export const drop = () => connection?.abort();

export const cancel = () => wire.call("CancelTask", { id: task }).catch(fails);

/** Show an error of a request. */
export const fails = (error) => log.say("error", error.message);

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
  let goesOn = false;
  enable();
  try {
    const events = wire.converse(method, params, { connection: (each) => (connection = each), lost, signal });
    for await (const event of events) {
      if (params.message && !own.fold && event.task) own.fold = addFold(event.task.id);
      answer = receive(event, answers) || answer;
      own.task ??= task;
    }
    if (signal.aborted) return;
    answer ||= firstText([...answers.values()].flatMap(({ parts }) => parts));
    if (params.message) turns?.push({ message: params.message, isAnswer: Boolean(id), answer, state: $("state").textContent });
  } catch (error) {
    if (signal.aborted) return;
    if (params.message && !shownTask && error instanceof ServerError) conversations.forget(agent, params.message.contextId);
    failed(error, () => stream(method, params, id, answers, own.fold));
    if (error.code === 401) $("access").open = true;
    // The chat already has the messages of a task whose question got a refused answer.
    goesOn = await recall(params.message && id && !replaced ? undefined : answers);
    if (signal.aborted) return;
  }
  for (const known of answers.values()) log.finish(known);
  streams.delete(own);
  own.fold?.end();
  // A refused message has replaced the stream of its running task.
  if (goesOn && params.message) return stream("SubscribeToTask", { id: task }, task, answers, own.fold);
  enable();
  changed();
  await conversations.load();
}

function close(each) {
  each.stop.abort();
  streams.delete(each);
}

/** Show an error of a request. One that has not reached the server can be made `again`: it keeps its message id. */
function failed(error, again) {
  if (error instanceof ServerError) return fails(error);
  show("disconnected");
  return log.sayAgain([error.message], "Try again", again);
}

function lost(cursor, closed, isReceived) {
  const after = cursor ? ` after event ${cursor}` : "";
  timeline.note(`${closed ? "The stream ended" : "The connection is lost"}; ${isReceived ? `subscribing again${after}` : "sending the request again"}.`);
  show("reconnecting");
  if (work && isReceived && !log.lease) log.add(work.lease(task));
}

/**
 * Show the state of the task after an error: it may have ended, or still wait for an answer. Return true if it is running.
 * If it is not, its message and artifacts are drawn into `answers`.
 */
async function recall(answers) {
  const visit = visits;
  const found = task && (await agent.wire.call("GetTask", { id: task }).catch(() => undefined));
  if (!found || visit !== visits) return false;
  const goesOn = isRunning(found.status.state);
  if (answers && !goesOn) receive({ task: found }, answers);
  else update(found.status);
  return goesOn;
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
  if (status?.state === "TASK_STATE_FAILED") fail(whole);
  else if (whole) {
    // The message replaces its own preview, which came as a stream delta. The status message of a stopped turn has another text.
    if (status?.state !== "TASK_STATE_CANCELED") log.replacePreview(answers, whole.messageId);
    log.draw(answers, whole.messageId, visible(whole));
  }
  if (status) {
    update(status);
    if (contextId) note(status.state, { at: status.timestamp });
  }
  if (message) {
    contextId = message.contextId || contextId;
    show("completed");
    note("TASK_STATE_COMPLETED");
  }
  enable();
  return (whole?.parts ?? []).map(({ text }) => text ?? "").join("");
}

/** Show a task's state; if the task waits for an answer, show a form. */
function update(status) {
  show(short(status.state));
  if (isInterrupted(status.state)) composer.ask(status);
  if (hasEnded(status.state)) task = undefined;
}

/** Show that the task has failed: the agent's sentence, the place of the error in its code, and a button. */
function fail(message) {
  const [parts, id, cause] = [asked, shownTask, element("p", { class: "cause" })];
  const nodes = [element("strong", {}, "The task failed."), ...(message ? visible(message).flatMap(part) : []), cause];
  if (parts) {
    log.sayAgain(nodes, "Try again", () => {
      task = undefined; // a new one, in the same context
      say(parts);
    });
  } else log.say("error", ...nodes);
  work?.cause(id, cause);
}

/** Add a folded line for the work of a task's next turn. */
function addFold(id) {
  const fold = work?.fold(id);
  if (fold) log.add(fold.shown);
  return fold;
}

/** Show a state of task or connection. */
export function show(state) {
  $("state").textContent = $("state").dataset.state = state;
  if (state !== "reconnecting") log.lease?.remove();
}

function enable() {
  $("cancel").disabled = !task;
  $("drop").disabled = !isStreaming();
  $("repeat").disabled = !last || isStreaming();
  $("save").disabled = !turns?.length;
}

function note(state, more = {}) {
  conversations.note(agent, contextId, state, { task: shownTask, ...more });
}

/** Let the page's address and the list of conversations show where the user is. */
function locate() {
  const known = shownTask ? contextId : undefined; // a context without a task cannot be opened again
  keepPlace(agent.id, known, shownTask);
  conversations.choose(agent, contextId);
}
