"""A webhook that hears of tasks: it takes only what its own token has signed, each event once.

    pip install standardwebhooks
    WEBHOOK_TOKEN=whsec_… python receiver.py

The token is the one that the push config was created with, or that came back with it. What was heard is kept in memory
here; a real receiver keeps it where it keeps what it does with an event, in the same transaction.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

MOST_BYTES = 6 * 1024 * 1024


class Inbox:
    """Knows the sender by its signature, and a repeat by its id."""

    def __init__(self, token: str) -> None:
        # A token that is no key itself signs by its bytes.
        self._webhook = Webhook(token if token.startswith("whsec_") else token.encode())
        self._heard: set[str] = set()
        self._one_at_a_time = threading.Lock()

    def take(self, headers: Mapping[str, str], body: bytes, act: Callable[[Any], None]) -> bool:
        """Act on the event, once, and say whether this was the time; raises WebhookVerificationError for a forgery."""
        try:
            event = self._webhook.verify(body, dict(headers))
        except ValueError as error:
            raise WebhookVerificationError(str(error)) from error
        # They come in order, but for one that was given up and is posted again later: so not by the highest number.
        repeat = headers["webhook-id"]
        with self._one_at_a_time:
            if repeat in self._heard:
                return False
            act(event)
            self._heard.add(repeat)
        return True


def told(event: Any) -> None:
    """Print the event: of v1.0 the event itself, of v0.3 the task."""
    update = next(iter(event.values())) if len(event) == 1 else event
    state = update.get("status", {}).get("state", "")
    print(f"{update.get('taskId') or update.get('id')} {state or 'an artifact, or a message'}", flush=True)


def serve(inbox: Inbox, port: int, act: Callable[[Any], None] = told) -> ThreadingHTTPServer:
    """Return the server, which is yet to be run."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            if length > MOST_BYTES:
                self._answer(413)
                return
            body = self.rfile.read(length)
            try:
                inbox.take(self.headers, body, act)  # type: ignore[arg-type]  # names in any case, as HTTP has them
            except WebhookVerificationError:
                # It is not ours to know; and whoever sent it learns no more than that.
                self._answer(401)
            else:
                # A repeat is answered as the first was, or it would come again.
                self._answer(204)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name there
            """Say nothing of each request."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    if not os.environ.get("WEBHOOK_TOKEN"):
        sys.exit("WEBHOOK_TOKEN is missing: the token of the push config.")
    server = serve(Inbox(os.environ["WEBHOOK_TOKEN"]), int(os.environ.get("PORT", "9000")))
    print(json.dumps({"listening": f"http://127.0.0.1:{server.server_port}/"}), flush=True)
    server.serve_forever()
