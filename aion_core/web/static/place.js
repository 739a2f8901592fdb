// Address of the page: the agent is its path, the context and its newest task are its fragment.

/** URL of the server's root, behind whatever path a proxy or an API's stage puts before it. */
export const root = new URL("..", import.meta.url);

/** The agent of the page at the server's root. */
export const home = { agent: "" };

/** Return the agent's id, the context and the task of the page's address; context and task are undefined if it has none. */
export function place() {
  const [, agent] = /^agents\/([^/]+)\/?$/.exec(location.pathname.slice(root.pathname.length)) ?? [];
  const named = new URLSearchParams(location.hash.slice(1));
  return { agent: agent ? decodeURIComponent(agent) : home.agent, context: named.get("context") ?? undefined, task: named.get("task") ?? undefined };
}

/** Let the page's address name this agent, context and task. A changed agent or context becomes a step for "Back". */
export function keepPlace(agent, context, task) {
  const before = place();
  const path = before.agent === agent ? location.pathname : new URL(`agents/${encodeURIComponent(agent)}/`, root).pathname;
  const named = new URLSearchParams({ ...(context && { context }), ...(task && { task }) }).toString();
  const address = `${path}${named && "#"}${named}`;
  if (address === `${location.pathname}${location.hash}`) return;
  const isStep = before.agent !== agent || before.context !== context;
  history[isStep ? "pushState" : "replaceState"](null, "", address);
}
