"""Health check of the server."""

from starlette.requests import Request
from starlette.responses import Response

from aion_core import __version__
from aion_core.protocol.card import canonical_json
from aion_core.web.cacheable_document import JSON


async def health(request: Request) -> Response:
    """Return the status and version of this process.

    The store is not checked: a failed check would only replace the process, and the new process would have the same
    store. The alarms report an unavailable store.
    """
    return Response(
        canonical_json({"status": "ok", "version": __version__}), headers={"cache-control": "no-store"}, media_type=JSON
    )
