"""`aion dev`: the agents of an aion.yaml on loopback, with everything they need in this process."""

import asyncio
import contextlib
import json
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from aion_core.agents.config import AgentConfig, default_agent, read_declared
from aion_core.agents.environment import local_environment
from aion_core.cli import options
from aion_core.cli.key import development_header
from aion_core.errors import ConfigurationError

LOOPBACK = "127.0.0.1"

CHOSEN = (
    "AION_LEASE_SECONDS",
    "AION_MAX_TRIES",
    "AION_BLOCKING_WAIT",
    "AION_RETENTION_DAYS",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
)
"""Parameters of the template that a developer may replace by setting them."""

GRACE_SECONDS = 3
"""How long open streams may take to end after Ctrl-C, and then turns that nobody waits for."""


@click.command(short_help="Serve the agents here; no account, no key.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    envvar="PORT",
    show_default=True,
    show_envvar=True,
    help="Where to listen on 127.0.0.1; 0 takes a free port.",
)
@options.config
@click.option(
    "--store",
    type=click.Choice(["dynamodb", "memory"]),
    default="dynamodb",
    show_default=True,
    help="dynamodb: the production adapters on an embedded emulator. memory: a dict, for measuring.",
)
@click.option(
    "--auth",
    type=click.Choice(["off", "on"]),
    default="off",
    envvar="AUTH",
    show_default=True,
    show_envvar=True,
    help="on: callers are asked for what aion.yaml declares. off: everybody on this machine may call.",
)
def dev(port: int, config: Path, store: str, auth: str) -> None:
    """Serve the agents on loopback: no AWS account, no docker, no key. Ctrl-C stops it and leaves nothing behind."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("aion_core").setLevel(logging.INFO)
    logging.getLogger("aion_core.internal").setLevel(logging.WARNING)
    config = config.expanduser()  # make hands on a ~ as it is
    declared = read_declared(config)
    agents = declared.agents
    variables, unset = local_environment(config, os.environ, declared)
    os.environ.update(variables)
    for warning in unset:
        click.secho(f"aion: {warning}", err=True, fg="yellow")
    project = find_project()
    sys.path[:0] = [str(project)]
    with contextlib.ExitStack() as undo:
        listener = undo.enter_context(_listen(port))
        base_url = f"http://{LOOPBACK}:{listener.getsockname()[1]}"
        environment = {
            **{name: os.environ[name] for name in CHOSEN if name in os.environ},
            "AION_CONFIG": str(config.resolve()),
            "AION_BASE_URL": base_url,
            "AION_STORE": store,
            "AION_AUTH": auth,
            # Nothing stands before this server that could check signatures.
            "AION_FRONTS": "",
            "AION_REVEAL_ERRORS": "true",
            # A developer's own credentials are not for what is being tried: .env has the keys.
            "AION_SECRETS": "off",
            # A developer's webhook listens on this machine.
            "AION_PUSH_HTTP": "true",
            "AION_PUSH_NETWORKS": "127.0.0.0/8,::1/128",
        }
        stack = undo.enter_context(_stack(project)) if store == "dynamodb" else None
        if stack is not None:
            # It may name a profile that is not on this machine, which boto3 would not forgive.
            os.environ.pop("AWS_PROFILE", None)
            os.environ.update(stack.environment("ApiFunction"))
        # The handlers read their settings when they are imported, as they do on Lambda.
        os.environ.update(environment)
        from aion_core.web.loopback import LoopbackOnly
        from handlers.api import app as served

        app = LoopbackOnly(served)
        credentials = development_header(agents, os.environ["AION_TABLE"]) if stack and auth == "on" else ""
        where = f"the stack of template.yaml, emulated at {stack.endpoint}" if stack else "memory"
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(app, listener, greeting(agents, base_url, where, credentials), stack, environment))


def find_project() -> Path:
    """Return the folder with template.yaml, handlers and infra: this one, one above it, or aion's own."""
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).parents[2]):
        if (folder / "template.yaml").is_file() and (folder / "infra").is_dir():
            return folder
    raise ConfigurationError("There is no template.yaml with its infra folder here. Run this in your project's folder.")


@contextlib.contextmanager
def _listen(port: int) -> Iterator[socket.socket]:
    """Bind before anything is started: a port that is taken is said at once."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with listener:
        try:
            listener.bind((LOOPBACK, port))
        except OSError as error:
            raise ConfigurationError(
                f"Port {port} cannot be used ({error.strerror}). Choose another: PORT=8001."
            ) from error
        yield listener


def _stack(project: Path) -> Any:
    from aion_core.local.stack import LocalStack

    return LocalStack.start(project / "template.yaml")


def task_function_on(loop: asyncio.AbstractEventLoop) -> Callable[[Any, Any], Any]:
    """Return TaskFunction's handler, with its turns on this event loop.

    What runs in this process shares the agents' modules, and a client in one of them (httpx', say) belongs to the event
    loop that has used it first. On Lambda each function has a process, and keeps its event loop.
    """
    from handlers import run_task

    async def answer(record: Any, lambda_context: Any) -> None:
        turn = asyncio.run_coroutine_threadsafe(run_task.answer(record, lambda_context), loop)
        try:
            await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            # The server has ended, and the process with this thread is about to: nothing is left to be said.
            await asyncio.get_running_loop().create_future()

    return partial(run_task.handler, answer=answer)


async def _serve(
    app: Any, listener: socket.socket, hello: str, stack: Any | None, environment: Mapping[str, str]
) -> None:
    import uvicorn

    if stack is not None:
        stack.poll({"TaskFunction": task_function_on(asyncio.get_running_loop())}, environ=environment)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            click.echo(hello)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await super().shutdown(sockets)
            if stack is not None:
                # While there is a loop for their turns to end on.
                await asyncio.to_thread(stack.stop_polling, GRACE_SECONDS)

    server = Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=GRACE_SECONDS))
    await server.serve([listener])


def greeting(agents: Mapping[str, AgentConfig], base_url: str, where: str, credentials: str = "") -> str:
    """Return what is printed once the server answers: where each agent does, and what to say to the one at the root."""
    lines = []
    at_root = default_agent(agents)
    for agent_id, agent in agents.items():
        places = [f"{base_url}/agents/{agent_id}/"]
        if agent_id == at_root:
            places.insert(0, f"{base_url}/")
        lines.append(f"{agent.name or agent_id} answers at {' and '.join(places)}")
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendStreamingMessage",
        "params": {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "Hello, who is there?"}]}},
    }
    return "\n".join(
        [
            *lines,
            f"Card: {base_url}/.well-known/agent-card.json",
            f"Tasks are kept in {where}, until this stops.",
            "",
            "Say something:",
            "",
            f"  curl -sN {base_url}/ -H 'Content-Type: application/json' \\",
            *([f"    -H '{credentials}' \\"] if credentials else []),
            f"    -d '{json.dumps(request)}'",
            "",
            "Ctrl-C stops it.",
        ]
    )
