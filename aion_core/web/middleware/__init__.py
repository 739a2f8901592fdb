"""ASGI middleware, one a file. `aion_core.web.app` orders it.

Outermost first: observability, loopback, CORS, authentication, rate limit, background turns, compression, paths.
"""
