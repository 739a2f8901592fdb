"""AWS emulator on a local port: moto's server in this process, made safe for concurrent requests."""

import itertools
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread, current_thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from moto.backends import get_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import ThreadedWSGIServer

from aion_tools.stack import REGION, EmulatorError
from aion_tools.stack.moto_patches import speed_up_dynamodb, support_message_moves
from aion_tools.stack.request_serializer import RequestSerializer

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication


SERVICES = ("dynamodb", "sqs", "s3", "kms")
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
        self._requests = RequestSerializer(DomainDispatcherApplication(create_backend_app), self.account)
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
    def polls_waiting(self) -> int:
        """Number of ReceiveMessage requests that now wait for a message."""
        return self._requests.waiting

    def release_messages(self) -> None:
        """Make the received queue messages visible again. Call this when the processes that received them have ended."""
        with self._requests.sqs_locked():
            for queues in get_backend("sqs")[self.account].values():
                for queue in queues.queues.values():
                    for message in queue.pending_messages:
                        message.visible_at = 0.0

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
