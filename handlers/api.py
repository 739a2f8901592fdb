"""ApiFunction: A2A over HTTP. The streaming runtime loop serves `app`. SAM local calls the buffered `handler`."""

from mangum import Mangum

from aion_core.bootstrap import build_app

app = build_app()

# The runtime emulator cannot stream. It sends each response as a whole, including SSE text.
handler = Mangum(app, lifespan="off")
