// Drives a server by the official JavaScript client, in each version and binding that the server's card offers.
// It reports the result of each step as {client, step, heard}, or {client, step, error} with the error's class names.
// It runs in Node (node.mjs) and in a browser (page.html); see tests/runtime/e2e/test_js_client.py.

import { AgentCard, Role, StreamResponse, Task, TaskState, ListTasksResponse } from "@a2a-js/sdk";
import {
  ClientFactory,
  ClientFactoryOptions,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from "@a2a-js/sdk/client";

const legacyCompat = { enabled: true };
const factoryWith = (fetchImpl) =>
  new ClientFactory(
    ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
      transports: [
        new JsonRpcTransportFactory({ legacyCompat, fetchImpl }),
        new RestTransportFactory({ legacyCompat, fetchImpl }),
      ],
      cardResolver: new DefaultAgentCardResolver({ legacyCompat, fetchImpl }),
    }),
  );
const factory = factoryWith();
const ENDED = [TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_CANCELED];

function text(value) {
  return { content: { $case: "text", value }, metadata: undefined, filename: "", mediaType: "" };
}

function message(parts, given = {}) {
  return {
    tenant: "",
    message: {
      messageId: crypto.randomUUID(),
      contextId: "",
      taskId: "",
      role: Role.ROLE_USER,
      parts,
      metadata: undefined,
      extensions: [],
      referenceTaskIds: [],
      ...given,
    },
    configuration: undefined,
    metadata: undefined,
  };
}

function atOnce(parts) {
  const configuration = { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately: true };
  return { ...message(parts), configuration };
}

async function all(stream) {
  const heard = [];
  for await (const response of stream) heard.push(StreamResponse.toJSON(response));
  return heard;
}

async function whenEnded(client, id) {
  for (let tries = 0; tries < 2400; tries++) {
    const task = await client.getTask({ tenant: "", id });
    if (ENDED.includes(task.status.state)) return task;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`task ${id} does not end`);
}

// Starts a task and calls `use` while the task runs. If the task ends before, it is sent again with a longer text.
async function whileItRuns(client, long, times, use) {
  for (; times <= 48; times *= 2) {
    const { id } = await client.sendMessage(atOnce([text(long.repeat(times))]));
    try {
      const used = await use(id);
      if (used) return { used, times, id };
    } catch (error) {
      const { status } = await client.getTask({ tenant: "", id });
      if (!ENDED.includes(status.state)) throw error;
    }
  }
  throw new Error("each task had ended before its use");
}

const steps = (long) => ({
  async send(client) {
    const file = { content: { $case: "raw", value: Buffer.from([0, 1, 2]) }, filename: "three.bin", mediaType: "application/octet-stream", metadata: undefined };
    const data = { content: { $case: "data", value: { n: [1, 2.5, null] } }, filename: "", mediaType: "", metadata: undefined };
    const sent = await client.sendMessage(message([text("Hello, \u{1F600} \u202eשלום"), file, data]));
    const stored = await client.getTask({ tenant: "", id: sent.id });
    const short = await client.getTask({ tenant: "", id: sent.id, historyLength: 0 });
    return { sent: Task.toJSON(sent), stored: Task.toJSON(stored), short: Task.toJSON(short) };
  },
  async sendAtOnce(client) {
    const sent = await client.sendMessage(atOnce([text("Hello again")]));
    return { sent: Task.toJSON(sent), ended: Task.toJSON(await whenEnded(client, sent.id)) };
  },
  async stream(client) {
    return all(client.sendMessageStream(message([text("one two \u{1F600} four")])));
  },
  async resubscribe(client) {
    const { used, times, id } = await whileItRuns(client, long, 1, async (id) => {
      const heard = await all(client.resubscribeTask({ tenant: "", id }));
      // Without an artifact update, the whole text was streamed before this subscription.
      return heard.some(({ artifactUpdate }) => artifactUpdate) && heard;
    });
    return { heard: used, times, ended: Task.toJSON(await whenEnded(client, id)) };
  },
  async subscribeToAnEndedTask(client) {
    const sent = await client.sendMessage(message([text("done")]));
    return all(client.resubscribeTask({ tenant: "", id: sent.id }));
  },
  async cancel(client) {
    const { used, id } = await whileItRuns(client, long, 6, (id) => client.cancelTask({ tenant: "", id, metadata: undefined }));
    const stored = await client.getTask({ tenant: "", id });
    return { canceled: Task.toJSON(used), stored: Task.toJSON(stored) };
  },
  async cancelAnEndedTask(client) {
    const sent = await client.sendMessage(message([text("done")]));
    return client.cancelTask({ tenant: "", id: sent.id, metadata: undefined });
  },
  async list(client) {
    const contextId = crypto.randomUUID();
    const ids = [];
    for (const word of ["first", "second", "third"]) {
      ids.unshift((await client.sendMessage(message([text(word)], { contextId }))).id);
    }
    const asked = { tenant: "", contextId, status: TaskState.TASK_STATE_COMPLETED, pageSize: 2, pageToken: "" };
    const page = await client.listTasks(asked);
    const rest = await client.listTasks({ ...asked, pageToken: page.nextPageToken });
    return { ids, page: ListTasksResponse.toJSON(page), rest: ListTasksResponse.toJSON(rest) };
  },
  async unknownTask(client) {
    return client.getTask({ tenant: "", id: crypto.randomUUID() });
  },
  async messageToAnEndedTask(client) {
    const sent = await client.sendMessage(message([text("done")]));
    return client.sendMessage(message([text("more")], { taskId: sent.id, contextId: sent.contextId }));
  },
  async messageWithoutParts(client) {
    return client.sendMessage(message([]));
  },
  async pushConfigs(client) {
    const inline = { acceptedOutputModes: [], taskPushNotificationConfig: pushConfig("p", ""), returnImmediately: false };
    const sent = await client.sendMessage({ ...message([text("tell me")]), configuration: inline });
    const created = await client.createTaskPushNotificationConfig(pushConfig("q", sent.id));
    const read = await client.getTaskPushNotificationConfig({ tenant: "", taskId: sent.id, id: "q" });
    const asked = { tenant: "", taskId: sent.id, pageSize: 10, pageToken: "" };
    const both = await client.listTaskPushNotificationConfig(asked);
    await client.deleteTaskPushNotificationConfig({ tenant: "", taskId: sent.id, id: "q" });
    await client.deleteTaskPushNotificationConfig({ tenant: "", taskId: sent.id, id: "q" });
    const left = await client.listTaskPushNotificationConfig(asked);
    const ids = (listed) => (listed.configs ?? listed).map((config) => config.id);
    return { task: sent.id, created, read, both: ids(both), left: ids(left) };
  },
  async pushConfigOfAnUnknownTask(client) {
    return client.createTaskPushNotificationConfig(pushConfig("p", crypto.randomUUID()));
  },
  async pushConfigThatIsNotThere(client) {
    const sent = await client.sendMessage(message([text("done")]));
    return client.getTaskPushNotificationConfig({ tenant: "", taskId: sent.id, id: "p" });
  },
  async pushConfigOfThePrivateNetwork(client) {
    const sent = await client.sendMessage(message([text("done")]));
    return client.createTaskPushNotificationConfig({ ...pushConfig("p", sent.id), url: "https://10.0.0.1/hook" });
  },
  async extendedCard(client) {
    return client.transport.getExtendedAgentCard({ tenant: "" }, spoken(client));
  },
  async cardOrExtendedCard(client) {
    return AgentCard.toJSON(await client.getAgentCard());
  },
});

