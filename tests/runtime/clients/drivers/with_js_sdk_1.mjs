// The official client @a2a-js/sdk 1, in a program that shows the artifacts and messages of a task.

import { SendMessageRequest, StreamResponse, Task } from "@a2a-js/sdk";
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
    const result = await (await this.client).sendMessage(this.request(text, taskId));
    if (!result.status) return words(result);
    const task = Task.toJSON(result);
    this.remember({ ...task, taskId: task.id });
    return whole(task);
  }

  async stream_to(taskId, text) {
    const screen = new Screen();
    for await (const response of (await this.client).sendMessageStream(this.request(text, taskId))) {
      const { message, statusUpdate, artifactUpdate } = StreamResponse.toJSON(response);
      const said = message ?? statusUpdate?.status.message;
      if (artifactUpdate) screen.add(artifactUpdate.artifact.artifactId, words(artifactUpdate.artifact), artifactUpdate);
      if (said) screen.add(said.messageId, words(said));
      if (statusUpdate) this.remember(statusUpdate);
    }
    return String(screen);
  }

  async get(id) {
    return whole(Task.toJSON(await (await this.client).getTask({ tenant: "", id })));
  }

  request(text, taskId) {
    const ids = { messageId: crypto.randomUUID(), contextId: this.contextId, taskId };
    return SendMessageRequest.fromJSON({ message: { role: "ROLE_USER", parts: [{ text }], ...ids } });
  }

  remember({ contextId, taskId, status }) {
    this.contextId = contextId;
    this.asking = status.state === "TASK_STATE_INPUT_REQUIRED" ? taskId : undefined;
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
