// Log of a conversation: what the user, the agent and the console say.

import { forget } from "./nodes.js";
import { element, show } from "./render.js";

export class Log {
  #place;
  #agent = ""; // name of the agent

  constructor(place) {
    this.#place = place;
  }

  /** Begin another conversation with an agent. The `first` node stands there until somebody says something. */
  begin(agent, first) {
    this.#agent = agent;
    forget();
    this.#place.replaceChildren(first);
  }

  /** Add what somebody says: `user`, `agent`, a `note` or an `error` of the console. Return its element. */
  say(kind, ...nodes) {
    const speaker = { user: "You", agent: this.#agent }[kind];
    const made = element("div", { class: `message ${kind}`, dir: "auto", ...(speaker && { role: "article", "aria-label": speaker }) }, ...nodes);
    this.add(made, kind === "user");
    return made;
  }

  /** Add an error with a button, which is gone after its use. */
  sayAgain(nodes, label, again) {
    const button = element("button", { type: "button" }, label);
    button.addEventListener("click", () => {
      button.remove();
      again();
    });
    return this.say("error", ...nodes, button);
  }

  add(node, always = false) {
    this.follow(() => {
      this.#place.querySelector(":scope > .empty")?.remove();
      this.#place.append(node);
    }, always);
  }

  /** The line that counts a lost worker's lease down, or null. */
  get lease() {
    return this.#place.querySelector(":scope > .lease");
  }

  /** Change the log. Scroll to its end if the end was visible before, or `always`. */
  follow(change, always = false) {
    const log = this.#place;
    const atEnd = log.scrollTop + log.clientHeight > log.scrollHeight - 60;
    change();
    if (atEnd || always) log.scrollTop = log.scrollHeight;
  }

  /** Draw a message, or an artifact with `append`. Consecutive files of one name in an artifact are chunks of a file. */
  draw(answers, id, parts, append) {
    const known = answers.get(id) ?? { shown: this.say("agent"), parts: [] };
    if (!append) known.parts = [];
    for (const each of parts) {
      const before = known.parts.at(-1);
      const isSameFile = each.raw !== undefined && before?.raw !== undefined && each.filename && each.filename === before.filename;
      if (append && before?.text !== undefined && each.text !== undefined) before.text += each.text;
      else if (append !== undefined && isSameFile) before.raw = btoa(atob(before.raw) + atob(each.raw));
      else known.parts.push({ ...each });
    }
    answers.set(id, known);
    this.#paint(known);
    return known;
  }

  /** Note that a message or artifact is complete. */
  finish(known) {
    if (known.shown.ariaBusy !== "true") return;
    known.shown.ariaBusy = "false";
    this.#paint(known);
  }

  /** Let a message take the place of its preview, which came as a stream delta: what is rendered of it stays. */
  replacePreview(answers, id) {
    const preview = answers.get("aion:stream-delta");
    if (!preview || !answers.delete("aion:stream-delta")) return;
    if (answers.has(id)) {
      preview.shown.remove();
      return;
    }
    preview.shown.ariaBusy = "false";
    answers.set(id, preview);
    this.add(preview.shown);
  }

  /** Show the parts of a message or artifact, once in each frame: there may be thousands of chunks. */
  #paint(known) {
    known.frame ??= requestAnimationFrame(() => {
      known.frame = undefined;
      this.follow(() => show(known.shown, known.parts, known.shown.ariaBusy === "true"));
    });
  }
}
