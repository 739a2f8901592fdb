// Webhook receiver for push notifications: verifies each signature and handles each event once.
//
//   npm ci
//   WEBHOOK_TOKEN=whsec_… npm start

import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo } from "node:net";
import { Webhook } from "standardwebhooks";

const MOST_BYTES = 6 * 1024 * 1024;

const token = process.env.WEBHOOK_TOKEN;
if (!token) {
  console.error("WEBHOOK_TOKEN is missing: the token of the push config.");
  process.exit(1);
}
// Use a token without the prefix `whsec_` as the key itself, without decoding it.
const webhook = token.startsWith("whsec_") ? new Webhook(token) : new Webhook(Buffer.from(token), { format: "raw" });
const handled = new Set<string>(); // a real receiver stores an id and the effect of its event in one transaction

/** Event of A2A 1.0 (one of three updates, or a task), or the task of A2A 0.3. */
type Update = { taskId?: string; id?: string; status?: { state: string } };

/** Print the event's task id and state. */
function handle(event: Record<string, Update>): void {
  const update = (Object.keys(event).length === 1 ? Object.values(event)[0] : event) as Update;
  console.log(update.taskId ?? update.id, update.status?.state ?? "an artifact, or a message");
}

/** Verify an event, handle it unless it is a repeat, and return the HTTP status. */
function receive(headers: Record<string, string>, body: Buffer): number {
  let event: unknown;
  try {
    event = webhook.verify(body, headers);
  } catch {
    return 401; // send no reason, because a reason could help a forger
  }
  // Compare ids, not sequence numbers, because the server may send an abandoned event again after later events.
  const id = headers["webhook-id"];
  if (!handled.has(id)) {
    handle(event as Record<string, Update>);
    handled.add(id);
  }
  return 204; // acknowledge a repeated event too: otherwise the server would send it again
}

/** Return the body of a request, or undefined if it is too large or has no stated length. */
async function bodyOf(request: IncomingMessage): Promise<Buffer | undefined> {
  if (Number(request.headers["content-length"] ?? Infinity) > MOST_BYTES) return undefined;
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks);
}

const server = createServer(async (request, response) => {
  const body = await bodyOf(request);
  const status = body ? receive(request.headers as Record<string, string>, body) : 413;
  response.writeHead(status).end();
});
server.listen(Number(process.env.PORT ?? 9000), "127.0.0.1", () => {
  console.log(JSON.stringify({ listening: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` }));
});
