"""Local stack of template.yaml in this process, with emulated resources and with pollers for the functions.

`python -m aion_tools.stack.stack` runs the stack as its own process. The process prints one line of JSON (the
endpoint and each function's environment) and serves until SIGTERM or SIGINT.
"""

import argparse
import contextlib
import importlib
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event, Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import botocore.session
from botocore.config import Config

from aion_tools.stack import REGION, EmulatorError
from aion_tools.stack.poller import Function, Handler, Poller
from aion_tools.stack.queue_poller import QueuePoller, QueueSource
from aion_tools.stack.resources import create_resources
from aion_tools.stack.schedule_poller import SchedulePoller
from aion_tools.template import stacks
from aion_tools.template.reader import FUNCTION, Place, Template, TemplateError

if TYPE_CHECKING:
    from aion_tools.stack.emulator import Emulator

logger = logging.getLogger(__name__)

# Set arbitrary credentials: the emulator accepts any, and without credentials boto3 would search the network for them.
SETTINGS = {
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "local",
}
RETRY_AFTER = 1

# Ignore AWS_PROFILE, because the profile may not exist on this machine.
_session = botocore.session.Session({"profile": (None, None, None, None)})
_creating_a_client = Lock()


def client_of(service: str, endpoint: str) -> Any:
    """Return an AWS client for this endpoint, independent of the machine's AWS settings."""
    with _creating_a_client:
        return _session.create_client(
            service,
            region_name=REGION,
            endpoint_url=endpoint,
            aws_access_key_id=SETTINGS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=SETTINGS["AWS_SECRET_ACCESS_KEY"],
            config=Config(
                proxies={},
                max_pool_connections=50,
                s3={"addressing_style": "path"},
            ),
        )


class LocalStack:
    """A template's resources in an emulator. It is a context manager that stops the pollers and the emulator."""

    def __init__(self, emulator: "Emulator | None", template: Template) -> None:
        """Use an emulator in this process, or pass None for an emulator in another process."""
        self._emulator = emulator
        self._pollers: list[Poller] = []
        self.template = template

    @classmethod
    def start(
        cls,
        template: str | Path = "template.yaml",
        *,
        parameters: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        stack_name: str = "local",
    ) -> Self:
        """Start an emulator with the template's resources on this address. Port 0 selects a free port.

        No function is invoked until `poll`.
        """
        # Import moto only here: without it, a worker attached to another process's stack starts a second faster.
        from aion_tools.stack.emulator import Emulator

        emulator = Emulator.start(host, port)
        try:
            place = Place(emulator.account, REGION, f"http://{host}:{emulator.port}", stack_name)
            stack = cls(emulator, Template(Path(template).resolve(), place, parameters))
            create_resources(stack.template, stack.client)
        except BaseException:
            emulator.stop()
            raise
        return stack

    @classmethod
    def at(cls, template: str | Path, place: Place) -> Self:
        """Return a stack whose resources are in the emulator of another process, at the endpoint of `place`."""
        return cls(None, Template(Path(template).resolve(), place))

    @property
    def endpoint(self) -> str:
        """URL of the emulator, for programs on this machine."""
        return self.template.place.endpoint

    def environment(self, function: str, *, reached_at: str | None = None) -> dict[str, str]:
        """Return the function's environment from the template, with the emulator's URL, region and credentials.

        `reached_at` is the emulator's host as seen by the function, if it differs from the bound host.
        """
        there = f"http://{reached_at}:{urlsplit(self.endpoint).port}" if reached_at else self.endpoint
        # Replace the endpoint in all values, because a queue's URL contains it.
        given = {name: text.replace(self.endpoint, there) for name, text in self.template.environment(function).items()}
        return {**given, **SETTINGS, "AWS_ENDPOINT_URL": there}

    @property
    def emulator(self) -> "Emulator":
        """The emulator in this process. Raises EmulatorError if it runs in another process."""
        if self._emulator is None:
            raise EmulatorError("the emulator runs in another process")
        return self._emulator

    def physical_id(self, logical_id: str) -> str:
        """Return the name of the table or bucket, or the URL of the queue, with this logical id."""
        return self.template.attribute(logical_id, None, logical_id)

    def client(self, service: str) -> Any:
        """Return an AWS client of a service, such as `sqs`, for this stack's emulator."""
        return client_of(service, self.endpoint)

    def poll(
        self,
        handlers: Mapping[str, Handler] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        retry_after: int | None = RETRY_AFTER,
        at_once: int | None = None,
    ) -> None:
        """Start threads that invoke the template's functions for messages of their queues and at their schedules.

        A function without an entry in `handlers` is imported by its name in the template. Only during the import, the
        process has this function's environment, overridden by `environ`. A failed message becomes visible after
        `retry_after` seconds or, with None, after the queue's visibility timeout as on AWS. `at_once` replaces the
        template's number of concurrent invocations for a queue.
        """
        pollers = self.pollers(handlers, environ=environ, retry_after=retry_after, at_once=at_once)
        for poller in pollers:
            poller.start()
        self._pollers += pollers

    def pollers(
        self,
        handlers: Mapping[str, Handler] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        retry_after: int | None = RETRY_AFTER,
        at_once: int | None = None,
    ) -> list[Poller]:
        """Return the pollers of all functions, not started yet. The arguments have the same meaning as for `poll`."""
        handlers = handlers or {}
        functions = self.template.resources(FUNCTION)
        if unknown := sorted(set(handlers) - set(functions)):
            raise TemplateError(f"{self.template.path} has no function {', '.join(unknown)}")
        pollers: list[Poller] = []
        for name in functions:
            with _environment({**self.environment(name), **(environ or {})}):
                pollers += self._pollers_of(name, handlers.get(name), retry_after, at_once)
        return pollers

    def call_schedules(self, function: str) -> None:
        """Invoke the function now, in this thread, once for each of its schedules."""
        schedules = [poller for poller in self._pollers if isinstance(poller, SchedulePoller)]
        own = [poller for poller in schedules if poller.function.name == function]
        if not own:
            raise TemplateError(f"{function} has no polled schedule")
        for poller in own:
            poller.call()

    def stop_polling(self, grace: float = 10) -> None:
        """Stop the pollers. Wait up to `grace` seconds for running invocations."""
        for poller in self._pollers:
            poller.stop()
        deadline = time.monotonic() + grace
        is_ours = self._emulator is not None
        with self._emulator.no_long_polls() if self._emulator else contextlib.nullcontext():
            for name in [name for poller in self._pollers for name in poller.join(deadline, polls=is_ours)]:
                logger.warning("%s is still running", name)
        self._pollers = []

    def stop(self, grace: float = 10) -> None:
        """Stop polling, then stop the emulator."""
        try:
            self.stop_polling(grace)
        finally:
            if self._emulator is not None:
                self._emulator.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _pollers_of(
        self, name: str, handler: Handler | None, retry_after: int | None, at_once: int | None
    ) -> list[Poller]:
        queues = [event for event in self.template.events(name, "SQS") if _is_on(event[2])]
        schedules = [event for event in self.template.events(name, "Schedule", "ScheduleV2") if _is_on(event[2])]
        if not queues and not schedules:
            return []
        function = self._function(name, handler)
        place = self.template.place
        sqs = self.client("sqs")
        return [
            *(QueuePoller(function, QueueSource.of(event, place, at_once), sqs, retry_after) for _, _, event in queues),
            *(SchedulePoller(function, kind, event_name, event, place) for event_name, kind, event in schedules),
        ]

    def _function(self, name: str, handler: Handler | None) -> Function:
        properties = self.template.resolved(name, "Handler", "CodeUri", "Timeout", "MemorySize")
        if handler is None:
            file = stacks.source(self.template.owner(name).path)
            handler = _imported(properties["Handler"], file.parent / properties.get("CodeUri", "."))
        return Function(
            name=name,
            arn=self.template.attribute(name, "Arn", name),
            timeout=int(properties.get("Timeout", 3)),
            memory=int(properties.get("MemorySize", 128)),
            handler=handler,
        )