function pushConfig(id, taskId) {
  // Nobody listens at this address.
  const authentication = { scheme: "Bearer", credentials: "secret" };
  return { tenant: "", id, taskId, url: "http://127.0.0.1:9/hook", token: "token", authentication };
}

// Returns what `Client` adds to a call. Steps call the transport where `Client` refuses what the card does not offer.
function spoken(client) {
  return { serviceParameters: { "A2A-Version": client.protocolVersion } };
}

function named(error) {
  const names = [];
  for (let of = Object.getPrototypeOf(error); of && of !== Object.prototype; of = Object.getPrototypeOf(of)) {
    names.push(of.constructor.name);
  }
  const { statusCode, code } = error;
  return { names: [error.name, ...names], message: error.message, statusCode, code };
}

async function run(client, name, steps, report) {
  const line = { client: name };
  for (const [stepName, step] of Object.entries(steps)) {
    try {
      report({ ...line, step: stepName, heard: (await step(client)) ?? null });
    } catch (error) {
      report({ ...line, step: stepName, error: named(error) });
    }
  }
}

// Reports the results of all steps of all clients of the server at the URL. `long` is a text that takes long to stream.
export async function drive(url, long, report) {
  const answer = await fetch(`${url}/.well-known/agent-card.json`);
  const asServed = await answer.json();
  const chosen = await factory.createFromUrl(url);
  const fromLegacyCard = { ...asServed };
  delete fromLegacyCard.supportedInterfaces;
  const legacy = await factory.createFromAgentCard(fromLegacyCard);
  for (const [name, client] of [["by its card", chosen], ["by its card's v0.3 part", legacy]]) {
    const heard = { binding: client.transport.protocolName, version: client.protocolVersion };
    report({ client: name, step: "choose", heard });
    await run(client, name, { send: steps(long).send }, report);
  }
  const card = await new DefaultAgentCardResolver({ legacyCompat }).resolve(url);
  await Promise.all(
    card.supportedInterfaces.map(async (only) => {
      const client = await factory.createFromAgentCard({ ...card, supportedInterfaces: [only] });
      await run(client, `${only.protocolBinding} ${only.protocolVersion}`, steps(long), report);
    }),
  );
}

// Sends and streams a text with credentials, which `fetchImpl` adds, then sends it without. Returns each step's result.
export async function talk(url, value, fetchImpl) {
  const client = await factoryWith(fetchImpl).createFromUrl(url);
  const sent = Task.toJSON(await client.sendMessage(message([text(value)])));
  const streamed = await all(client.sendMessageStream(message([text(value)])));
  const stranger = await factory.createFromUrl(url);
  const refused = await stranger.sendMessage(message([text(value)])).catch(named);
  return { sent, streamed, refused };
}
