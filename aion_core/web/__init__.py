"""HTTP in and out: the ASGI app, JSON-RPC in both dialects, and the streams."""
