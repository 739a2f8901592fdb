"""Request of the console for the trees of Markdown texts, and the process that renders them."""

import asyncio
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import IO, cast

from a2a.utils.errors import A2AError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from aion_core.errors import AionError, InvalidMessage
from aion_core.web.errors import rest_error
from aion_core.web.request.body import BodyRefused, StrictRequest

MAX_CHARACTERS = 100_000
"""Maximum length of a request's texts together. The worst text of this length takes about two seconds."""

LIBRARIES = ("markdown_it", "pygments")
MISSING = "Markdown is shown as text: the extra aion-lambda[console] is not installed."


def markdown_routes(prefixes: list[str]) -> list[Route]:
    """Return the route of each agent below its path prefix, so that its authentication applies. They share a process."""
    # One thread: a request whose client has gone still reads its trees before the next one writes.
    thread, renderer = ThreadPoolExecutor(1, "markdown"), Renderer()

    async def answer(request: Request) -> Response:
        """Return the trees of the request's `texts`, in order. Return 501 without the libraries."""
        try:
            texts = _texts(await StrictRequest(request.scope, request.receive).json_object())
            if any(find_spec(name) is None for name in LIBRARIES):
                return JSONResponse({"error": {"code": 501, "status": "UNIMPLEMENTED", "message": MISSING}}, 501)
            trees = await asyncio.get_running_loop().run_in_executor(thread, renderer.trees, texts)
        except BodyRefused as refused:
            return rest_error(request, refused.error, refused.http)
        except (AionError, A2AError, OSError) as error:
            return rest_error(request, error)
        return Response(trees, media_type="application/json", headers={"cache-control": "no-store"})

    return [Route(f"{prefix}/console/markdown", answer, methods=["POST"]) for prefix in prefixes]


def _texts(body: dict[str, object]) -> list[str]:
    match body.get("texts"):
        case list() as texts if all(isinstance(text, str) for text in texts) and len("".join(texts)) <= MAX_CHARACTERS:
            return texts
        case _:
            raise InvalidMessage(
                f"texts has to be a list of texts, together of at most {MAX_CHARACTERS} characters.", field="texts"
            )


class Renderer:
    """Process that renders texts. It starts at the first rendering, and ends with this process.

    Pygments' patterns may take minutes for a short text, during which a thread would stop this process. In its own main
    thread, a timer stops them (aion_core.web.markdown.highlight).
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def trees(self, texts: list[str]) -> bytes:
        """Return the trees of the texts as a JSON array. Call it in one thread at a time. Raises OSError."""
        if self._process is None or self._process.poll() is not None:
            # The agents' credentials are not for this process.
            environment = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "aion_core.web.markdown.renderer"],
                env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the server, and the end of the input for this process
            )
        into, out = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        into.write(json.dumps(texts).encode() + b"\n")
        into.flush()
        if not (trees := out.readline()):
            raise OSError("The process that renders Markdown has ended.")
        return trees
