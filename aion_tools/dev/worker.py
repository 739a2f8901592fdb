"""Worker process of the development server. It loads the agents, then serves HTTP requests and queue messages."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aion_core.errors import AionError, ConfigurationError
from aion_tools.dev import console_log, log_file
from aion_tools.dev.data_folder import SQLITE
from aion_tools.dev.messages import ENDING, AgentsLoaded, Load, LoadFailed, Serve, Serving, Stop, Stopping

if TYPE_CHECKING:
    from aion_tools.stack.stack import LocalStack

logger = logging.getLogger(__name__)

TURN_GRACE, STREAM_GRACE = 0.5, 1.5
"""Grace periods in seconds of a stopping worker: for a turn to reach a step boundary, and for the turn's stream.

Meanwhile the next worker resumes the turn, so the stream can still send the end of the turn to the client.
"""

LEAVE_SECONDS = 1.0
"""Seconds after the grace periods for a stream to end by itself. Then the worker ends the stream."""

HANDOFF_SECONDS, HANDOFF_SECONDS_BESIDE_SUCCESSOR = 3.0, 10.0
"""Seconds for handing off turns, without and with a successor.

With a successor there is more time: the successor already serves requests, so the developer does not wait.
"""

CUT_SECONDS, CUT_SECONDS_BESIDE_SUCCESSOR = 5, 15
"""Seconds from the stop command until the worker cancels all requests, without and with a successor."""

SLOW_SECONDS = 10.0
"""Seconds after which the worker reports an agent that is still being loaded."""

STILL_LOADING = (
    "The agent %r is still being loaded (%.0f s). If its import never ends, move the code that runs a program below "
    '`if __name__ == "__main__":`.'
)

KEY_DAYS = 30
"""Life of the API key that `aion dev --auth on` makes at its start."""


def main(listener: socket.socket, connection: Connection) -> None:
    """Run the worker until the supervisor stops it through the connection, then exit the process."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    _own_group()
    _keep_from_children(listener, connection)
    try:
        _Worker(listener, connection).run()
    except KeyboardInterrupt:
        # Exit with the code for Ctrl-C. The worker ignores Ctrl-C, so KeyboardInterrupt means that an agent's code has
        # installed Python's default handler again.
        os._exit(130)
    except BaseException:
        logging.getLogger(__name__).critical("The development server has failed.", exc_info=True)
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.flush()
    sys.stderr.flush()
    # Exit at once. A normal exit would wait for threads of agents and synchronous nodes, which may never end.
    os._exit(0)


def _own_group() -> None:
    """Make this process the leader of a process group, so that the supervisor can kill it with its children."""
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
        # Ignore SIGTTOU, because otherwise a terminal may stop this background process when it prints.
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)


def _keep_from_children(*held: socket.socket | Connection) -> None:
    """Close this listener and this connection in every child process that an agent's code forks.

    A child that outlives the worker would otherwise keep the port open, and the supervisor would not notice the
    worker's end, because the connection would stay open too.
    """
    if not hasattr(os, "register_at_fork"):
        return

    def close() -> None:
        for each in held:
            with contextlib.suppress(OSError):
                each.close()

    os.register_at_fork(after_in_child=close)


@dataclass
class _CommandReader:
    """Reader of the supervisor's commands. When the supervisor ends, it kills this process and the child processes."""

    connection: Connection
    stop: "Future[Stop]" = field(default_factory=Future)
    serve: threading.Event = field(default_factory=threading.Event)

    def read(self) -> None:
        try:
            while True:
                match self.connection.recv():
                    case Serve():
                        self.serve.set()
                    case Stop() as stop:
                        self.serve.set()
                        self.stop.set_result(stop)
        except (EOFError, OSError):
            if hasattr(os, "killpg"):
                # Kill the whole process group, because without a supervisor no other process ends the agents' child
                # processes.
                os.killpg(0, signal.SIGKILL)
            os._exit(1)


