// A2A over JSON-RPC for the console: requests, streams that resume, and a record of every message in both directions.

const ENDED = new Set(["COMPLETED", "FAILED", "CANCELED", "REJECTED"].map((each) => `TASK_STATE_${each}`));
const INTERRUPTED = new Set(["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"]);
export const METHOD_NOT_FOUND = -32601; // JSON-RPC 2.0, section 5.1
const ATTEMPTS = 60; // one each second: longer than a lease, so that another worker can take over

export const hasEnded = (state) => ENDED.has(state);
/** A state as in the texts of the console. */
export const short = (state) => String(state).replace("TASK_STATE_", "").toLowerCase().replaceAll("_", " ");
/** Metadata key of a message that answers a request for a credential. */
export const CREDENTIAL = "console.credential";
/** Return the parts of a message to show. A credential is hidden, and so is the schema of a question: it becomes a form. */
export const visible = ({ parts = [], metadata } = {}) => (metadata?.[CREDENTIAL] ? [{ text: "••••" }] : metadata?.interrupts ? parts.flatMap(withoutSchema) : parts);
export const isInterrupted = (state) => INTERRUPTED.has(state);
export const isRunning = (state) => !hasEnded(state) && !isInterrupted(state);
export const firstText = (parts) => parts.map(({ text }) => text ?? "").find(Boolean) ?? "";

const SCHEMAS = new Set(["response_schema", "responseSchema", "schema"]);

function withoutSchema(part) {
  if (Object.prototype.toString.call(part.data) !== "[object Object]") return [part];
  const left = Object.entries(part.data).filter(([key, value]) => !SCHEMAS.has(key) || typeof value !== "object");
  return left.length ? [{ ...part, data: Object.fromEntries(left) }] : [];
}

/** Error response of the server, with its JSON-RPC code or HTTP status. */
export class ServerError extends Error {
  constructor(code, message) {
    super(`${message} (${code})`);
    this.code = code;
  }
}

/** Fetch a URL. Throws an Error that names the cause if no answer comes. */
async function reach(url, init) {
  try {
    return await fetch(url, init);
  } catch (error) {
    throw init.signal?.aborted ? error : new Error(`The server cannot be reached (${error.message}).`);
  }
}

/**
 * Client of one agent. `record` gets {direction, id, body} of each received message, and {direction, body, url, headers, secret}
 * of each request; `secret` is the name of the header with the credential. `extensions` are the URIs that the card requires.
 */
export class Wire {
  constructor(url, { headers, record, extensions = [] }) {
    Object.assign(this, { url, headers, record, extensions });
  }

  /** Call a method and return its result. */
  async call(method, params) {
    const response = await this.#post(method, params);
    const body = await response.json().catch(() => ({ error: { code: response.status, message: response.statusText } }));
    this.record({ direction: "in", body });
    return result(body, response);
  }

  /**
   * Return {history, artifacts, status} of a context, oldest first. A server without GetContext is asked for its tasks. If it cannot
   * list them either, the result `isPart`: it has only the `known` task, if there is one.
   */
  async conversation(contextId, known) {
    const unless = (isKnown) => (error) => {
      if (error.code !== METHOD_NOT_FOUND || !isKnown) throw error;
    };
    const whole = await this.call("GetContext", { contextId }).catch(unless(true));
    if (whole) return whole;
    const listed = await this.call("ListTasks", { contextId, pageSize: 100, includeArtifacts: true }).catch(unless(known));
    const { tasks = [] } = listed ?? { tasks: [await this.call("GetTask", { id: known })] };
    const messages = ({ id, history = [], status }) => [...history, status.message].filter(Boolean).map((each) => ({ ...each, taskId: id }));
    return { history: tasks.toReversed().flatMap(messages), artifacts: tasks.toReversed().flatMap(({ artifacts = [] }) => artifacts), status: tasks[0]?.status, isPart: !listed };
  }