def _is_on(event: Mapping[str, Any]) -> bool:
    return event.get("Enabled", True) is not False and event.get("State") != "DISABLED"


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set these environment variables while the block runs, and restore their earlier values afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _imported(name: str, code: Path) -> Handler:
    """Import a function's handler by name. As on Lambda, the folder with its code is on the import path."""
    folder = str(code.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module, _, attribute = name.rpartition(".")
    try:
        handler: Handler = getattr(importlib.import_module(module.replace("/", ".")), attribute)
    except (ImportError, AttributeError) as error:
        raise TemplateError(f"cannot import the handler {name} from {folder}: {error}") from error
    return handler


def main(arguments: list[str] | None = None) -> int:
    """Run the local stack as a program of its own, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m aion_tools.stack.stack", description=__doc__)
    parser.add_argument("--template", default="template.yaml", help="SAM template (%(default)s)")
    parser.add_argument("--host", default="127.0.0.1", help="address to bind (%(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port to bind; 0 selects a free port")
    parser.add_argument("--poll", action="store_true", help="invoke the functions for their queues and schedules")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)

    stopped = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    try:
        with LocalStack.start(given.template, host=given.host, port=given.port) as stack:
            environments = {name: stack.environment(name) for name in stack.template.resources(FUNCTION)}
            if given.poll:
                os.environ.pop("AWS_PROFILE", None)
                for environment in environments.values():
                    os.environ.update(environment)
                stack.poll()
            print(json.dumps({"endpoint": stack.endpoint, "environment": environments}), flush=True)
            while not stopped.wait(1.0):
                # Return from the wait now and then, because a signal that another thread receives does not end it.
                pass
    except (TemplateError, EmulatorError) as error:
        print(f"local stack: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
