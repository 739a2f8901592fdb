// The official client @a2a-js/sdk 0.3, in a program that shows the artifacts and messages of a task.

import { ClientFactory } from "@a2a-js/sdk/client";

import { Screen, play } from "./play.mjs";

class Conversation {
  constructor(url) {
    this.client = new ClientFactory().createFromUrl(url);
  }

  send(text) {
    return this.send_to(this.asking, text);
  }

  stream(text) {
    return this.stream_to(this.asking, text);
  }

  async send_to(taskId, text) {
    const result = await (await this.client).sendMessage(this.params(text, taskId));
    if (result.kind === "message") return words(result);
    this.remember({ ...result, taskId: result.id });
    return whole(result);
  }

  async stream_to(taskId, text) {
    const screen = new Screen();
    for await (const event of (await this.client).sendMessageStream(this.params(text, taskId))) {
      const said = event.kind === "message" ? event : event.kind === "status-update" && event.status.message;
      if (event.kind === "artifact-update") screen.add(event.artifact.artifactId, words(event.artifact), event);
      if (said) screen.add(said.messageId, words(said));
      if (event.kind === "status-update") this.remember(event);
    }
    return String(screen);
  }

  async get(id) {
    return whole(await (await this.client).getTask({ id }));
  }

  params(text, taskId) {
    const ids = { messageId: crypto.randomUUID(), contextId: this.contextId, taskId };
    return { message: { kind: "message", role: "user", parts: [{ kind: "text", text }], ...ids } };
  }

  remember({ contextId, taskId, status }) {
    this.contextId = contextId;
    this.asking = status.state === "input-required" ? taskId : undefined;
  }
}

function whole({ artifacts = [], status }) {
  const screen = new Screen();
  for (const artifact of artifacts) screen.add(artifact.artifactId, words(artifact));
  if (status.message) screen.add(status.message.messageId, words(status.message));
  return String(screen);
}

function words({ parts }) {
  return parts.map((part) => part.text ?? "").join("");
}

await play(Conversation);