class _Worker:
    def __init__(self, listener: socket.socket, connection: Connection) -> None:
        self._listener, self._connection = listener, connection
        self._commands = _CommandReader(connection)
        self._stack: LocalStack | None = None
        self._pollers: list[Any] = []
        self._background: Any = None

    def run(self) -> None:
        try:
            task: Load = self._connection.recv()
        except (EOFError, OSError):
            # Return without an error: the connection is closed because the supervisor has ended or has started another
            # worker.
            return
        threading.Thread(target=self._commands.read, name="supervisor", daemon=True).start()
        try:
            app = self._load(task)
        except AionError as error:
            self._connection.send(LoadFailed(str(error)))
            return
        self._commands.serve.wait()
        if not self._commands.stop.done():
            # Do not use asyncio.run, because at its end it would wait for threads that agents have left running.
            loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
            loop.run_until_complete(self._serve(app))

    def _load(self, task: Load) -> Any:
        console_log.install(colour=task.colour)
        if task.log_file is not None:
            log_file.install(task.log_file)
        os.environ.update({**task.variables, **task.environment})
        sys.path[:0] = [str(task.project)]
        if task.template is not None and task.place is not None:
            from aion_tools.stack.stack import LocalStack

            self._stack = LocalStack.at(task.template, task.place, receiver=task.receiver)
            # Remove AWS_PROFILE, because boto3 fails if this machine has no such profile, although the emulator needs
            # none.
            os.environ.pop("AWS_PROFILE", None)
            os.environ.update(self._stack.environment("ApiFunction"))
            os.environ.update(task.environment)
        # Import the agents' code and build the app only after the variables are set, as on Lambda.
        from aion_core.bootstrap import build_app
        from aion_tools.dev.console.additions import console_additions

        app = build_app(additions=console_additions)
        failures, agents = {}, app.state.agents
        for agent_id, agent in agents.items():
            if (failure := _load_agent(agent_id, agent)) is not None:
                failures[agent_id] = failure
        per_turn = tuple(agent_id for agent_id, agent in agents.items() if getattr(agent, "is_per_turn", False))
        # Empty the app's map of agents, so that its startup does not load them a second time. The supervisor reports
        # agents that could not be loaded.
        app.state.agents = {}
        self._background = app.state.background
        names = {name: value for name, value in task.environment.items() if name in (SQLITE, "AION_RETENTION_DAYS")}
        has_keys = task.with_key and os.environ.get("AION_STORE") != "memory"
        header = _developer_header(task.config, failures) if has_keys else ""
        if self._stack is not None:
            names = self._stack.environment("ApiFunction")
            self._pollers = self._stack.pollers({"TaskFunction": self._task_function}, environ=task.environment)
        undescribed = _undescribed(task.config, agents, failures)
        part = _example_part(task.config, agents, failures)
        self._connection.send(AgentsLoaded(tuple(agents), failures, per_turn, header, undescribed, part, names))
        return app

    def _task_function(self, event: Any, context: Any) -> Any:
        return self._answer_turns(event, context)

    async def _serve(self, app: Any) -> None:
        import uvicorn

        from aion_core.engine.process.deadline import Deadline
        from aion_core.web.middleware.loopback import LoopbackOnlyMiddleware
        from aion_core.web.request.call_context import DEADLINE
        from aion_tools.dev.http_protocol import HeaderTimeoutProtocol, stop_accepting
        from aion_tools.dev.request_log import RequestLogMiddleware

        loop = asyncio.get_running_loop()
        ends = Deadline(grace=TURN_GRACE, leave=loop.create_future())
        if self._stack is not None:
            self._answer_turns = task_function_on(loop, ends)
        if self._background is not None:
            self._background.deadline = ends
        loop.set_exception_handler(_log_unhandled)
        inner = LoopbackOnlyMiddleware(app)
        streams_end = asyncio.Event()

        async def with_end(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "lifespan":
                await inner(scope, receive, send)
            else:
                await inner({**scope, DEADLINE: ends}, _leaving(receive, streams_end), send)

        worker = self

        class WorkerServer(uvicorn.Server):
            @contextlib.contextmanager
            def capture_signals(self) -> Iterator[None]:
                # Install no signal handlers, because the supervisor handles signals.
                yield

            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                for poller in worker._pollers:
                    poller.start()
                worker._connection.send(Serving())

        server = WorkerServer(
            uvicorn.Config(
                RequestLogMiddleware(with_end),
                http=HeaderTimeoutProtocol,
                ws="none",
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=CUT_SECONDS,
            )
        )
        serving = asyncio.ensure_future(server.serve([self._listener]))
        stopped = asyncio.wrap_future(self._commands.stop)
        either: set[asyncio.Future[Any]] = {serving, stopped}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            # Close the listeners now, because uvicorn notices `should_exit` up to 0.1 s later and would accept connections
            # until then.
            await stop_accepting(server)
            self._stop_serving(server, ends, streams_end, has_successor=stopped.result().has_successor)
        await serving
        await self._turns_ended(beside=stopped.done() and stopped.result().has_successor)

    def _stop_serving(self, server: Any, ends: Any, streams_end: asyncio.Event, *, has_successor: bool) -> None:
        """Start no more turns, hand off the running turns, and end the streams after a grace period."""
        # Hide uvicorn's log messages about cancelled streams, because the worker itself cancels them.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        for connection in list(server.server_state.connections):
            connection.shutdown()
        # Report the stop. Otherwise the supervisor would assume a blocked event loop and kill the worker.
        self._connection.send(Stopping())
        for each in (*self._pollers, *([self._background] if self._background else [])):
            each.stop()
        server.config.timeout_graceful_shutdown = CUT_SECONDS_BESIDE_SUCCESSOR if has_successor else CUT_SECONDS
        server.should_exit = True
        ends.now.set()
        loop, leave = asyncio.get_running_loop(), TURN_GRACE + (STREAM_GRACE if has_successor else 0.0)
        loop.call_later(leave, ends.leave.set_result, None)
        loop.call_later(leave + LEAVE_SECONDS, streams_end.set)

    async def _turns_ended(self, *, beside: bool) -> None:
        """Wait until turns from queues are handed off, up to a time limit. With a successor, the limit is longer."""
        seconds = HANDOFF_SECONDS_BESIDE_SUCCESSOR if beside else HANDOFF_SECONDS
        deadline = time.monotonic() + seconds
        for poller in self._pollers:
            # Wait in a thread, so that the event loop stays free: the poller's turns need it to reach their end.
            await asyncio.to_thread(poller.join, deadline, polls=False)
        if self._background is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._background.join(), seconds)


