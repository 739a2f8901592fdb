// What the agent does in a task's turns, from their trace: folding lines in the chat, a waterfall, and a waiting lease.

import { Diagram } from "./diagram.js";
import { element } from "./render.js";

const AGAIN = 500; // milliseconds between two looks at running turns
const LAST_LOOKS = 6; // after the end of a stream: its last steps are stored a moment later
const CALLS = new Set(["model", "tool"]);
const WIDEST = 60; // characters of arguments or a result on a line

export class Work {
  #waterfall;
  #wire;
  #change;
  #diagram;
  #counts = new Map(); // turns of each task in the chat, by the task's id
  #shown; // the fold of which the waterfall shows the steps
  #followed = new Map(); // ids of the tasks that are looked at, by the function that gets what is known of the task
  #isLooking = false;

  /** `wire` returns the wire of the chosen agent, and `change` changes the chat. */
  constructor(waterfall, drawing, wire, change) {
    [this.#waterfall, this.#wire, this.#change, this.#diagram] = [waterfall, wire, change, new Diagram(drawing)];
  }

  /** Draw the parts of another agent. */
  async draw(wire) {
    if (await this.#diagram.draw(wire)) this.#diagram.light(this.#shown?.steps ?? []);
  }

  /** Show the steps of a fold in the waterfall and the drawing; without one, a conversation begins. */
  show(fold) {
    if (!fold) for (const each of [this.#counts, this.#followed]) each.clear();
    this.#diagram.light(fold?.steps ?? []);
    const empty = element("p", { class: "empty" }, "What the agent does in a turn appears here: nodes, model calls and tool calls.");
    const nodes = fold?.steps.length ? waterfall(fold.tries) : [empty];
    if (fold && fold === this.#shown) renew(this.#waterfall, ...nodes);
    else this.#waterfall.replaceChildren(...nodes);
    this.#shown = fold;
  }

  /** Return the fold of a task's next turn in the chat. It follows the turn until its `end`. */
  fold(taskId) {
    const turn = this.#counts.get(taskId) ?? 0;
    this.#counts.set(taskId, turn + 1);
    const fold = new Fold((look) => this.#follow(taskId, look), turn, (draw) => {
      this.#change(draw);
      if (this.#shown === fold) this.show(fold);
    });
    fold.shown.addEventListener("toggle", () => fold.shown.open && this.show(fold));
    this.show(fold);
    return fold;
  }

  /** Return a line that counts the lease of a lost worker down. It is to be removed when the stream continues. */
  lease(taskId) {
    const line = element("div", { class: "message note lease", role: "status" }, "The connection is lost.");
    this.#follow(taskId, ({ lease, now }) => {
      const left = lease && Math.ceil((lease.until - now) / 1000);
      if (lease) line.textContent = left > 0 ? `The worker with lease ${lease.fence} no longer answers. Another one goes on in ${left} s, unless it renews its lease.` : `Lease ${lease.fence} has ended: another worker takes the turn over.`;
      return line.isConnected;
    });
    return line;
  }

  /** Write into a node where a failed task's error was raised, as soon as a step says so. */
  cause(taskId, node) {
    let looks = LAST_LOOKS;
    this.#follow(taskId, ({ tries = [] }) => {
      const steps = tries.at(-1)?.steps ?? [];
      const failed = steps.filter(({ error }) => error);
      if (!failed.length || steps[0].ms == null) return (looks -= 1) > 0;
      const step = failed.findLast(({ where }) => where) ?? failed.at(-1);
      const within = failed.findLast(({ kind }) => kind !== "agent");
      node.textContent = [step.error === "_OTHER" ? "" : step.error, within && `in the ${within.kind} ${within.name}`, step.where && `at ${step.where}`].filter(Boolean).join(" ");
      return false;
    });
  }

  /** Let a function `look` at what the server knows of a task, again and again until it returns false. */
  #follow(taskId, look) {
    if (taskId) this.#followed.set(look, taskId);
    if (!this.#isLooking) this.#lookAgain();
  }

  /** Ask for all followed tasks in one request, also for those that are followed in a moment. */
  async #lookAgain() {
    this.#isLooking = true;
    for (let pause = 0; this.#followed.size; pause = AGAIN) {
      await new Promise((resolve) => setTimeout(resolve, pause));
      const followed = [...this.#followed];
      if (!followed.length) break;
      const found = await this.#wire().own("turns", [...new Set(this.#followed.values())].map((id) => ["taskId", id])).catch(() => ({}));
      for (const [look, id] of followed) if (this.#followed.has(look) && !look(found[id] ?? {})) this.#followed.delete(look);
    }
    this.#isLooking = false;
  }
}

/** Folded line for the steps of one turn, in the chat. */
class Fold {
  shown = element("details", { class: "work", hidden: true });
  tries = [];
  #follow;
  #turn;
  #change;
  #text = "";
  #looks; // looks left

  constructor(follow, turn, change) {
    [this.#follow, this.#turn, this.#change] = [follow, turn, change];
    this.resume();
  }

  /** Look again and again: the turn goes on. */
  resume() {
    this.#looks = Infinity;
    this.#follow(this.#look);
  }

  /** Look only a few times more: the turn has ended. */
  end() {
    this.#looks = Math.min(this.#looks, LAST_LOOKS);
  }

  get steps() {
    return this.tries.flatMap(({ steps }) => placed(steps));
  }

  #look = ({ tries, wait }) => {
    if (tries) this.#show(tries, wait);
    this.#looks -= 1;
    const isOver = this.tries.length > 0 && this.tries.at(-1).steps[0].ms != null;
    return this.#looks > 0 && !(isOver && this.#looks <= LAST_LOOKS);
  };

  #show(tries, wait) {
    const turn = [...new Set(tries.map((each) => each.turn))][this.#turn];
    const own = tries.filter((each) => each.turn === turn && turn !== undefined);
    const text = JSON.stringify([own, wait]);
    if (text === this.#text) return;
    [this.#text, this.tries] = [text, own];
    const steps = this.steps.filter(({ kind }) => CALLS.has(kind) || ["retry", "handoff", "takeover", "wait"].includes(kind));
    const waits = wait ? ` · suspended since ${time(wait.since)}, next look at ${time(wait.look)}` : "";
    this.#change(() => {
      this.shown.hidden = !steps.length && !wait;
      renew(this.shown, element("summary", {}, summary(this.steps) + waits), element("ol", {}, ...steps.map(line)));
    });
  }
}

/** Return the steps of a try, each with the id or the end of the id of its part in the drawing. */
function placed(steps) {
  const places = new Map(); // names of the nodes around and at each step, and of its agent
  return steps.map((step) => {
    const { id, kind, name, parent } = step;
    const { nodes, agent } = places.get(parent) ?? { nodes: [], agent: "" };
    const own = { nodes: kind === "node" ? [...nodes, name] : nodes, agent: kind === "agent" ? name : agent };
    places.set(id, own);
    return { ...step, part: { node: own.nodes.join(":"), tool: `${agent}/${name}()` }[kind] ?? name };
  });
}

function line(step) {
  const told = [element("span", { class: "kind" }, step.kind), ` ${step.name} `];
  if (step.arguments) told.push(element("code", {}, short(step.arguments)), " ");
  if (step.result) told.push("→ ", element("code", {}, short(step.result)), " ");
  told.push(element("small", {}, numbers(step)));
  return row(step.error ? "bad" : step.kind, told, values(step));
}

/** Return a line, which can be opened if it has `content`. */
const row = (kind, told, content) => element("li", { class: kind }, content.length ? element("details", {}, element("summary", {}, ...told), ...content) : element("div", {}, ...told));

function values(step) {
  const titled = { arguments: "Arguments", result: step.error ? `Error ${step.error === "_OTHER" ? "" : step.error} ${step.where ?? ""}` : "Result" };
  return Object.entries(titled).filter(([name]) => step[name]).flatMap(([name, title]) => [element("small", {}, title), element("pre", { tabindex: "0" }, pretty(step[name]))]);
}

/** Return what an agent does or has done, in one line. */
function summary(steps) {
  const running = steps.findLast(({ ms, kind }) => ms == null && kind !== "agent");
  const ended = steps.filter(({ ms }) => ms != null);
  const tools = ended.filter(({ kind }) => kind === "tool").map(({ name }) => name);
  const models = ended.filter(({ kind }) => kind === "model").length;
  const named = [...new Set(tools)].map((name) => (tools.filter((each) => each === name).length > 1 ? `${name} ×${tools.filter((each) => each === name).length}` : name));
  const told = [models && `${models} model call${models > 1 ? "s" : ""}`, ...named].filter(Boolean).join(", ");
  const time = steps[0]?.ms == null ? "" : ` · ${duration(steps.at(-1).at + (steps.at(-1).ms ?? 0) - steps[0].at)}`;
  const now = running && { model: "The model answers …", tool: `Calling ${running.name} …` }[running.kind];
  return ([told, now].filter(Boolean).join(" · ") || "At work") + time;
}

/** Return the tries of a turn, each with a bar for every step. */
function waterfall(tries) {
  return tries.flatMap(({ fence, steps, dropped }) => {
    const start = steps[0].at;
    const whole = Math.max(1, ...steps.map(({ at, ms }) => at + (ms ?? 0) - start));
    const depths = new Map();
    const rows = steps.map((step) => {
      depths.set(step.id, (depths.get(step.parent) ?? -1) + 1);
      const bar = element("i", { class: `span ${step.kind}${step.error ? " bad" : ""}${step.ms == null ? " running" : ""}` });
      bar.style.insetInlineStart = `${((step.at - start) / whole) * 100}%`;
      bar.style.width = `${((step.ms ?? whole - (step.at - start)) / whole) * 100}%`;
      const name = element("span", { class: "step" }, element("span", { class: "kind" }, step.kind), ` ${step.name}`);
      name.style.paddingInlineStart = `${depths.get(step.id) * 0.7}rem`;
      const cells = [name, element("span", { class: "track" }, bar), element("small", {}, step.ms == null ? "…" : duration(step.ms))];
      const told = step.kind === "model" || step.error ? [element("small", {}, numbers(step))] : [];
      return row("", cells, [...told, ...values(step)]);
    });
    const more = dropped ? [element("li", { class: "empty" }, `${dropped} further steps were not recorded.`)] : [];
    return [element("h3", {}, `Lease ${fence}`), element("ol", { class: "waterfall" }, ...rows, ...more)];
  });
}

function numbers({ kind, ms, first_ms: first, input_tokens: read, output_tokens: written, error }) {
  if (!CALLS.has(kind) && kind !== "node" && kind !== "agent") return "";
  const tokens = read == null && written == null ? "" : `${read ?? 0} → ${written ?? 0} tokens`;
  return [error && error !== "_OTHER" ? `✗ ${error}` : error && "✗", ms == null ? "…" : duration(ms), first != null && `first chunk ${duration(first)}`, tokens].filter(Boolean).join(" · ");
}

const time = (ms) => new Date(ms).toTimeString().slice(0, 8);
const duration = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);
const short = (text) => (text.length > WIDEST ? `${text.slice(0, WIDEST)}…` : text);

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Replace the children of an element by newer ones in the same order. What is open there stays open, and keeps the focus. */
function renew(parent, ...nodes) {
  const rows = () => [...parent.querySelectorAll("li")];
  const before = rows().map((row) => row.querySelector(":scope > details")?.open);
  const at = [];
  for (let node = document.activeElement; node !== parent && parent.contains(node); node = node.parentElement) at.unshift([...node.parentElement.children].indexOf(node));
  parent.replaceChildren(...nodes);
  rows().forEach((row, place) => before[place] && row.firstElementChild.setAttribute("open", ""));
  if (at.length) at.reduce((node, place) => node?.children[place], parent)?.focus({ preventScroll: true });
}
