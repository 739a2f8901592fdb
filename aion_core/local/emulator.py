"""AWS on one local port: moto's server in this process, made safe for concurrent callers."""

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

from aion_core.local.message_moves import support_message_moves
from aion_core.local.region import RECEIVER
from aion_core.local.region import REGION as REGION
from aion_core.local.region import EmulatorError as EmulatorError
from aion_core.local.transactions import keep_only_what_is_touched

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

SERVICES = ("dynamodb", "sqs", "s3", "kms")

_OUR_NAMES = frozenset({"localhost", "host.docker.internal"})
"""By which this machine, or a container on it, may call the emulator, beside addresses."""

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
"""Name prefixes of read-only operations."""

# moto keeps its state in module globals, by account: an account of its own keeps each emulator's state apart.
_accounts = (f"{number:012d}" for number in itertools.count(1))


Watch = TypeVar("Watch", bound="WSGIApplication")


class Emulator:
    """DynamoDB, SQS, S3 and KMS behind one address, from `start` to `stop`; a context manager."""

    def __init__(self, listener: socket.socket, host: str) -> None:
        self.account = next(_accounts)
        support_message_moves()
        with _no_profile():
            keep_only_what_is_touched(get_backend("dynamodb")[self.account][REGION])
        self._gate = _Gate(DomainDispatcherApplication(create_backend_app), self.account)
        self._server = _Server(host, listener.getsockname()[1], self._gate, _QuietHandler, fd=listener.fileno())
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), name="aws-emulator", daemon=True)

    @classmethod
    def start(cls, host: str = "127.0.0.1", port: int = 0) -> Self:
        """Serve on this address; port 0 takes a free one."""
        try:
            with socket.create_server((host, port), backlog=512) as listener:
                emulator = cls(listener, host)
        except OSError as error:
            raise EmulatorError(f"cannot serve on {host}:{port}: {os.strerror(error.errno or 0)}") from error
        emulator._thread.start()
        return emulator

    @property
    def port(self) -> int:
        """The port it serves on."""
        return self._server.port

    def watched_by(self, watch: Callable[["WSGIApplication"], Watch]) -> Watch:
        """Let what `watch` returns answer from now on, and return it; it is given what answers otherwise."""
        watching = watch(self._gate)
        self._server.app = watching
        return watching

    @property
    def writes(self) -> int:
        """Number of requests so far that may have changed something."""
        return self._gate.writes

    @property
    def polls_waiting(self) -> int:
        """Number of long polls that are waiting for a message."""
        return self._gate.waiting

    @contextmanager
    def held(self) -> Iterator[None]:
        """Answer no request while this lasts: what the services hold stays as it is."""
        with self._gate.locked():
            yield

    def release_messages(self, receiver: str | None = None) -> None:
        """Make the messages visible again that were received and not deleted: those who received them are gone.

        With `receiver` only those of that one (see `stack.client_of`), who receives nothing from now on.
        """
        with self.held():
            theirs = None if receiver is None else self._gate.dismiss(receiver)
            for queues in get_backend("sqs")[self.account].values():
                for queue in queues.queues.values():
                    for message in queue.pending_messages:
                        if theirs is None or message.receipt_handle in theirs:
                            message.visible_at = 0.0
        self._gate.wake_polls()

    @contextmanager
    def no_long_polls(self) -> Iterator[None]:
        """Let every long poll return now; while this lasts, none waits."""
        self._gate.may_wait(False)
        try:
            yield
        finally:
            self._gate.may_wait(True)

    def stop(self) -> None:
        """Answer nobody any more and forget everything; safe to repeat."""
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