def _leaving(receive: Callable[[], Awaitable[Any]], leaving: asyncio.Event) -> Callable[[], Awaitable[Any]]:
    """Return an ASGI `receive` that reports a disconnect once `leaving` is set, so that the app ends its streams.

    The disconnect is reported only after the whole body of the request was received.
    """
    whole = False

    async def receive_or_leave() -> Any:
        nonlocal whole
        if not whole:
            message = await receive()
            whole = not message.get("more_body")
            return message
        waiting = [asyncio.ensure_future(receive()), asyncio.ensure_future(leaving.wait())]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return waiting[0].result() if waiting[0].done() else {"type": "http.disconnect"}
        finally:
            for each in waiting:
                each.cancel()

    return receive_or_leave


def _developer_header(config: Path, failed: Collection[str]) -> str:
    """Create an API key with access to every agent and return the header of the example request.

    Return "" if no agent accepts API keys. `failed` has the ids of the agents that could not be loaded.
    """
    from aion_core.auth.schemes.api_key import ApiKeyScheme, make_key
    from aion_core.clock import SystemClock
    from aion_core.loading.auth_policies import read_auth_policies
    from aion_core.loading.deployment import read_deployment_config
    from aion_core.settings import Settings
    from aion_tools.dev.greeting import example_agent
    from aion_tools.operator.bootstrap import build_keys

    agents = read_deployment_config(config).agents
    accepted = [
        (agent_id, scheme.header, scopes)
        for agent_id, policy in read_auth_policies(agents).items()
        for requirement in chain(policy.require, *policy.skills.values())
        for name, scopes in requirement.items()
        if isinstance(scheme := policy.schemes[name], ApiKeyScheme)
    ]
    if not accepted:
        return ""
    # Each agent may have a header of its own.
    called = example_agent(agents, failed)
    header = next((header for agent_id, header, _ in accepted if agent_id == called), accepted[0][1])
    now = SystemClock().now()
    # The key outlives this start, because clients may use it after a restart; its text cannot be printed again.
    scopes = frozenset(scope for _, _, scopes in accepted for scope in scopes)
    made = make_key("developer", now=now, scopes=scopes, expires=now + timedelta(days=KEY_DAYS))
    asyncio.run(build_keys(Settings.from_environ()).add(made.record))
    return f"{header}: {made.text}"


