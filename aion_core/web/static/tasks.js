// List of the stored tasks by context, newest first.

import { element } from "./render.js";
import { short, visible } from "./wire.js";

export class TaskList {
  #list;
  #more;
  #open;
  #listings = 0;
  #shown; // the first page, as text
  #page; // token of the next page

  /** `open` gets a task's id, or undefined, and a context's id. */
  constructor(list, more, open) {
    [this.#list, this.#more, this.#open] = [list, more, open];
  }

  /** Show the newest tasks, or append the `next` page. */
  async load(wire, next = false) {
    const listing = ++this.#listings;
    const list = this.#list;
    list.setAttribute("aria-busy", "true");
    try {
      const found = await wire.call("ListTasks", { pageSize: 20, historyLength: 2, ...(next && this.#page && { pageToken: this.#page }) });
      if (listing !== this.#listings) return; // a later request is under way, and its answer is newer
      const first = next ? this.#shown : JSON.stringify(found.tasks);
      if (!next && first === this.#shown) return; // a button must not vanish below the pointer
      this.#shown = first;
      this.#page = found.nextPageToken;
      if (!next) list.replaceChildren();
      for (const task of found.tasks ?? []) this.#group(task.contextId).append(this.#item(task));
      if (!list.children.length) list.append(element("li", { class: "empty" }, "No tasks yet: send a message."));
      this.#more.hidden = !this.#page;
    } catch (error) {
      if (listing !== this.#listings) return;
      this.#shown = undefined;
      list.replaceChildren(element("li", {}, error.message));
    } finally {
      if (listing === this.#listings) list.setAttribute("aria-busy", "false");
    }
  }

  #group(contextId) {
    const known = [...this.#list.children].find((each) => each.dataset.context === contextId);
    if (known) return known.lastElementChild;
    const button = element("button", { class: "context", type: "button", title: contextId }, "Context ", element("small", {}, contextId.slice(0, 8)));
    button.addEventListener("click", () => this.#open(undefined, contextId));
    const tasks = element("ul");
    const item = element("li", {}, button, tasks);
    item.dataset.context = contextId;
    this.#list.append(item);
    return tasks;
  }

  #item({ id, contextId, status, history = [] }) {
    // The history ends with the status message.
    const before = history.findLast(({ messageId }) => messageId !== status.message?.messageId);
    const text = [before, status.message].flatMap((each) => visible(each)).map((each) => each.text ?? "").find(Boolean) ?? "";
    const time = status.timestamp?.slice(5, 16).replace("T", " ") ?? "";
    const state = element("span", { class: "state", "data-state": short(status.state) }, short(status.state));
    const button = element("button", { class: "task", type: "button", title: id }, element("span", {}, text.slice(0, 200)), element("span", { class: "bar" }, state, element("small", {}, time)));
    button.addEventListener("click", () => this.#open(id, contextId));
    return element("li", {}, button);
  }
}
