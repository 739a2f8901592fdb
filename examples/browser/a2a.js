// A2A client for web pages: JSON-RPC with fetch, and streams as Server-Sent Events. It needs no build and no package.

const INTERRUPTED = ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"];
const TERMINAL = ["TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"];
const MAX_FAILURES = 5; // failed attempts in a row

/** Error response of an agent. `code` is the JSON-RPC error code or the HTTP status. */
export class A2AError extends Error {
  constructor({ code, message }, response) {
    super(message);
    this.name = "A2AError";
    this.code = code;
    this.status = response.status;
    this.retryAfter = response.headers.get("Retry-After");
  }
}

export class A2AClient {
  /** Take an agent card, and headers for each request, such as {"X-API-Key": "…"}. */
  constructor(card, headers = {}) {
    const found = card.supportedInterfaces.find(
      (each) => each.protocolBinding === "JSONRPC" && each.protocolVersion.startsWith("1."),
    );
    if (!found) throw new Error(`${card.name} has no JSON-RPC interface of A2A 1.0.`);
    this.card = card;
    this.url = found.url;
    this.headers = headers;
  }

  /** Read the card of the agent at the URL, and return a client. */
  static async connect(url, headers = {}) {
    const response = await fetch(`${url.replace(/\/$/, "")}/.well-known/agent-card.json`);
    if (!response.ok) throw new Error(`The agent card at ${url} cannot be read: HTTP ${response.status}.`);
    return new A2AClient(await response.json(), headers);
  }

  /** Call a method, such as GetTask or CancelTask, and return its result. */
  async call(method, params) {
    const response = await this.#post(method, params);
    return (await response.json()).result;
  }

  /** Send a text. Yield the events of its task. After a lost connection, wait `retryMs` and continue after the last event. */
  async *send(text, { contextId, taskId, signal, retryMs = 1000 } = {}) {
    const message = { messageId: crypto.randomUUID(), role: "ROLE_USER", parts: [{ text }], contextId, taskId };
    let events = this.stream("SendStreamingMessage", { message }, { signal });
    let task = taskId;
    let lastEventId;
    let failures = 0;
    for (;;) {
      try {
        for await (const event of events) {
          failures = 0;
          lastEventId = event.id ?? lastEventId;
          task = event.task?.id ?? event.statusUpdate?.taskId ?? task;
          yield event;
          if (event.message || hasEnded(event.statusUpdate?.status ?? event.task?.status)) return;
        }
      } catch (error) {
        if (error instanceof A2AError || signal?.aborted || !lastEventId || ++failures === MAX_FAILURES) throw error;
      }
      if (!task) return;
      await new Promise((resolve) => setTimeout(resolve, retryMs));
      events = this.stream("SubscribeToTask", { id: task }, { lastEventId, signal });
    }
  }

  /** Call a streaming method. Yield its events; `id` is the event's id for `lastEventId` of a later SubscribeToTask. */
  async *stream(method, params, { lastEventId, signal } = {}) {
    const resume = lastEventId ? { "Last-Event-ID": lastEventId } : {};
    const response = await this.#post(method, params, { Accept: "text/event-stream", ...resume }, signal);
    for await (const { id, data } of serverSentEvents(response.body)) {
      const { result, error } = JSON.parse(data);
      if (error) throw new A2AError(error, response);
      yield { id, ...result };
    }
  }

  async #post(method, params, headers = {}, signal = undefined) {
    const response = await fetch(this.url, {
      method: "POST",
      headers: { "Content-Type": "application/json", "A2A-Version": "1.0", ...this.headers, ...headers },
      body: JSON.stringify({ jsonrpc: "2.0", id: crypto.randomUUID(), method, params }),
      signal,
    });
    if (response.headers.get("Content-Type")?.startsWith("text/event-stream")) return response;
    const { error } = await response.clone().json();
    if (error) throw new A2AError(error, response);
    return response;
  }
}

function hasEnded(status) {
  return TERMINAL.includes(status?.state) || INTERRUPTED.includes(status?.state);
}

/** Yield the events of a response body in the format of Server-Sent Events. Comments keep the connection open. */
export async function* serverSentEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let id;
  let data = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (text + value).split(/\r\n|\n|\r(?!$)/);
      text = lines.pop();
      for (const line of lines) {
        const [, field, content] = /^([^:]*):? ?(.*)$/s.exec(line);
        if (field === "id") id = content;
        if (field === "data") data.push(content);
        if (line === "" && data.length) {
          yield { id, data: data.join("\n") };
          data = [];
        }
      }
    }
  } finally {
    // Close the connection, so that the server stops sending. The task continues.
    await reader.cancel().catch(() => {});
  }
}
