// Console: the agents of this server, the panels, and the controls of the connection, the task and the worker.

import { checked } from "./card.js";
import * as chat from "./chat.js";
import { Conversations } from "./conversations.js";
import { home, place, root } from "./place.js";
import { element } from "./render.js";
import { pytest } from "./save.js";
import { render } from "./text.js";
import { Wire } from "./wire.js";

const $ = (id) => document.getElementById(id);
const { composer, log, timeline } = chat;
const conversations = new Conversations($("task-list"), $("more"), (path, context, task) => visit({ path, context, task }));
const agents = new Map(); // {id, path, wire} of each agent, by its path; the wires do not fill the timeline
const narrow = matchMedia("(max-width: 800px)");
let isDevelopment = false;
let work; // view of the agent's steps
let views; // views of the development console
let webhooks;
let remote; // URL of another server, whose console this is

// The browser reads the icon again at each address that the page gets.
document.querySelector("link[rel=icon]").href = new URL("console/favicon.svg", root).href;
document.querySelector("header > a[href$=docs]").href = new URL("docs", root).href;
render({ ask: (texts) => chat.agent.wire.own("markdown", {}, { texts }), change: (draw) => log.follow(draw), isLive: () => isDevelopment || Boolean(remote) });

const credentials = () => ($("credential").value ? { [$("header").value]: $("credential").value } : {});
const urlOf = (path) => new URL(path.replace(/^\//, ""), root).href;

async function start() {
  const manifest = await (await fetch(new URL(".well-known/manifest.json", root))).json();
  const features = await (await fetch(new URL("console/features.json", root))).json();
  home.agent = features.agent;
  for (const [id, path] of Object.entries(manifest.endpoints)) {
    agents.set(path, { id, path, wire: new Wire(urlOf(path), { headers: credentials, record: () => {} }) });
    $("agent").append(element("option", { value: path }, id));
  }
  $("hook").value = features.receiver;
  remote = features.remote;
  document.querySelector("a[href$=docs]").hidden = Boolean(remote);
  if (features.receiver) {
    views = await import("./inspect.js"); // only a server on this machine has this file
    webhooks = new views.Webhooks($("hooks"), () => [chat.wire, chat.shownTask]);
  }
  if (features.development) {
    work = new views.Work($("waterfall"), $("drawing"), () => chat.wire, (draw) => log.follow(draw));
    isDevelopment = conversations.isLive = true;
    views.watchServer(chat, new URL("console/features.json", root));
  }
  chat.connect(conversations, inspect, work);
  for (const each of document.querySelectorAll("#kill, [data-panel=graph], [data-panel=trace], [data-panel=stored]")) each.hidden = !isDevelopment;
  document.querySelector("[data-panel=webhooks]").hidden = !webhooks;
  panel(isDevelopment ? "graph" : webhooks ? "webhooks" : "timeline");
  panel("chat");
  await visit(place());
}

/** Show an agent, by its `id` or path, with a context if there is one, and the place of a task in it. */
async function visit({ agent: id, path, context, task }) {
  const pathOf = (wanted) => [...agents.values()].find((each) => each.id === wanted)?.path;
  path ??= pathOf(id);
  const isUnknown = !path && id;
  if (isUnknown) history.replaceState(null, "", root); // "Back" must not go there
  $("agent").value = path ?? pathOf(home.agent) ?? $("agent").value;
  if ($("agent").value !== chat.agent?.path) {
    if (!(await choose(!context || isUnknown))) return;
  } else {
    composer.ready(true); // another agent may have been chosen, and its card not yet read
    if (!context || isUnknown) chat.begin();
  }
  if (isUnknown) log.say("error", `This server has no agent ${id}.`);
  else if (context) {
    panel("chat");
    await chat.open(context, task).catch(chat.fails);
  }
}

/** Show the chosen agent, and note it in the page's address unless a context follows. Return true if it is shown. */
async function choose(locates = true) {
  composer.ready(false);
  const chosen = $("agent").value;
  const url = urlOf(chosen);
  let card, failure;
  try {
    const response = await fetch(`${url}/.well-known/agent-card.json`, { headers: { "A2A-Version": "1.0" } });
    if (response.ok) card = JSON.parse(await response.text(), (key, value) => value ?? undefined);
    else failure = (await response.json().catch(() => ({}))).error ?? { message: `HTTP status ${response.status}` };
  } catch (error) {
    failure = error;
  }
  if (chosen !== $("agent").value) return false; // the user has chosen another agent meanwhile
  if (!card) {
    log.say("error", `The agent's card cannot be read: ${failure.message}`);
    if (failure.received) showCard(await new Response(failure.received).json().catch(() => failure.received), remote, failure.message);
    $("agent").value = chat.agent?.path ?? chosen;
    composer.ready(Boolean(chat.agent));
    return false;
  }
  const extensions = (card.capabilities?.extensions ?? []).filter((each) => each.required).map((each) => each.uri);
  const agent = agents.get(chosen);
  agent.wire = new Wire(url, { headers: credentials, extensions, record: () => {} });
  chat.meet(agent, card, new Wire(url, { headers: credentials, extensions, record: (each) => timeline.add(each) }));
  timeline.divide(card.name);
  document.title = `${card.name} · aion console`;
  showCard(card, remote ?? url);
  work?.draw(agent.wire);
  chat.begin(locates);
  composer.ready(true);
  await conversations.load([agent, ...[...agents.values()].filter((each) => each !== agent)]);
  return true;
}

/** Show a card that was received from `url`, or another answer, and what its checks have found. */
function showCard(card, url, failure) {
  const { wrong, advice } = checked(card, url, failure);
  $("card-json").textContent = typeof card === "string" ? card : JSON.stringify(card, null, 2);
  $("card-notes").replaceChildren(...wrong.map((each) => element("li", { class: "bad" }, each)), ...advice.map((each) => element("li", {}, each)));
  $("card-open").textContent = wrong.length ? `Agent card (${wrong.length} wrong)` : "Agent card";
}

/** Show the agent's stored state and the task's webhooks again. */
function inspect() {
  webhooks?.load();
  if (isDevelopment) views.showState($("entries"), chat.wire, chat.contextId, (entry, values) => chat.fork(entry, values).then(() => panel("chat"), chat.fails));
}

/** Show a panel: alone on a narrow screen, else those of a development server beside the chat, below the timeline. */
function panel(name) {
  const { dataset } = document.querySelector("main");
  if (!["tasks", "chat", "timeline"].includes(name)) dataset.side = name;
  dataset.panel = name;
  for (const each of document.querySelectorAll("main > section")) {
    each.classList.toggle("alone", each.id === name);
    each.classList.toggle("beside", each.id === dataset.side);
  }
  mark();
  if (name === "webhooks") webhooks?.load();
}

function mark() {
  const { panel: alone, side } = document.querySelector("main").dataset;
  for (const each of document.querySelectorAll("#tabs button")) each.setAttribute("aria-pressed", String(each.dataset.panel === (narrow.matches ? alone : side)));
}

/** Read the list again, or the card. */
const refresh = () => (chat.agent ? conversations.load() : visit(place()));

const clicked = {
  refresh,
  fresh() {
    if (chat.agent) chat.begin();
    panel("chat");
    $("text").focus();
    refresh();
  },
  more: () => conversations.older(),
  reload: inspect,
  clear: () => timeline.clear(),
  "card-open": () => $("card").showModal(),
  "card-close": () => $("card").close(),
  drop: chat.drop,
  cancel: chat.cancel,
  repeat: () => chat.repeat(),
  async kill() {
    timeline.note("The worker process is killed.");
    await chat.wire.own("kill", {}, {}).catch(() => {}); // the process is gone before it answers
  },
  save() {
    const file = new Blob([pytest(chat.wire.url, $("credential").value && $("header").value, chat.turns)], { type: "text/x-python" });
    const link = element("a", { href: URL.createObjectURL(file), download: "test_conversation.py" });
    link.click();
    URL.revokeObjectURL(link.href);
  },
};
for (const [id, act] of Object.entries(clicked)) $(id).addEventListener("click", act);
for (const each of document.querySelectorAll("#tabs button")) each.addEventListener("click", () => panel(each.dataset.panel));
addEventListener("popstate", () => {
  if (!location.hash || place().context) visit(place()); // the link to the message is no place
});
narrow.addEventListener("change", mark);
$("agent").addEventListener("change", () => choose());
$("answered").addEventListener("change", (event) => chat.wire.own("receiver", {}, { status: Number(event.target.value) }).catch(chat.fails));
$("credential").addEventListener("change", () => {
  if (chat.agent) work?.draw(chat.agent.wire);
  inspect();
  refresh();
  if (place().context && !chat.shownTask) visit(place()); // it could not be read before
});

start().catch((error) => log.say("error", `The server's manifest cannot be read: ${error.message}`));
