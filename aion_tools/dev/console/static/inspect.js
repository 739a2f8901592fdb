// Views of `aion dev` beside the timeline: the agent's stored state, and the webhooks of a task with their posts.

import { element } from "./render.js";
import { eventTitle } from "./timeline.js";

function folded(summary, content) {
  const details = element("details", {}, element("summary", {}, ...summary));
  details.addEventListener("toggle", () => {
    if (details.childElementCount === 1) details.append(element("pre", { tabindex: "0" }, JSON.stringify(content, null, 2)));
  });
  return details;
}

const time = (text) => element("time", { datetime: text }, text.slice(11, 23));

let newest; // the newest request for a stored state; a late answer to an earlier one is dropped

/** Show the stored state of a context: the checkpoints of a LangGraph thread, or the events of an ADK session. */
export async function showState(place, wire, contextId) {
  const request = (newest = Symbol());
  if (!contextId) return place.replaceChildren(element("p", { class: "empty" }, "The state of a context appears after its first message."));
  let state, failure;
  try {
    state = await wire.own("state", { contextId });
  } catch (error) {
    failure = error;
  }
  if (request !== newest) return undefined;
  if (failure) return place.replaceChildren(element("p", { class: "error" }, failure.message));
  if (!state) return place.replaceChildren(element("p", { class: "empty" }, "This agent has no stored state in this context."));
  const entries = state.entries.map(({ label, at, content }) => element("li", {}, folded([time(at), ` ${label}`], content)));
  return place.replaceChildren(element("p", {}, `${state.kind} `, element("code", {}, state.id)), folded(["current state"], state.values), element("ol", {}, ...entries));
}

/** View of a task's webhooks. It asks the server again each second while it is visible. */
export class Webhooks {
  #place;
  #shown; // the task and its webhooks as text
  #current;

  /** `current` returns the wire and the id of the task. */
  constructor(place, current) {
    [this.#place, this.#current] = [place, current];
    setInterval(() => place.checkVisibility() && !document.hidden && this.load(), 1000);
  }

  async load() {
    const [wire, taskId] = this.#current();
    if (!taskId) {
      if (this.#shown !== "") this.#place.replaceChildren(element("p", { class: "empty" }, "The webhooks of a task and their posts appear after its first message."));
      this.#shown = "";
      return undefined;
    }
    let found;
    try {
      found = await wire.own("webhooks", { taskId });
    } catch {
      return undefined; // a killed worker; the next one answers
    }
    const text = taskId + JSON.stringify(found);
    if (text === this.#shown || taskId !== this.#current()[1]) return undefined;
    this.#shown = text;
    const posts = found.posts.map((post) => element("li", { class: post.status < 300 ? "end" : "bad" }, this.#post(post)));
    const none = found.webhooks.length ? [] : [element("p", { class: "empty" }, "This task has no webhook.")];
    return this.#place.replaceChildren(...none, ...found.webhooks.map((each) => this.#webhook(each, wire, taskId)), element("ol", {}, ...posts));
  }

  #webhook(hook, wire, taskId) {
    const next = hook.nextAt ? `, next try at ${hook.nextAt.slice(11, 19)}` : "";
    const state = hook.disabled ? "disabled" : hook.dead ? `${hook.dead} dead ${hook.dead > 1 ? "letters" : "letter"}` : hook.tries ? `${hook.tries} failed ${hook.tries > 1 ? "tries" : "try"}${next}` : "ok";
    const shown = element("div", { class: "hook" }, element("code", {}, hook.url), `${hook.delivered ? `Delivered through event ${hook.delivered}` : "Nothing delivered yet"}: ${state}. ${hook.failure}`);
    if (state === "ok") return shown;
    const button = element("button", { type: "button" }, "Redrive");
    button.addEventListener("click", async () => {
      await wire.own("redrive", {}, { taskId, configId: hook.id });
      await this.load();
    });
    shown.append(button);
    return shown;
  }

  #post({ at, status, signed, body, headers }) {
    return folded([time(at), ` ${status} ← ${eventTitle(body)}, ${signed ? "signature verified" : "signature not verified"}`], { headers, body });
  }
}
