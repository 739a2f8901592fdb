"""ASGI middleware, one a file. `aion_core.web.app` orders it, outermost first.

observability.py      log records, traces and metrics
nosniff.py            lets browsers believe the media type
loopback.py           refuses requests from other machines
cors.py               web pages of other origins
authentication.py     authenticates before the body is read
rate_limit.py         limits requests per minute
background_turns.py   waits for the turns that a request has started
compression.py        compresses large responses
paths.py              paths below the server's root path

After loopback the app adds the middleware of `aion_core.web.additions`, then the console (`aion_core.web.console`), then
CORS.
"""