  /** Make a request of the console itself: GET, or POST with a body. The timeline does not show it. */
  async own(name, params, body) {
    const response = await reach(`${this.url}/console/${name}?${new URLSearchParams(params)}`, {
      method: body ? "POST" : "GET",
      headers: { "Content-Type": "application/json", ...this.headers() },
      body: body && JSON.stringify(body),
    });
    const read = await response.json().catch(() => ({}));
    if (!response.ok) read.error ??= read.message ?? `HTTP status ${response.status}`;
    if (read?.error) throw Object.assign(new Error(read.error.message ?? read.error), { code: response.status });
    return read;
  }

  /**
   * Call a streaming method and yield its events as {id, ...result}. After a lost connection, continue after the last event.
   * `connection()` gets an AbortController for each connection; aborting it drops the connection only. `signal` ends the stream.
   * A message for a task is sent again until its first event has arrived: the server may not have received it.
   */
  async *converse(method, params, { connection, lost, signal }) {
    let [cursor, task, failures, isReceived] = [undefined, params.message?.taskId ?? params.id, 0, false];
    for (;;) {
      const controller = new AbortController();
      connection(controller);
      let closed = false;
      try {
        for await (const event of this.#stream(method, params, cursor, AbortSignal.any([controller.signal, signal]))) {
          if (signal.aborted) return;
          failures = 0;
          isReceived = true;
          cursor = event.id ?? cursor;
          task = event.task?.id ?? event.statusUpdate?.taskId ?? task;
          yield event;
          const state = (event.statusUpdate ?? event.task)?.status?.state;
          if (event.message || hasEnded(state) || (isInterrupted(state) && (event.statusUpdate || method !== "SendStreamingMessage"))) return;
        }
        closed = true;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof ServerError || !task || (failures += 1) > ATTEMPTS) throw error;
      }
      if (closed && !task) return;
      lost(cursor, closed, isReceived);
      await new Promise((resolve) => setTimeout(resolve, 1000));
      if (signal.aborted) return;
      if (isReceived) [method, params] = ["SubscribeToTask", { id: task }];
    }
  }

  async *#stream(method, params, cursor, signal) {
    const response = await this.#post(method, params, { ...(cursor && { "Last-Event-ID": cursor }) }, signal);
    if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) {
      const body = await response.json().catch(() => ({}));
      this.record({ direction: "in", body });
      yield result(body, response);
      return;
    }
    for await (const { id, data } of frames(response.body)) {
      const body = JSON.parse(data);
      this.record({ direction: "in", id, body });
      yield { id, ...result(body, response) };
    }
  }

  #post(method, params, headers = {}, signal = undefined) {
    const body = { jsonrpc: "2.0", id: crypto.randomUUID(), method, params };
    if (this.extensions.length) headers = { "A2A-Extensions": this.extensions.join(), ...headers };
    this.record({ direction: "out", body, url: this.url, headers, secret: Object.keys(this.headers())[0] });
    return reach(this.url, {
      method: "POST",
      headers: { "Content-Type": "application/json", "A2A-Version": "1.0", ...this.headers(), ...headers },
      body: JSON.stringify(body),
      signal,
    });
  }
}

function result(body, response) {
  if (body.error) throw new ServerError(body.error.code ?? response.status, body.error.message ?? "The request failed.");
  // A gateway before the server answers in its own form.
  if (body.result === undefined) throw new ServerError(response.status, body.message ?? "The answer is not JSON-RPC.");
  return body.result;
}

/** Yield {id, data} of each Server-Sent Event. */
async function* frames(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      const blocks = (rest + read.value).replaceAll("\r\n", "\n").split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const fields = { id: undefined, data: [] };
        for (const line of block.split("\n")) {
          if (line.startsWith("id:")) fields.id = line.slice(3).trim();
          if (line.startsWith("data:")) fields.data.push(line.slice(5).trimStart());
        }
        if (fields.data.length) yield { id: fields.id, data: fields.data.join("\n") };
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
