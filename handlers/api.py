"""ApiFunction: HTTP in, A2A out. `app` is what our runtime loop streams, `handler` its buffered twin for SAM local."""

from mangum import Mangum

from aion_core.bootstrap import build_app

app = build_app()

# The runtime emulator cannot stream: there the whole answer goes out at once, the SSE text too.
handler = Mangum(app, lifespan="off")
