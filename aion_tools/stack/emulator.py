"""AWS emulator on a local port: moto's server in this process, made safe for concurrent requests."""

import io
import ipaddress
import itertools
import json
import os
import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Condition, Lock, Thread, current_thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

from moto.backends import get_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import ThreadedWSGIServer
from werkzeug.test import run_wsgi_app

from aion_tools.stack import RECEIVER, REGION, EmulatorError
from aion_tools.stack.moto_patches import speed_up_dynamodb, support_message_moves

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

SERVICES = ("dynamodb", "sqs", "s3", "kms")

_OUR_NAMES = frozenset({"localhost", "host.docker.internal"})
"""Host names accepted in the Host header, besides IP addresses: those used on this machine and in containers."""

_READS = (
    "BatchGet",
    "Decrypt",
    "Describe",
    "Encrypt",
    "GenerateDataKey",
    "Get",
    "List",
    "Query",
    "Scan",
    "TransactGet",
)
"""Prefixes of the names of AWS operations that only read."""

# Give each emulator its own account id, because moto stores the state of each account in module globals.
_accounts = (f"{number:012d}" for number in itertools.count(1))


Wrapper = TypeVar("Wrapper", bound="WSGIApplication")


class Emulator:
    """Emulator of DynamoDB, SQS, S3 and KMS at one address. It is a context manager that stops the emulator."""

    def __init__(self, listener: socket.socket, host: str) -> None:
        self.account = next(_accounts)
        support_message_moves()
        with _no_profile():
            speed_up_dynamodb(get_backend("dynamodb")[self.account][REGION])
        self._requests = _RequestSerializer(DomainDispatcherApplication(create_backend_app), self.account)
        self._server = _Server(host, listener.getsockname()[1], self._requests, _QuietHandler, fd=listener.fileno())
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), name="aws-emulator", daemon=True)

    @classmethod
    def start(cls, host: str = "127.0.0.1", port: int = 0) -> Self:
        """Start an emulator on this address. Port 0 selects a free port. Raises EmulatorError if the port is in use."""
        try:
            with socket.create_server((host, port), backlog=512) as listener:
                emulator = cls(listener, host)
        except OSError as error:
            raise EmulatorError(f"cannot serve on {host}:{port}: {os.strerror(error.errno or 0)}") from error
        emulator._thread.start()
        return emulator

    @property
    def port(self) -> int:
        """TCP port of the emulator."""
        return self._server.port

    def wrap(self, wrapper: Callable[["WSGIApplication"], Wrapper]) -> Wrapper:
        """Wrap the WSGI application of the emulator, so that all requests pass the wrapper. Return the wrapper."""
        wrapped = wrapper(self._requests)
        self._server.app = wrapped
        return wrapped

    @property
    def writes(self) -> int:
        """Number of requests so far that may have changed the emulator's state."""
        return self._requests.writes

    @property
    def polls_waiting(self) -> int:
        """Number of ReceiveMessage requests that now wait for a message."""
        return self._requests.waiting

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Handle no request while the block runs, so that the emulator's state does not change."""
        with self._requests.locked():
            yield

    def release_messages(self, receiver: str | None = None) -> None:
        """Make queue messages received by ended processes visible again.

        With the name of a `receiver` (see `stack.client_of`), release only its messages and refuse its later polls.
        """
        with self.paused():
            theirs = None if receiver is None else self._requests.dismiss(receiver)
            for queues in get_backend("sqs")[self.account].values():
                for queue in queues.queues.values():
                    for message in queue.pending_messages:
                        if theirs is None or message.receipt_handle in theirs:
                            message.visible_at = 0.0
        self._requests.wake_polls()

    @contextmanager
    def no_long_polls(self) -> Iterator[None]:
        """Let every long poll of a queue return at once while the block runs."""
        self._requests.allow_waiting(False)
        try:
            yield
        finally:
            self._requests.allow_waiting(True)

    def stop(self) -> None:
        """Stop the emulator and delete its state. The call may be repeated."""
        with self.no_long_polls():
            self._server.shutdown()
            self._thread.join()
            self._server.disconnect()
        for service in SERVICES:
            state = get_backend(service).pop(self.account, None)  # type: ignore[call-overload]
            if state is not None:
                state.reset()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _RequestSerializer:
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
        self._receivers: dict[str, str] = {}
        self._dismissed: set[str] = set()
        self.writes = 0
        self.waiting = 0

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if _is_from_web_page(environ):
            start_response("403 Forbidden", [("Content-Type", "text/plain")])
            return [b"The emulator accepts requests from programs on this machine, not from web pages.\n"]
        # Read the body before acquiring a lock, so that a slow client does not block other requests.
        body = _body(environ)
        environ["wsgi.input"] = io.BytesIO(body)
        environ["HTTP_X_MOTO_ACCOUNT_ID"] = self._account
        target = environ.get("HTTP_X_AMZ_TARGET", "")
        if target == "AmazonSQS.ReceiveMessage":
            return self._receive(environ, body, start_response)
        if not _only_reads(environ, target):
            # Do not lock this counter: it may be inexact, because the snapshot saver only checks if it has changed.
            self.writes += 1
        if target.startswith("AmazonSQS"):
            with self._sqs:
                response = self._app(environ, start_response)
                if target == "AmazonSQS.DeleteMessage":
                    self._receivers.pop(_receipt(body), None)
                self._sqs.notify_all()
            return response
        with self._others:
            return self._app(environ, start_response)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the locks for SQS and for other services while the block runs, so that no request is handled."""
        with self._others, self._sqs:
            yield

    def dismiss(self, receiver: str) -> set[str]:
        """Refuse later polls of this receiver and return its messages' receipt handles. Call it with the locks held."""
        self._dismissed.add(receiver)
        handles = {handle for handle, name in self._receivers.items() if name == receiver}
        for handle in handles:
            del self._receivers[handle]
        return handles

    def wake_polls(self) -> None:
        """Let waiting long polls look for messages again."""
        with self._sqs:
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
        named = RECEIVER.search(environ.get("HTTP_USER_AGENT", ""))
        receiver = named[1] if named else ""
        with self._sqs:
            while True:
                if _is_disconnected(environ) or receiver in self._dismissed:
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
                if receiver:
                    self._receivers.update((message["ReceiptHandle"], receiver) for message in messages)
                remaining = end - time.monotonic()
                self.writes += not is_empty
                if not is_empty or not self._polls_wait or remaining <= 0:
                    break
                self.waiting += 1
                try:
                    self._sqs.wait(min(remaining, self.TICK))
                finally:
                    self.waiting -= 1
        start_response(status, list(headers))
        return [response]


