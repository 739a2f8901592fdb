"""ApiFunction: A2A over HTTP. The streaming runtime loop serves `app`. SAM local calls the buffered `handler`."""

from typing import Any

from aion_core.bootstrap import build_app

app = build_app()


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer an event with a buffered response, even for a stream, because SAM's runtime emulator cannot stream."""
    # Import mangum only here, because only the emulator calls this function.
    from mangum import Mangum

    response: dict[str, Any] = Mangum(app, lifespan="off")(event, context)
    return response
