"""ApiFunction: A2A over HTTP. The streaming runtime loop serves `app`. SAM local calls the buffered `handler`."""

from collections.abc import Callable
from functools import cache
from typing import Any

from aion_core.bootstrap import build_app

app = build_app()


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer an event with a buffered response, even for a stream, because SAM CLI cannot pass a stream on."""
    return _buffered()(event, context)


@cache
def _buffered() -> Callable[[Any, object], dict[str, Any]]:
    # Import it only here, because only SAM local calls it. Keep it, because its event loop serves all invocations.
    from aion_core.lambda_runtime.buffered import BufferedHandler

    return BufferedHandler(app)