def _undescribed(config: Path, agents: Mapping[str, Any], failed: Collection[str]) -> tuple[str, ...]:
    """Return the ids of the loaded agents whose cards have no description."""
    from aion_core.loading.agent_cards import is_described
    from aion_core.loading.deployment import read_deployment_config

    configs = read_deployment_config(config).agents
    loaded = {agent_id: agent.profile() for agent_id, agent in agents.items() if agent_id not in failed}
    return tuple(agent_id for agent_id, said in loaded.items() if not is_described(agent_id, configs[agent_id], said))


def _example_part(config: Path, agents: Mapping[str, Any], failed: Collection[str]) -> dict[str, Any] | None:
    """Return the part of the example request, which the agent accepts; None if the agent could not be loaded."""
    from aion_core.loading.agent_cards import public_card
    from aion_core.loading.deployment import read_deployment_config
    from aion_tools.dev.greeting import example_agent, example_part

    configs = read_deployment_config(config).agents
    called = example_agent(configs, failed)
    if called in failed:
        return None
    return example_part(public_card(called, configs[called], agents[called].profile()))


def _load_agent(agent_id: str, agent: Any, slow_seconds: float = SLOW_SECONDS) -> str | None:
    """Load the agent. Return the reason as text if it cannot be loaded, else None. Log a warning if loading is slow."""
    # No agent is available until all are loaded, so name the agent whose import may never end.
    slow = threading.Timer(slow_seconds, logger.warning, (STILL_LOADING, agent_id, slow_seconds))
    slow.daemon = True
    slow.start()
    try:
        agent.load()
    except ConfigurationError as error:
        screen = getattr(error, "screen", None)
        return str(screen()) if callable(screen) else str(error)
    except Exception as error:  # report any exception of the author's code
        return "\n".join(console_log.traceback_lines(error))
    finally:
        slow.cancel()
    return None


def task_function_on(loop: asyncio.AbstractEventLoop, ends: Any) -> Callable[[Any, Any], Any]:
    """Return the Lambda handler of TaskFunction for this process. It runs turns on `loop` until `ends` hands them off.

    In this process, HTTP requests and queue messages share the agents' modules. An HTTP client in such a module works
    on one event loop only, so turns run on the loop of the HTTP server. On Lambda, each function has its own process
    and event loop.
    """
    from aion_core import log
    from aion_core.bootstrap import wake_up_of
    from aion_core.engine.process.deadline import Deadline
    from handlers import run_task

    async def on_loop(record: Any, lambda_context: Any) -> None:
        log.note(queue_message_id=record.message_id)
        wake_up = wake_up_of(record.body)
        log.note(context_id=wake_up.context.context_id, agent=wake_up.context.agent)
        until = datetime.now(UTC) + timedelta(milliseconds=lambda_context.get_remaining_time_in_millis())
        deadline = Deadline(until, now=ends.now, grace=ends.grace, leave=ends.leave)
        await run_task.worker.handle(wake_up, deadline=deadline)

    async def answer(record: Any, lambda_context: Any) -> None:
        turn = asyncio.run_coroutine_threadsafe(on_loop(record, lambda_context), loop)
        try:
            await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            # Wait forever, because the server has ended and this thread ends with the process. A return would mean that
            # the message was processed.
            await asyncio.get_running_loop().create_future()

    return partial(run_task.handler, answer=answer)


def _log_unhandled(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    logger.error(context.get("message", "Unhandled error."), exc_info=error)
