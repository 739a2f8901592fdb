// Timeline: every message in both directions, chunks in groups, each as raw JSON and as code to copy.

import { copying } from "./nodes.js";
import { element } from "./render.js";
import { hasEnded, short } from "./wire.js";

export class Timeline {
  #list;
  #group; // the open group of chunks
  #lease = {}; // the lease of the last chunk, the event that it follows, and its id

  constructor(list) {
    this.#list = list;
  }

  clear() {
    this.#list.replaceChildren();
    this.#group = undefined;
  }

  /** Begin the entries of another agent. */
  divide(name) {
    if (this.#list.children.length) this.note(`Agent: ${name}`, "divide");
  }

  /** Add a message of `Wire.record`. */
  add({ direction, id = "", body, ...request }) {
    const chunk = direction === "in" && body.result?.artifactUpdate;
    const [, generation, fence] = /^(\d+)\.(\d+)\.\d+$/.exec(id) ?? [];
    if (chunk && generation && this.#group?.key === `${generation}.${fence}`) {
      this.#group.bodies.push(body);
      this.#group.details.querySelector(":scope[open] > pre")?.append(`\n${JSON.stringify(body, null, 2)}`);
      this.#group.count.textContent = ` ${this.#group.bodies.length} chunks of lease ${fence}, ${this.#group.first} to ${id}`;
      this.#lease.id = id;
      return;
    }
    if (chunk && generation) {
      if (this.#lease.generation === generation && this.#lease.fence !== fence) {
        this.note(`Takeover: lease ${this.#lease.fence} ended after chunk ${this.#lease.id}. Another worker has lease ${fence} and goes on with chunk ${id}.`, "note");
      }
      this.#lease = { generation, fence, id };
    } else if (direction === "in" && !chunk) this.#lease = {};
    const bodies = [body];
    const count = element("span", { class: "id" }, id ? ` ${id}` : "");
    const summary = element("summary", {}, clock(), " ", direction === "out" ? "→ " : "← ", title(direction, body), count);
    const details = element("details", {}, summary);
    details.addEventListener("toggle", () => {
      if (details.open) details.replaceChildren(summary, ...contents(bodies, request));
    });
    const row = element("li", { class: kind(direction, body) }, details);
    this.#group = chunk && generation ? { key: `${generation}.${fence}`, bodies, count, details, first: id } : undefined;
    this.#append(row);
  }

  /** Add a remark of the console, such as a lost connection. */
  note(text, kind = "bad") {
    this.#group = undefined;
    this.#append(element("li", { class: kind }, clock(), ` ${text}`));
  }

  #append(row) {
    const follows = this.#list.parentElement.scrollTop + this.#list.parentElement.clientHeight > this.#list.parentElement.scrollHeight - 40;
    this.#list.append(row);
    if (follows) row.scrollIntoView({ block: "nearest" });
  }
}

/** Return the clock time of an instant in ISO 8601. */
export const time = (text) => element("time", { datetime: text }, text.slice(11, 23));

const clock = () => time(new Date().toISOString());

function title(direction, body) {
  if (direction === "out") return body.method;
  if (body.error) return `error ${body.error.code}: ${body.error.message}`;
  return body.result?.status ? `task ${short(body.result.status.state)}` : eventTitle(body.result ?? {});
}

/** Return the title of a streamed or posted event. */
export function eventTitle({ task, statusUpdate, artifactUpdate, message }) {
  if (statusUpdate) return `status ${short(statusUpdate.status.state)}`;
  if (artifactUpdate) return `artifact ${artifactUpdate.artifact.name || artifactUpdate.artifact.artifactId}`;
  return task ? `task ${short(task.status.state)}` : message ? "message" : "result";
}

function kind(direction, body) {
  if (direction === "out") return "out";
  const state = (body.result?.statusUpdate ?? body.result?.task)?.status?.state;
  return body.error || state === "TASK_STATE_FAILED" ? "bad" : hasEnded(state) ? "end" : "in";
}

function contents(bodies, { url, headers, secret }) {
  const raw = element("pre", { tabindex: "0" }, bodies.map((each) => JSON.stringify(each, null, 2)).join("\n"));
  if (!url) return [raw];
  const [body] = bodies;
  const languages = Object.entries({ curl, Python: python, TypeScript: typescript });
  const buttons = languages.map(([name, write]) => copying(() => write(url, { "A2A-Version": "1.0", ...headers }, body, secret), `Copy as ${name}`));
  return [element("div", { class: "bar" }, ...buttons), raw];
}

const isStream = (body) => body.method === "SendStreamingMessage" || body.method === "SubscribeToTask";

// A copied request reads the value of the header `secret` from AION_KEY: a credential does not belong into files and chats.
const VARIABLE = "AION_KEY";
const remark = (start, secret) => (secret ? `${start} Needs the value of the header ${secret} in the environment variable ${VARIABLE}.\n` : "");

function curl(url, headers, body, secret) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const lines = Object.entries({ "Content-Type": "application/json", ...headers }).map(([name, value]) => `  -H ${quoted(`${name}: ${value}`)} \\`);
  if (secret) lines.push(`  -H ${quoted(`${secret}: `)}"$${VARIABLE}" \\`);
  return [`${remark("#", secret)}curl -s${isStream(body) ? "N" : ""} ${quoted(url)} \\`, ...lines, `  -d ${quoted(JSON.stringify(body))}\n`].join("\n");
}

function python(url, headers, body, secret) {
  const key = secret ? `headers[${JSON.stringify(secret)}] = os.environ["${VARIABLE}"]\n` : "";
  const start = `${remark("#", secret)}import json\n${secret ? "import os\n" : ""}\nimport httpx\n\nbody = json.loads(${JSON.stringify(JSON.stringify(body))})\nheaders = ${JSON.stringify(headers)}\n${key}`;
  if (!isStream(body)) return `${start}print(httpx.post(${JSON.stringify(url)}, json=body, headers=headers, timeout=60).json())\n`;
  return `${start}with httpx.stream("POST", ${JSON.stringify(url)}, json=body, headers=headers, timeout=None) as response:\n    for line in response.iter_lines():\n        print(line)\n`;
}

function typescript(url, headers, body, secret) {
  const key = secret ? `, ${JSON.stringify(secret)}: process.env.${VARIABLE} ?? ""` : "";
  const sent = JSON.stringify({ "Content-Type": "application/json", ...headers }).slice(0, -1);
  return `${remark("//", secret)}const response = await fetch(${JSON.stringify(url)}, {\n  method: "POST",\n  headers: ${sent}${key}},\n  body: JSON.stringify(${JSON.stringify(body)}),\n});\nconsole.log(await response.text());\n`;
}
