// Drives a server by the official JavaScript client of A2A 0.3, on both bindings: `node steps.mjs <server's URL>`.
// It prints {client, step, heard} or {client, step, error} for each step; see tests/runtime/e2e/test_old_js_client.py.

import { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory, RestTransportFactory } from "@a2a-js/sdk/client";

const [url] = process.argv.slice(2);

function message(text, given = {}) {
  const parts = [{ kind: "text", text }];
  return { message: { kind: "message", messageId: crypto.randomUUID(), role: "user", parts, ...given } };
}

async function all(stream) {
  const heard = [];
  for await (const event of stream) heard.push(event);
  return heard;
}

const STEPS = {
  send: (client) => client.sendMessage(message("hello")),
  stream: (client) => all(client.sendMessageStream(message("one two three"))),
  refusedStream: (client) => all(client.sendMessageStream(message("hello", { taskId: "unknown" }))),
  refusedSubscription: (client) => all(client.resubscribeTask({ id: "unknown" })),
  async getTask(client) {
    const file = { kind: "file", file: { bytes: "AP8=", mimeType: "application/octet-stream" } };
    const task = await client.sendMessage(message("", { parts: [{ kind: "text", text: "read me" }, file] }));
    return client.getTask({ id: task.id });
  },
  async webhook(client) {
    const task = await client.sendMessage(message("call me"));
    const pushNotificationConfig = { id: "mine", url: "http://127.0.0.1:9/", token: "t" };
    await client.setTaskPushNotificationConfig({ taskId: task.id, pushNotificationConfig });
    return client.listTaskPushNotificationConfig({ id: task.id });
  },
  async cancelOfAnEndedTask(client) {
    const task = await client.sendMessage(message("done"));
    return client.cancelTask({ id: task.id });
  },
};

for (const [name, transport] of [["JSONRPC", new JsonRpcTransportFactory()], ["HTTP+JSON", new RestTransportFactory()]]) {
  const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { preferredTransports: [name] });
  const client = await new ClientFactory({ ...options, transports: [transport] }).createFromUrl(url);
  for (const [step, run] of Object.entries(STEPS)) {
    const line = { client: name, step };
    try {
      console.log(JSON.stringify({ ...line, heard: await run(client) }));
    } catch (error) {
      console.log(JSON.stringify({ ...line, error: `${error.constructor.name}: ${error.message}` }));
    }
  }
}
