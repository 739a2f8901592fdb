"""WSGI middleware in front of moto: one request at a time, and no request of a web page."""

import io
import ipaddress
import json
import select
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Condition, Lock
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from werkzeug.test import run_wsgi_app

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


_OUR_NAMES = frozenset({"localhost", "host.docker.internal"})
"""Host names accepted in the Host header, besides IP addresses: those used on this machine and in containers."""


class RequestSerializer:
    """WSGI middleware that handles one request at a time. Long polls of queues do not block other requests.

    moto is not safe for threads. After a failed transaction, for example, it restores its earlier copy of the tables and
    loses the writes of other threads. A lock around moto's own long poll would block every sender, so moto receives only
    polls that do not wait.
    """

    # Seconds between two checks for visible messages, because moto does not report the end of a message's delay.
    TICK = 0.2
    LONGEST_POLL = 20

    def __init__(self, app: "WSGIApplication", account: str) -> None:
        self._app = app
        self._account = account
        self._sqs = Condition()
        self._others = Lock()
        self._polls_wait = True
        self.waiting = 0

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Handle the request when no other request is being handled, or refuse a web page's."""
        if _is_from_web_page(environ):
            start_response("403 Forbidden", [("Content-Type", "text/plain")])
            return [b"The emulator accepts requests from programs on this machine, not from web pages.\n"]
        # Read the body before acquiring a lock, so that a slow client does not block other requests.
        body = body_of_request(environ)
        environ["wsgi.input"] = io.BytesIO(body)
        environ["HTTP_X_MOTO_ACCOUNT_ID"] = self._account
        target = environ.get("HTTP_X_AMZ_TARGET", "")
        if target == "AmazonSQS.ReceiveMessage":
            return self._receive(environ, body, start_response)
        if target.startswith("AmazonSQS"):
            with self._sqs:
                response = self._app(environ, start_response)
                self._sqs.notify_all()
            return response
        with self._others:
            return self._app(environ, start_response)

    @contextmanager
    def sqs_locked(self) -> Iterator[None]:
        """Handle no SQS request while the block runs. Then waiting long polls look for messages again."""
        with self._sqs:
            yield
            self._sqs.notify_all()

    def allow_waiting(self, allowed: bool) -> None:
        """Allow or forbid long polls to wait for messages. If forbidden, waiting polls return at once."""
        with self._sqs:
            self._polls_wait = allowed
            self._sqs.notify_all()

    def _receive(self, environ: "WSGIEnvironment", content: bytes, start_response: "StartResponse") -> Iterable[bytes]:
        request = json.loads(content)
        wait = int(request.get("WaitTimeSeconds") or 0)
        if not 0 <= wait <= self.LONGEST_POLL:
            return self._app(environ, start_response)  # let moto refuse the invalid WaitTimeSeconds
        body = json.dumps({**request, "WaitTimeSeconds": 0}).encode()
        environ["CONTENT_LENGTH"] = str(len(body))
        end = time.monotonic() + wait
        with self._sqs:
            while True:
                if _is_disconnected(environ):
                    # Return no message to a receiver that has ended, because nobody would handle it, and it would stay
                    # hidden until its visibility timeout.
                    start_response("400 Bad Request", [("Content-Type", "text/plain")])
                    return [b""]
                attempt = {**environ, "wsgi.input": io.BytesIO(body)}
                chunks, status, headers = run_wsgi_app(self._app, attempt, buffered=True)
                response = b"".join(chunks)
                # End the long poll also for an error response of moto, because waiting would not change it.
                messages = json.loads(response).get("Messages") or [] if status.startswith("200") else []
                is_empty = status.startswith("200") and not messages
                remaining = end - time.monotonic()
                if not is_empty or not self._polls_wait or remaining <= 0:
                    break
                self.waiting += 1
                try:
                    self._sqs.wait(min(remaining, self.TICK))
                finally:
                    self.waiting -= 1
        start_response(status, list(headers))
        return [response]


def _is_disconnected(environ: "WSGIEnvironment") -> bool:
    """Return True if the client has closed its connection."""
    connection = environ.get("werkzeug.socket")
    if connection is None or not select.select([connection], [], [], 0)[0]:
        return False
    try:
        # Peek one byte: a waiting client sends nothing, so its socket becomes readable only when the client closes it.
        return not connection.recv(1, socket.MSG_PEEK)
    except OSError:
        return True


def _is_from_web_page(environ: "WSGIEnvironment") -> bool:
    """Return True if a web page may have sent the request: it has an Origin header or a foreign Host header.

    moto lets pages of any site read its responses, and the owner of a domain can make the domain resolve to 127.0.0.1
    (DNS rebinding). AWS SDKs send no Origin, and aion's clients use the emulator's IP address.
    """
    if "HTTP_ORIGIN" in environ:
        return True
    host = urlsplit(f"//{environ.get('HTTP_HOST', '')}").hostname or ""
    if host in _OUR_NAMES or host.endswith(".localhost"):
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return False


def body_of_request(environ: "WSGIEnvironment") -> bytes:
    """Read the body of a request."""
    # Read a chunked body up to its end marker, because it has no length.
    length = -1 if environ.get("wsgi.input_terminated") else int(environ.get("CONTENT_LENGTH") or 0)
    body: bytes = environ["wsgi.input"].read(length)
    return body