def _only_reads(environ: "WSGIEnvironment", target: str) -> bool:
    """Return True for a request that only reads, by the operation in X-Amz-Target or, for S3, by the HTTP method."""
    if not target:
        return environ.get("REQUEST_METHOD") in ("GET", "HEAD")
    return target.rpartition(".")[2].startswith(_READS)


def _receipt(body: bytes) -> str:
    """Return the receipt handle in the body of an SQS request, or "" if it has no receipt handle."""
    try:
        return str(json.loads(body)["ReceiptHandle"])
    except (ValueError, KeyError, TypeError):
        return ""


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


class _QuietHandler(MotoRequestHandler):
    """moto's request handler without a log line for each request."""

    # Disable Nagle's algorithm, because each of a response's small writes would wait for an acknowledgement.
    disable_nagle_algorithm = True

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Print no log line for the request."""


class _Server(ThreadedWSGIServer):
    """HTTP server with a thread for each connection. `disconnect` ends all of these threads."""

    DISCONNECT_SECONDS = 1

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._open: dict[Thread, socket.socket] = {}

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle the connection in a new thread."""
        thread = Thread(target=self._respond, args=(request, client_address), name="aws-emulator-request", daemon=True)
        self._open[thread] = request
        thread.start()

    def _respond(self, request: Any, client_address: Any) -> None:
        try:
            self.process_request_thread(request, client_address)
        finally:
            self._open.pop(current_thread(), None)

    def disconnect(self) -> None:
        """Close every open connection. Call this after the server has stopped accepting connections."""
        # First stop reading requests and wait for outstanding responses, then close the connections.
        for direction, seconds in ((socket.SHUT_RD, self.DISCONNECT_SECONDS), (socket.SHUT_RDWR, None)):
            for thread, connection in list(self._open.items()):
                with suppress(OSError):
                    connection.shutdown(direction)
                thread.join(seconds)


@contextmanager
def _no_profile() -> Iterator[None]:
    """Hide AWS_PROFILE while the block runs, since boto3 fails if the profile does not exist on this machine."""
    profile = os.environ.pop("AWS_PROFILE", None)
    try:
        yield
    finally:
        if profile is not None:
            os.environ["AWS_PROFILE"] = profile


def _body(environ: "WSGIEnvironment") -> bytes:
    # Read a chunked body up to its end marker, because it has no length.
    length = -1 if environ.get("wsgi.input_terminated") else int(environ.get("CONTENT_LENGTH") or 0)
    body: bytes = environ["wsgi.input"].read(length)
    return body