class _Gate:
    """Lets one request in at a time, and makes long polls that nobody has to wait behind.

    moto is not made for threads: it answers a failed transaction by putting back what it copied when the transaction
    began, and what another thread wrote in between is lost; queues and versions of objects suffer likewise. A lock around
    its own long poll would stop every sender, though, so moto only ever sees polls that do not wait.
    """

    # How late a message may be seen whose delay or visibility timeout has run out: nothing announces that.
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
        if _is_a_pages(environ):
            start_response("403 Forbidden", [("Content-Type", "text/plain")])
            return [b"The emulator answers programs on this machine, and no web page.\n"]
        # Read first: whoever holds a lock must not wait for a client.
        body = _body(environ)
        environ["wsgi.input"] = io.BytesIO(body)
        environ["HTTP_X_MOTO_ACCOUNT_ID"] = self._account
        target = environ.get("HTTP_X_AMZ_TARGET", "")
        if target == "AmazonSQS.ReceiveMessage":
            return self._receive(environ, body, start_response)
        if not _only_reads(environ, target):
            # Not exact, since requests count at once, and need not be: it tells whether something was written.
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
        """Let no request in while this lasts."""
        with self._others, self._sqs:
            yield

    def dismiss(self, receiver: str) -> set[str]:
        """Give this receiver no more messages, and return the receipt handles of what it has; call it while locked."""
        self._dismissed.add(receiver)
        handles = {handle for handle, name in self._receivers.items() if name == receiver}
        for handle in handles:
            del self._receivers[handle]
        return handles

    def wake_polls(self) -> None:
        """Let polls that wait look for messages again."""
        with self._sqs:
            self._sqs.notify_all()

    def may_wait(self, allowed: bool) -> None:
        """Say whether a poll may wait for messages; one that waits when it may not returns."""
        with self._sqs:
            self._polls_wait = allowed
            self._sqs.notify_all()

    def _receive(self, environ: "WSGIEnvironment", asked: bytes, start_response: "StartResponse") -> Iterable[bytes]:
        request = json.loads(asked)
        wait = int(request.get("WaitTimeSeconds") or 0)
        if not 0 <= wait <= self.LONGEST_POLL:
            return self._app(environ, start_response)  # which refuses it
        body = json.dumps({**request, "WaitTimeSeconds": 0}).encode()
        environ["CONTENT_LENGTH"] = str(len(body))
        end = time.monotonic() + wait
        named = RECEIVER.search(environ.get("HTTP_USER_AGENT", ""))
        receiver = named[1] if named else ""
        with self._sqs:
            while True:
                if _hung_up(environ) or receiver in self._dismissed:
                    # Its process has died: a message that it got would be hidden from others until its timeout.
                    start_response("400 Bad Request", [("Content-Type", "text/plain")])
                    return [b""]
                attempt = {**environ, "wsgi.input": io.BytesIO(body)}
                chunks, status, headers = run_wsgi_app(self._app, attempt, buffered=True)
                answer = b"".join(chunks)
                # An error is an answer too, which waiting will not change.
                messages = json.loads(answer).get("Messages") or [] if status.startswith("200") else []
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
        return [answer]


def _only_reads(environ: "WSGIEnvironment", target: str) -> bool:
    """Tell whether the request changes nothing: by its target, or, of S3, by its method."""
    if not target:
        return environ.get("REQUEST_METHOD") in ("GET", "HEAD")
    return target.rpartition(".")[2].startswith(_READS)


def _receipt(body: bytes) -> str:
    """Return the receipt handle of a request; "" where it has none."""
    try:
        return str(json.loads(body)["ReceiptHandle"])
    except (ValueError, KeyError, TypeError):
        return ""


def _hung_up(environ: "WSGIEnvironment") -> bool:
    """Tell whether the client has closed its connection."""
    connection = environ.get("werkzeug.socket")
    if connection is None or not select.select([connection], [], [], 0)[0]:
        return False
    try:
        # A client that has asked waits for its answer: what can be read is the end.
        return not connection.recv(1, socket.MSG_PEEK)
    except OSError:
        return True


def _is_a_pages(environ: "WSGIEnvironment") -> bool:
    """Tell whether a web page asks, which a browser says in Origin, or somebody by a name that is not this machine's.

    moto lets pages of any site read its answers, and a name may be pointed at 127.0.0.1 by whoever owns it. No SDK of
    AWS sends Origin, and all of ours call the emulator by its address.
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
    """moto's handler without a line for every request."""

    # Its answers are several small writes, of which each would wait for the client to acknowledge the one before.
    disable_nagle_algorithm = True

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""


class _Server(ThreadedWSGIServer):
    """A thread for each connection, none of which outlives the server."""

    PATIENCE = 1

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._open: dict[Thread, socket.socket] = {}

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a new thread."""
        thread = Thread(target=self._answer, args=(request, client_address), name="aws-emulator-request", daemon=True)
        self._open[thread] = request
        thread.start()

    def _answer(self, request: Any, client_address: Any) -> None:
        try:
            self.process_request_thread(request, client_address)
        finally:
            self._open.pop(current_thread(), None)

    def disconnect(self) -> None:
        """Hang up on every client that is still there; call it when no new one can come."""
        # Nobody may ask any more; whoever has asked gets an answer, if he takes it.
        for how, patience in ((socket.SHUT_RD, self.PATIENCE), (socket.SHUT_RDWR, None)):
            for thread, connection in list(self._open.items()):
                with suppress(OSError):
                    connection.shutdown(how)
                thread.join(patience)


@contextmanager
def _no_profile() -> Iterator[None]:
    """Hide AWS_PROFILE from moto's first use of boto3: a profile that is not on this machine would be an error."""
    profile = os.environ.pop("AWS_PROFILE", None)
    try:
        yield
    finally:
        if profile is not None:
            os.environ["AWS_PROFILE"] = profile


def _body(environ: "WSGIEnvironment") -> bytes:
    # A body that is sent in chunks ends by itself.
    length = -1 if environ.get("wsgi.input_terminated") else int(environ.get("CONTENT_LENGTH") or 0)
    body: bytes = environ["wsgi.input"].read(length)
    return body
