"""ApiFunction: A2A over HTTP. The streaming runtime loop serves `app`. SAM local calls the buffered `handler`."""

from typing import Any

from aion_core.bootstrap import build_app

app = build_app()


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer an event with a whole response, including the text of SSE: the runtime emulator cannot stream."""
    # Imported late: only the emulator calls this.
    from mangum import Mangum

    response: dict[str, Any] = Mangum(app, lifespan="off")(event, context)
    return response
