// Views of `aion dev` beside the timeline: the agent's stored state, the webhooks of a task with their posts, and the server itself.

import { element } from "./render.js";
import { eventTitle, time } from "./timeline.js";

export { Work } from "./work.js";

/** Return a line that shows what `content` returns when it is opened. */
function folded(summary, ...content) {
  const details = element("details", {}, element("summary", {}, ...summary));
  details.addEventListener("toggle", () => details.childElementCount > 1 || details.append(...content.flatMap((each) => each())));
  return details;
}

const json = (value) => () => element("pre", { tabindex: "0" }, JSON.stringify(value, null, 2));

let newest; // the newest request for a stored state; a late answer to an earlier one is dropped

/**
 * Show the stored state of a context: the checkpoints of a LangGraph thread, or the events of an ADK session.
 * `fork` gets an entry, and the edited values of a checkpoint, to run from there.
 */
export async function showState(place, wire, contextId, fork) {
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
  const entries = state.entries.map((entry) => element("li", {}, forkable(entry, fork)));
  return place.replaceChildren(element("p", {}, `${state.kind} `, element("code", {}, state.id)), folded(["current state"], json(state.values)), element("ol", {}, ...entries));
}

/** Return an entry of the state, with a button to run from there. The values of a checkpoint can be edited before. */
function forkable(entry, fork) {
  const { label, at, content: { values: stored, ...rest } } = entry;
  const isGraph = stored !== undefined;
  const editing = () => {
    const problem = element("p", { class: "error", role: "alert" });
    const editor = element("textarea", { rows: 12, "aria-label": `Values at ${label}`, spellcheck: false });
    editor.value = JSON.stringify(stored, null, 2);
    const button = element("button", { type: "button" }, isGraph ? "Run from here" : "Run again from the message before");
    button.addEventListener("click", () => {
      let values = {};
      try {
        values = isGraph ? JSON.parse(editor.value) : {};
      } catch (error) {
        problem.textContent = `The values are not JSON: ${error.message}`;
        return;
      }
      fork(entry, values);
    });
    return [...(isGraph ? [editor] : []), button, problem];
  };
  return folded([time(at), ` ${label}`], editing, json(rest));
}

/** Let the state of a chat say when the server at a URL is gone, and when it is back. */
export function watchServer(chat, url) {
  let before; // the state to show again
  const look = async () => {
    if (document.hidden || chat.isStreaming()) return;
    const isThere = await fetch(url).then(({ ok }) => ok, () => false);
    const { textContent: state } = document.getElementById("state");
    if (isThere === (state !== "disconnected") || chat.isStreaming()) return;
    chat.show(isThere ? (before ?? "reachable again") : "disconnected");
    before = isThere ? undefined : state;
  };
  setInterval(look, 5000);
  document.addEventListener("visibilitychange", look);
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
    const none = found.webhooks?.length !== 0 ? [] : [element("p", { class: "empty" }, "This task has no webhook.")];
    return this.#place.replaceChildren(...none, ...(found.webhooks ?? []).map((each) => this.#webhook(each, wire, taskId)), element("ol", {}, ...posts));
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
    return folded([time(at), ` ${status} ← ${eventTitle(body)}${signed === null ? "" : signed ? ", signature verified" : ", signature not verified"}`], json({ headers, body }));
  }
}
