"""Worker process of the development server. It loads the agents, then serves HTTP requests and queue messages.

`python -m aion_tools.dev.worker TASK` runs it, with sockets inherited from the supervisor.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from aion_core.errors import AionError, ConfigurationError
from aion_core.garbage import no_garbage_collection
from aion_tools.dev import console_log, log_file
from aion_tools.dev.data_folder import SQLITE, STORE, DataFolder, RunningServer
from aion_tools.dev.supervisor import END_SECONDS, ENDING
from aion_tools.dev.worker_task import WorkerTask
from aion_tools.shipped import shipped
from aion_tools.terminal import clean

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from aion_core.bootstrap.turns import TurnServices
    from aion_core.engine.process.deadline import Deadline
    from aion_core.engine.runner.worker import Worker
    from aion_core.loading.discovery.discovered import Discovered
    from aion_core.settings import Settings
    from aion_core.web.additions import AppAdditions
    from aion_tools.stack.stack import LocalStack

logger = logging.getLogger(__name__)

TURN_GRACE = 0.5
"""Seconds for the turns of a stopping worker to reach a step boundary. Streams end after this time."""

HANDOFF_SECONDS = 3.0
"""Seconds for handing off turns from queues."""

CUT_SECONDS = 5
"""Seconds from the stop until the worker cancels all requests."""

NOTICE_SECONDS = 1.0
"""Seconds after which a slow first start is reported."""

SLOW_SECONDS = 10.0
"""Seconds after which the worker reports an agent that is still being loaded."""

STILL_LOADING = (
    "The agent %r is still being loaded (%.0f s). If its import never ends, move the code that runs a program below "
    '`if __name__ == "__main__":`.'
)

KEY_DAYS = 30
"""Life of the API key that `aion dev --auth on` makes at its start."""


def main() -> None:
    """Run the worker until the supervisor stops it, then exit the process."""
    task = WorkerTask.of(sys.argv.pop())
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "SIGTTOU"):
        # A terminal may otherwise stop this background process when it prints.
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    # httpx imports its command line, if the packages for it are installed. That would be a twentieth of the start's time.
    sys.modules["httpx._main"] = None  # type: ignore[assignment]
    listener, channel = (socket.socket(fileno=each) for each in (task.listener, task.channel))
    _keep_from_children(listener, channel)
    try:
        code = _Worker(task, listener, channel).run()
    except KeyboardInterrupt:
        # Exit with the code for Ctrl-C. The worker ignores Ctrl-C, so KeyboardInterrupt means that an agent's code has
        # installed Python's default handler again.
        code = 130
    except BaseException:
        logger.critical("The development server has failed.", exc_info=True)
        code = 2
    sys.stdout.flush()
    sys.stderr.flush()
    # Exit at once. A normal exit would wait for threads of agents and synchronous nodes, which may never end.
    os._exit(code)


def _keep_from_children(*held: socket.socket) -> None:
    """Keep these sockets from the child processes that an agent's code starts.

    A child that outlives the worker would otherwise keep the port open, and the supervisor would not notice the
    worker's end, because the socket to it would stay open too.
    """

    def close() -> None:
        for each in held:
            with contextlib.suppress(OSError):
                each.close()

    for each in held:
        each.set_inheritable(False)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=close)


@dataclass
class _Loaded:
    """What this worker serves."""

    app: "ASGIApp | None" = None
    """App of the agents. None if nothing but an error can be served."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """Reason for each agent that could not be loaded, by agent id. Without an app, the reason has the id ""."""
    at_root: str = ""
    """Id of the agent at the root."""
    is_empty: bool = False
    """True if no agent could be loaded."""
    greeting: str = ""


class _Worker:
    def __init__(self, task: WorkerTask, listener: socket.socket, channel: socket.socket) -> None:
        self._task, self._listener, self._channel = task, listener, channel
        self._folder = DataFolder(Path(task.data_folder))
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._is_serving = False
        self._own: dict[str, str] = {}
        """Environment variables that take precedence over the template's."""
        self._environment: Mapping[str, str] = {}
        """Environment variables with which other commands find the server's store."""
        self._stack: LocalStack | None = None
        self._turns: TurnServices | None = None
        self._pollers: list[Any] = []

    def run(self) -> int:
        """Load the agents and serve them until the supervisor stops this worker. Return the exit code."""
        threading.Thread(target=self._follow_supervisor, name="supervisor", daemon=True).start()
        is_first = self._task.is_first
        slow = threading.Timer(NOTICE_SECONDS, _tell, ["Loading the agents …"])
        slow.daemon = True
        if is_first:
            slow.start()
        try:
            with no_garbage_collection():
                loaded = self._load()
        except (AionError, OSError) as error:
            if is_first:
                _tell(f"Error: {error}")
                return 1
            loaded = _Loaded(failures={"": str(error)})
        finally:
            slow.cancel()
        for failure in loaded.failures.values():
            _tell(f"{failure}\n")
        if is_first and loaded.is_empty:
            _tell("No agent could be loaded." + (" Waiting for an edit." if self._task.reloads else ""))
            if not self._task.reloads:
                return 1
        # Do not use asyncio.run, because at its end it would wait for threads that agents have left running.
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve(loaded))
        return 0

    def _follow_supervisor(self) -> None:
        """Stop when the supervisor closes its socket or ends. Kill this process if it does not end in time."""
        with contextlib.suppress(OSError):
            while self._channel.recv(64):
                pass
        if self._is_serving:
            self._loop.call_soon_threadsafe(self._stopped.set)
            # Wait for longer than the supervisor, which says that it kills this process. It may have been killed itself.
            time.sleep(END_SECONDS + 2)
        if hasattr(os, "killpg"):
            # Kill the whole process group, because without a supervisor no other process ends the agents' child
            # processes.
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    def _report(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._channel.sendall(f"{text}\n".encode(errors="replace"))

    # --- Load ---

    def _load(self) -> _Loaded:
        """Load the agents. Raises ConfigurationError or OSError if nothing can be served."""
        found = self._discover()
        if self._task.error:
            raise ConfigurationError(self._task.error)
        colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        console_log.install(colour=colour, verbose=self._task.verbose, base_url=self._task.base_url)
        self._prepare_store()
        config = self._set_variables(found)
        # Import the agents' code and build the app only after the variables are set, as on Lambda.
        from aion_core.bootstrap import build_app
        from aion_core.loading.aion_yaml.agent import default_agent
        from aion_tools.dev.greeting import agents_greeting
        from aion_tools.dev.load_errors import FailedAgent

        app = build_app(additions=self._additions)
        assert self._turns is not None  # noqa: S101  # `_additions` has set it
        failures, agents = {}, self._turns.agents
        for agent_id, agent in agents.items():
            if (failure := _load_agent(agent_id, agent)) is not None:
                failures[agent_id] = failure
                agent.stand_in(FailedAgent(failure))
        greeting = ""
        if self._task.is_first:
            has_keys = self._task.auth == "on" and self._task.store != "memory"
            header = _developer_header(config, failures) if has_keys else ""
            greeting = agents_greeting(self._task, self._turns.configs, agents, failures, header)
        return _Loaded(app, failures, default_agent(self._turns.configs), len(failures) == len(agents), greeting)

    def _discover(self) -> "Discovered":
        """Search for the agents, and watch their folders for edits."""
        from aion_core.loading.discovery.discover import discover, project_above

        path = Path(self._task.path)
        folders = [path if path.is_dir() else path.parent]
        try:
            found = discover(path)
            folders = [found.folder, *found.roots]
        finally:
            # Watch the place of an invalid aion.yaml too, because the next edit may correct it.
            if self._task.reloads:
                self._watch(folders)
        if self._task.is_first:
            for text in (found.found, *found.notices):
                _tell(text)
            if found.config is None and (above := project_above(Path.cwd())) is not None:
                _tell(f"Not used: the aion.yaml in {above}. `aion dev {os.path.relpath(above)}` serves it.")
        return found

    def _watch(self, folders: Iterable[Path]) -> None:
        from aion_tools.dev.watcher import Watcher, named

        def failed(error: Exception) -> None:
            _tell(f"Cannot watch for edits: {error}. Restart the server after an edit.")

        Watcher(folders, self._folder, lambda paths: self._report(f"edited {named(paths)}"), failed).start()

    def _prepare_store(self) -> None:
        """Delete stored data for --fresh. Make queue messages visible again that an ended worker had received."""
        from aion_core.bootstrap.stores import QUEUES_FILE
        from aion_core.local.sqlite.message_queue import release_messages

        is_fresh, store = self._task.fresh and self._task.is_first, self._folder.path / STORE
        if self._task.store != "memory":
            # Write no log file for a server in memory: only `aion why` reads it, and cannot read this server's tasks.
            log_file.install(log_file.prepare(self._folder.path, fresh=is_fresh))
        if self._task.store == "sqlite":
            if is_fresh and store.exists():
                try:
                    shutil.rmtree(store)
                except OSError as error:
                    raise ConfigurationError(f"Cannot delete {store}: {error.strerror}.") from error
            release_messages(store / QUEUES_FILE)

    def _set_variables(self, found: "Discovered") -> Path:
        """Set the environment variables of the agents and the server. Return the value of AION_CONFIG."""
        from aion_tools.dev.environment import agents_variables, server_environment

        variables, warnings = agents_variables(found, os.environ)
        for warning in warnings:
            _tell(f"Warning: {warning}")
        config = _config(Path(self._task.path), found)
        self._own = own = {**server_environment(self._task, {**variables, **os.environ}), "AION_CONFIG": str(config)}
        self._environment = {name: own[name] for name in (SQLITE, "AION_RETENTION_DAYS") if name in own}
        os.environ.update({**variables, **own})
        sys.path[:0] = [str(shipped())]
        if self._task.template:
            from aion_tools.stack.stack import LocalStack
            from aion_tools.template.reader import Place

            self._stack = LocalStack.at(self._task.template, Place(*self._task.place))
            self._environment = self._stack.environment("ApiFunction")
            # Remove AWS_PROFILE, because boto3 fails if this machine has no such profile, although the emulator needs
            # none.
            os.environ.pop("AWS_PROFILE", None)
            os.environ.update({**self._environment, **own})
        return config

    def _additions(self, settings: "Settings", turns: "TurnServices") -> "AppAdditions":
        from aion_tools.dev.console.additions import console_additions

        self._turns = turns
        return console_additions(settings, turns)

    # --- Serve ---

    async def _serve(self, loaded: _Loaded) -> None:
        import uvicorn

        from aion_core.engine.process.deadline import Deadline
        from aion_core.web.middleware.loopback import LoopbackOnlyMiddleware
        from aion_core.web.request.call_context import DEADLINE
        from aion_tools.dev.http_protocol import HeaderTimeoutProtocol, stop_accepting
        from aion_tools.dev.load_errors import LoadErrors
        from aion_tools.dev.request_log import RequestLogMiddleware

        ends = Deadline(grace=TURN_GRACE, leave=self._loop.create_future())
        if loaded.app is not None:
            self._start_turns_with(ends)
        self._loop.set_exception_handler(_log_unhandled)
        app = LoadErrors(loaded.app, loaded.failures, loaded.at_root)

        async def with_end(scope: "Scope", receive: "Receive", send: "Send") -> None:
            await app({**scope, DEADLINE: ends} if scope["type"] == "http" else scope, receive, send)

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
                worker._serves(loaded)

        server = WorkerServer(
            uvicorn.Config(
                RequestLogMiddleware(LoopbackOnlyMiddleware(with_end)),
                http=HeaderTimeoutProtocol,
                ws="none",
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=CUT_SECONDS,
            )
        )
        serving = asyncio.ensure_future(server.serve([self._listener]))
        await asyncio.wait({serving, asyncio.ensure_future(self._stopped.wait())}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            # Close the listeners now, because uvicorn notices `should_exit` up to 0.1 s later and would accept connections
            # until then. Further clients wait for the next worker.
            await stop_accepting(server)
            self._stop_serving(server, ends)
        await serving
        await self._turns_ended()

    def _start_turns_with(self, ends: "Deadline") -> None:
        """Let turns from the queues end with this process."""
        assert self._turns is not None  # noqa: S101  # there is an app
        if self._turns.background is not None:
            self._turns.background.deadline = ends
        if self._stack is not None:
            handler = task_function_on(self._turns.worker, self._loop, ends)
            self._pollers = self._stack.pollers({"TaskFunction": handler}, environ=self._own)

    def _serves(self, loaded: _Loaded) -> None:
        """Tell the supervisor, the other commands and the developer that this worker serves."""
        task = self._task
        self._is_serving = True
        self._report("serving")
        try:
            endpoint = task.place[2] if task.place else ""
            self._folder.announce(RunningServer(os.getppid(), task.base_url, endpoint, self._environment))
        except OSError as error:
            _tell(f"Cannot write to {self._folder.path} ({error.strerror}): other commands cannot find this server.")
        if task.is_first:
            print(clean(loaded.greeting), flush=True)
            if task.opens_browser:
                import click

                click.launch(task.base_url)
            return
        what = "Reloaded" + (" with errors" if loaded.failures else "")
        why = f" after an edit of {task.edited}" if task.edited else ""
        until = ". Until the next edit, the server answers with the errors" if loaded.failures else ""
        seconds = time.monotonic() - task.since
        _tell(f"{time.strftime('%H:%M:%S')}  {what}{why} ({seconds:.1f} s){until}.")

    def _stop_serving(self, server: Any, ends: "Deadline") -> None:
        """Start no more turns, hand off the running turns, and end the streams after a grace period."""
        # Hide uvicorn's log messages about cancelled streams, because the worker itself cancels them.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        for connection in list(server.server_state.connections):
            connection.shutdown()
        for poller in self._pollers:
            poller.stop()
        if self._turns is not None and self._turns.background is not None:
            self._turns.background.stop()
        server.should_exit = True
        ends.now.set()
        assert ends.leave is not None  # noqa: S101  # see `_serve`
        self._loop.call_later(TURN_GRACE, ends.leave.set_result, None)

    async def _turns_ended(self) -> None:
        """Wait until turns from queues are handed off, up to a time limit."""
        deadline = time.monotonic() + HANDOFF_SECONDS
        for poller in self._pollers:
            # Wait in a thread, so that the event loop stays free: the poller's turns need it to reach their end.
            await asyncio.to_thread(poller.join, deadline, polls=False)
        if self._turns is not None and self._turns.background is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._turns.background.join(), HANDOFF_SECONDS)


def task_function_on(
    worker: "Worker", loop: asyncio.AbstractEventLoop, ends: "Deadline"
) -> Callable[[Any, Any], dict[str, Any]]:
    """Return a handler in place of TaskFunction's. It runs turns on `loop` until `ends` hands them off.

    In this process, HTTP requests and queue messages share the agents' modules. An HTTP client in such a module works
    on one event loop only, so turns run on the loop of the HTTP server. On Lambda, each function has its own process
    and event loop.
    """
    from aion_core import log
    from aion_core.bootstrap import wake_up_of

    async def run(body: str) -> None:
        wake_up = wake_up_of(body)
        log.note(context_id=wake_up.context.context_id, agent=wake_up.context.agent)
        with log.request(str(uuid4())):
            await worker.handle(wake_up, deadline=ends)

    def handle(event: Any, context: Any) -> dict[str, Any]:
        failed = []
        for record in event["Records"]:
            try:
                asyncio.run_coroutine_threadsafe(run(record["body"]), loop).result()
            except Exception:  # a turn may raise any exception
                logger.exception("A message of the task queue was not handled.")
                failed.append({"itemIdentifier": record["messageId"]})
        return {"batchItemFailures": failed}

    return handle


def _config(path: Path, found: "Discovered") -> Path:
    """Return the value of AION_CONFIG: the path of the aion.yaml, or the file, folder or module with the agents."""
    if found.config is not None:
        return found.config
    place, colon, name = str(path).partition(":")
    return Path(f"{Path(place).resolve()}{colon}{name}") if Path(place).exists() else path


def _tell(text: str) -> None:
    """Print to standard error a text that may quote the agents' code."""
    print(clean(text), file=sys.stderr, flush=True)


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


def _log_unhandled(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    logger.error(context.get("message", "Unhandled error."), exc_info=error)


if __name__ == "__main__":
    main()
