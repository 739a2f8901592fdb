"""HTTP server for the agents: ASGI app, operations, JSON-RPC and HTTP+JSON bindings, streams."""
