// List of conversations: one row for each context, newest first, with the state of its newest task.

import { element } from "./render.js";
import { METHOD_NOT_FOUND, firstText, isRunning, short, visible } from "./wire.js";

const AGAIN = 3000; // milliseconds between two looks at the chosen agent, and at agents whose tasks run
const SELDOM = 3; // each third look is at all agents

export class Conversations {
  #list;
  #more;
  #open;
  #agents = []; // [{id, path, wire}], the chosen agent first
  #rows = new Map(); // conversations by agent and context id
  #pages = new Map(); // tokens of the next pages, by the agents' ids
  #titles = new Map(); // first messages, by agent and context id
  #chosen = "";
  #listings = 0;
  isLive = false; // look at the agents again and again, also while none of their tasks runs

  /** `open` gets the path of an agent, a context's id, and a task of the context if its server cannot list them. */
  constructor(list, more, open) {
    [this.#list, this.#more, this.#open] = [list, more, open];
    let looks = 0;
    const look = () => {
      const runs = ({ id }) => [...this.#rows.values()].some((row) => row.agent.id === id && isRunning(row.state));
      const looked = this.#agents.filter((agent, place) => !agent.isUnlisted && ((this.isLive && (!place || looks % SELDOM === 0)) || runs(agent)));
      if (!document.hidden) looked.forEach((agent) => this.#page(agent).catch(() => {}));
      looks += 1;
    };
    setInterval(look, AGAIN);
    document.addEventListener("visibilitychange", () => look((looks = 0)));
  }

  /** Show the newest conversations with these agents, or again. The first one is the chosen agent: only its failure is shown. */
  async load(agents = this.#agents) {
    const listing = ++this.#listings;
    this.#agents = agents;
    this.#list.setAttribute("aria-busy", "true");
    const [failure] = await Promise.all(agents.map((agent) => this.#page(agent, listing).then(() => undefined, (error) => error)));
    if (listing !== this.#listings) return;
    // A server that cannot list its tasks, or is gone for a moment, leaves what the page knows. Other callers see nothing of it.
    agents[0].isUnlisted = failure?.code === METHOD_NOT_FOUND;
    if ([401, 403].includes(failure?.code)) for (const [key, row] of this.#rows) if (row.agent.id === agents[0].id) this.#remove(key);
    this.#list.querySelectorAll(":scope > .empty").forEach((each) => each.remove());
    if (failure) this.#list.prepend(element("li", { class: "empty" }, failure.message));
    else if (!this.#rows.size) this.#list.append(element("li", { class: "empty" }, "No conversations yet: send a message."));
    this.#list.setAttribute("aria-busy", "false");
  }

  /** Append the next page of each agent. */
  async older() {
    this.#more.disabled = true;
    await Promise.allSettled(this.#agents.filter(({ id }) => this.#pages.get(id)).map((agent) => this.#page(agent, this.#listings, true)));
    this.#more.disabled = false;
  }

  /** Mark the conversation that the page shows. */
  choose(agent, contextId) {
    this.#chosen = `${agent?.id} ${contextId}`;
    for (const [key, { item }] of this.#rows) item.firstElementChild.setAttribute("aria-current", String(key === this.#chosen));
  }

  /** Show at once what the page knows before the list does: a new conversation by its first `text`, its state, and its newest `task`. */
  note(agent, contextId, state, { text = "", at = new Date().toISOString(), task }) {
    const key = `${agent.id} ${contextId}`;
    if (!this.#rows.has(key) && text) this.#titles.set(key, text);
    this.#show(agent, contextId, { state, at, title: text });
    Object.assign(this.#rows.get(key), { task, noted: performance.now() });
  }

  /** Remove a conversation whose first message was refused. */
  forget(agent, contextId) {
    if (this.#rows.has(`${agent.id} ${contextId}`)) this.#remove(`${agent.id} ${contextId}`);
  }

  async #page(agent, listing = this.#listings, next = false) {
    const began = performance.now();
    const token = next ? this.#pages.get(agent.id) : undefined;
    const { tasks = [], nextPageToken } = await agent.wire.call("ListTasks", { pageSize: 20, historyLength: 3, ...(token && { pageToken: token }) });
    if (listing !== this.#listings) return; // a later request is under way, and its answer is newer
    if (next || !this.#pages.has(agent.id)) this.#pages.set(agent.id, nextPageToken);
    const [found, unnamed] = [new Map(), []];
    for (const task of tasks) found.set(task.contextId, [...(found.get(task.contextId) ?? []), task]);
    for (const [contextId, [newest, ...earlier]] of found) {
      if (this.#rows.get(`${agent.id} ${contextId}`)?.noted > began) continue; // the page knows a newer state
      const history = (earlier.at(-1) ?? newest).history ?? [];
      // Three messages may not be the whole history, and with further pages this page may lack the first task.
      if (nextPageToken || next || history.length > 2) unnamed.push(contextId);
      this.#show(agent, contextId, { state: newest.status.state, at: newest.status.timestamp ?? "", title: firstText(visible(history[0])) });
    }
    this.#more.hidden = ![...this.#pages.values()].some(Boolean);
    for (const contextId of unnamed) await this.#name(agent, contextId).catch(() => {});
  }

  /** Ask for the first message of a conversation, once. */
  async #name(agent, contextId) {
    const key = `${agent.id} ${contextId}`;
    if (this.#titles.has(key)) return;
    let oldest, pageToken;
    do {
      const page = await agent.wire.call("ListTasks", { contextId, pageSize: 100, historyLength: 0, ...(pageToken && { pageToken }) });
      [oldest, pageToken] = [page.tasks?.at(-1) ?? oldest, page.nextPageToken];
    } while (pageToken);
    const task = oldest && (await agent.wire.call("GetTask", { id: oldest.id }));
    this.#titles.set(key, firstText(visible(task?.history?.[0])));
    const row = this.#rows.get(key);
    if (row) this.#show(agent, contextId, row);
  }

  /** Show a conversation, at the place of its time. A row that looks the same stays: it must not vanish below the pointer. */
  #show(agent, contextId, { state, at, title }) {
    const key = `${agent.id} ${contextId}`;
    const row = this.#rows.get(key) ?? { agent, item: element("li") };
    const named = this.#titles.get(key) || title || row.title || "Conversation without text";
    if (row.state === state && row.at === at && row.title === named) return;
    Object.assign(row, { state, at, title: named });
    const button = element("button", { class: "conversation", type: "button", title: contextId, "aria-current": String(key === this.#chosen) });
    const several = this.#agents.length > 1 ? [element("small", {}, agent.id)] : [];
    button.append(element("span", {}, named.slice(0, 200)), element("span", { class: "bar" }, element("span", { class: "state", "data-state": short(state) }, short(state)), ...several, element("small", {}, when(at))));
    button.addEventListener("click", () => this.#open(agent.path, contextId, agent.isUnlisted ? row.task : undefined));
    row.item.replaceChildren(button);
    this.#rows.set(key, row);
    this.#list.querySelectorAll(":scope > .empty").forEach((each) => each.remove());
    const after = [...this.#rows.values()].filter((each) => each !== row && each.at < at).sort((a, b) => (a.at < b.at ? 1 : -1))[0]?.item;
    if (row.item.nextElementSibling !== (after ?? null) || !row.item.parentElement) this.#list.insertBefore(row.item, after ?? null);
  }

  #remove(key) {
    this.#rows.get(key).item.remove();
    this.#rows.delete(key);
  }
}

/** Return the time of today, or the day of an earlier conversation. */
function when(at) {
  const time = new Date(at);
  if (Number.isNaN(time.getTime())) return "";
  return time.toDateString() === new Date().toDateString() ? time.toTimeString().slice(0, 5) : at.slice(0, 10);
}
