"""`aion dev` serves the agents on the loopback interface of this machine and reloads them after edits."""

import contextlib
import importlib.util
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from aion_core.errors import ConfigurationError
from aion_tools.cli import options

LOOPBACK = "127.0.0.1"


@click.command(
    cls=options.StoppedByInterrupt,
    short_help="Serve the agents on this machine.",
    epilog="""\b
Examples:
  aion dev
  aion dev ./weather_agent
  aion dev src/agent.py:graph --port 8001
  aion dev langgraph.json --fresh
  aion dev -v""",
)
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    envvar="PORT",
    show_default=True,
    show_envvar=True,
    help="Port on 127.0.0.1; 0 for a free one.",
)
@options.config
@click.option(
    "--store",
    type=click.Choice(["sqlite", "dynamodb", "memory"]),
    default="sqlite",
    show_default=True,
    help="sqlite: files in the data directory. dynamodb: the template's resources in an emulated AWS. memory: nothing is "
    "stored, for measuring.",
)
@click.option(
    "--auth",
    type=click.Choice(["off", "on"]),
    default="off",
    envvar="AUTH",
    show_default=True,
    show_envvar=True,
    help="on: callers authenticate as declared in aion.yaml. off: anybody on this machine may call.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".aion"),
    envvar="AION_DATA_DIR",
    show_default=True,
    show_envvar=True,
    help="Folder for tasks, sessions and files; one server at a time.",
)
@click.option("--fresh", is_flag=True, help="Delete the stored data first.")
@click.option("--reload/--no-reload", default=True, envvar="AION_RELOAD", help="Reload the agents after an edit.")
@click.option("-v", "--verbose", is_flag=True, help="Log each step of a turn: nodes, model calls and tool calls.")
@click.option("--open", "opens_browser", is_flag=True, help="Open the server in a browser.")
@click.pass_context
def dev(
    context: click.Context,
    path: Path | None,
    port: int,
    config: Path,
    store: str,
    auth: str,
    data_dir: Path,
    *,
    fresh: bool,
    reload: bool,
    verbose: bool,
    opens_browser: bool,
) -> None:
    """Serve the agents of PATH on 127.0.0.1, without an AWS account, docker or an API key. Ctrl-C stops the server.

    PATH is a folder, a Python file (file.py:name), a module (package.module:name), an aion.yaml or a langgraph.json.
    Without a PATH, the command searches this folder for an aion.yaml, a langgraph.json, an ADK agent, or one Python
    file with an agent.

    Editing the agents' code or configuration reloads them; running turns resume in the new code. Stored tasks are
    still there at the next start.
    """
    if path is None:
        is_given = context.get_parameter_source("config") is not ParameterSource.DEFAULT
        path = config if is_given or config.is_file() else Path()
    path = path.expanduser()  # expand `~` here, because a `~` in a make variable reaches this command unexpanded
    _check_installed(store)
    # Import the server's modules only now, so that a wrong argument is reported without their imports.
    from aion_tools.dev.data_folder import DataFolder
    from aion_tools.dev.supervisor import Supervisor
    from aion_tools.dev.worker_task import WorkerTask

    folder = DataFolder(data_dir.expanduser().absolute())
    with _listen(port) as listener, folder.locked(), _emulated_aws(store, path) as (aws, ended):
        task = WorkerTask(
            path=str(path),
            store=store,
            auth=auth,
            data_folder=str(folder.path),
            base_url=f"http://{LOOPBACK}:{listener.getsockname()[1]}",
            fresh=fresh,
            reloads=reload,
            verbose=verbose,
            opens_browser=opens_browser,
            **aws,
        )
        code = Supervisor(task, listener, ended).run()
    sys.exit(code)


@contextlib.contextmanager
def _emulated_aws(store: str, path: Path) -> Iterator[tuple[dict[str, Any], Callable[[], None]]]:
    """Run the emulated AWS of `--store dynamodb` in this process, so that it outlives the workers.

    Yield the fields of a worker's task that name it, and a function that makes an ended worker's queue messages visible.
    """
    if store != "dynamodb":
        yield {}, lambda: None
        return
    click.echo("Starting the emulated AWS …", err=True)
    from msgspec.structs import astuple

    from aion_core.loading.discovery.discover import discover
    from aion_tools.stack import EmulatorError
    from aion_tools.stack.stack import LocalStack
    from aion_tools.template.reader import TemplateError, template_file

    try:
        stack = LocalStack.start(template_file(discover(path).folder))
    except (EmulatorError, TemplateError) as error:
        raise ConfigurationError(f"The emulated AWS cannot start: {error}.") from error
    with stack:
        yield (
            {"template": str(stack.template.path), "place": astuple(stack.template.place)},
            stack.emulator.release_messages,
        )


def _check_installed(store: str) -> None:
    """Raise ModuleNotFoundError if a package of the server is missing. The server's processes import it later."""
    for name in ("fastapi", "uvicorn", "watchfiles", *(["moto"] if store == "dynamodb" else [])):
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@contextlib.contextmanager
def _listen(port: int) -> Iterator[socket.socket]:
    """Bind the port on the loopback interface and yield the socket. Raises ConfigurationError if the port is in use."""
    # Pass IPPROTO_TCP, so that asyncio sets TCP_NODELAY on connections, which sends small chunks without delay.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with listener:
        try:
            listener.bind((LOOPBACK, port))
        except OSError as error:
            raise ConfigurationError(
                f"Port {port} cannot be used ({error.strerror}). "
                "Choose another: `aion dev --port 8001` (with make: PORT=8001)."
            ) from error
        yield listener
