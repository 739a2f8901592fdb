"""HTTP server for the agents: ASGI app, operations, bindings of both versions, streams.

app.py                  the ASGI app, and the order of its middleware
app_parts.py            what the wiring gives to the app
additions.py            routes and middleware that a server adds
lifespan.py             start and shutdown of the app
middleware/             ASGI middleware, one a file
request/                a request as the bindings read it
operations/             the table of the A2A operations
json_answer.py          JSON responses that may be large
rpc.py                  JSON-RPC of v1.0 and v0.3
rest/                   HTTP+JSON of v1.0
v03/                    requests and responses of v0.3, converted from and to v1.0
sse.py                  Server-Sent Events of a task
stream_limits.py        limit of each caller's open streams
errors.py               error responses
cards/                  agent cards as published
public_routes.py        routes without credentials
callbacks.py            the route of remote agents' callbacks, with one-use tokens
cacheable_document.py   public documents with HTTP caching
health.py               the health check
console.py              the chat page and the API page
markdown/               Markdown of the chat page, as trees of nodes
"""
