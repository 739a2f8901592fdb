"""`aion dev` serves the agents on the loopback interface of this machine and reloads them after edits."""

import contextlib
import importlib.util
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from aion_core.errors import ConfigurationError
from aion_tools.cli import options
from aion_tools.shipped import shipped

if TYPE_CHECKING:
    from aion_core.loading.discovery.discovered import Discovered
    from aion_tools.dev.backends import Backend
    from aion_tools.dev.messages import AgentsLoaded

LOOPBACK = "127.0.0.1"

CHOSEN = (
    "AION_LEASE_SECONDS",
    "AION_MAX_TRIES",
    "AION_BLOCKING_WAIT",
    "AION_RETENTION_DAYS",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
)
"""Environment variables of the functions that a developer may override. Other values come from the template."""


@click.command(
    cls=options.StoppedByInterrupt,
    short_help="Serve the agents on this machine.",
    epilog="""\b
Examples:
  aion dev
  aion dev ./weather_agent
  aion dev src/agent.py:graph --port 8001
  aion dev langgraph.json --fresh""",
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
@click.option("--fresh", is_flag=True, help="Delete stored data first.")
@click.option("--reload/--no-reload", default=True, envvar="AION_RELOAD", help="Reload the agents after an edit.")
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
    opens_browser: bool,
) -> None:
    """Serve the agents of PATH on 127.0.0.1, without an AWS account, docker or an API key. Ctrl-C stops the server.

    PATH is a folder, a Python file (file.py:name), a module (package.module:name), an aion.yaml or a langgraph.json.
    Without a PATH, the command searches this folder for an aion.yaml, a langgraph.json, an ADK agent, or one Python
    file with an agent.

    An edit of the agents' code or configuration reloads them; running turns resume in the new code. The next start reads
    the stored tasks of the data directory.
    """
    from aion_core.loading.discovery.discover import discover, project_above

    if path is None:
        is_given = context.get_parameter_source("config") is not ParameterSource.DEFAULT
        path = config if is_given or config.is_file() else Path()
    path = path.expanduser()  # expand `~` here, because a `~` in a make variable reaches this command unexpanded
    found = discover(path)
    click.echo("\n".join([found.found, *found.notices]), err=True)
    if found.config is None and (above := project_above(Path.cwd())) is not None:
        click.echo(f"Not used: the aion.yaml in {above}. `aion dev {os.path.relpath(above)}` serves it.", err=True)
    _check_installed(store)
    # Import the server's modules only now, so that a wrong argument is reported without the slow imports.
    from aion_tools.agent_code.imports import frameworks_used
    from aion_tools.dev.data_folder import DataFolder
    from aion_tools.dev.log_file import prepare as prepare_log_file
    from aion_tools.dev.supervisor import DevServer, Supervisor

    folder = DataFolder(data_dir.expanduser().absolute())
    with _listen(port) as listener, folder.locked():
        base_url = f"http://{LOOPBACK}:{listener.getsockname()[1]}"
        template = _template(found.folder) if store == "dynamodb" else None

        def variables() -> tuple[dict[str, str], list[str]]:
            # Discover the agents again for each worker, because an edit may have changed their variables.
            return agents_variables(discover(path), os.environ)

        server = DevServer(
            config=_config(path, found),
            project=shipped(),
            backend=_backend(store, folder.path, template, fresh=fresh),
            template=template,
            base_url=base_url,
            environment={
                **_environment(store, folder.path, base_url, {**variables()[0], **os.environ}),
                "AION_CONFIG": str(_config(path, found)),
                "AION_AUTH": auth,
            },
            variables=variables,
            folder=folder,
            frameworks=frameworks_used([agent.path for agent in found.agents.values()], [found.folder, *found.roots]),
            watched=_watched(found) if reload else [],
            with_key=auth == "on",
            # Write no log file for a server in memory: only `aion why` reads it, and cannot read this server's tasks.
            log_file=prepare_log_file(folder.path, fresh=fresh) if store != "memory" else None,
            greet=_greeter(_config(path, found), base_url, store, folder.path, template, opens_browser=opens_browser),
        )
        code = Supervisor(server, listener).run()
    sys.exit(code)


def _backend(store: str, folder: Path, template: Path | None, *, fresh: bool) -> "Backend":
    """Return the server's storage backend."""
    from aion_tools.dev.backends import Backend, EmulatedAWS, Files
    from aion_tools.dev.data_folder import STORE

    if template is not None:
        return EmulatedAWS(template, folder, fresh=fresh)
    if store == "memory":
        return Backend()
    return Files(folder / STORE, fresh=fresh)


def _environment(store: str, folder: Path, base_url: str, chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the worker's environment variables that take precedence over the template's.

    `chosen` has the developer's own environment, from which only the variables in `CHOSEN` are used.
    """
    from aion_tools.dev.console import RECEIVER_PATH
    from aion_tools.dev.data_folder import STORE

    environment = {
        # Use a short lease, so that the turn of a killed worker is soon taken over, as a developer expects.
        **({} if store == "dynamodb" else {"AION_LEASE_SECONDS": "10"}),
        **{name: chosen[name] for name in CHOSEN if name in chosen},
        "AION_BASE_URL": base_url,
        "AION_STORE": store,
        # Declare no HTTP entry points, because there is no API Gateway or Function URL here that verifies AWS
        # signatures.
        "AION_HTTP_ENTRYPOINTS": "",
        "AION_REVEAL_ERRORS": "true",
        "AION_LOOPBACK_ORIGINS": "true",
        "AION_CONSOLE": "on",
        # Take the agents' keys from .env, and do not read secrets with the developer's own AWS credentials.
        "AION_SECRETS": "off",
        # Permit webhooks on this machine over http, because developers run their webhooks here.
        "AION_PUSH_HTTP": "true",
        "AION_PUSH_NETWORKS": "127.0.0.0/8,::1/128",
        "AION_PUSH_RECEIVER": f"{base_url}{RECEIVER_PATH}",
    }
    if store == "sqlite":
        environment["AION_SQLITE_FOLDER"] = str(folder / STORE)
    elif store == "dynamodb":
        # Limit concurrent calls, because the emulator serves one call at a time. Further calls wait in this process,
        # not in the emulator's sockets.
        environment |= {"AION_STORE_CALLS": "4", "AION_STORE_TIMEOUT": "60"}
    return environment


def _greeter(
    config: Path, base_url: str, store: str, folder: Path, template: Path | None, *, opens_browser: bool
) -> "Callable[[AgentsLoaded, str], str]":
    """Return a function that renders the server's start message and, on request, opens a browser."""
    from aion_core.loading.deployment import read_deployment_config
    from aion_tools.dev.data_folder import STORE
    from aion_tools.dev.greeting import greeting

    def greet(loaded: "AgentsLoaded", endpoint: str) -> str:
        if opens_browser:
            click.launch(base_url)
        storage = "State is stored in memory, until the next reload."
        if store == "sqlite":
            storage = f"State is stored in {_near(folder / STORE)} (SQLite)."
        elif template is not None:
            of = "template of aion-lambda" if template == shipped() / "template.yaml" else _near(template)
            storage = f"State is stored in {_near(folder)} ({of}, emulated at {endpoint})."
        return greeting(
            # Read the configuration at the time of the message, because the developer may have edited it since the
            # start.
            read_deployment_config(config).agents,
            base_url,
            storage,
            loaded.header,
            failed=loaded.failures,
            per_turn=loaded.per_turn,
            undescribed=loaded.undescribed,
            part=loaded.part,
        )

    return greet


def _check_installed(store: str) -> None:
    """Raise ModuleNotFoundError if a package of the server is missing. The server's processes import it later."""
    for name in ("fastapi", "uvicorn", "watchfiles", *(["moto"] if store == "dynamodb" else [])):
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _config(path: Path, found: "Discovered") -> Path:
    """Return the value of AION_CONFIG: the path of the aion.yaml, or the file, folder or module with the agents."""
    if found.config is not None:
        return found.config
    place, colon, name = str(path).partition(":")
    return Path(f"{Path(place).resolve()}{colon}{name}") if Path(place).exists() else path


def agents_variables(found: "Discovered", environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the project's environment variables for its agents, and a warning for each secret without a value.

    Variables set in `environ` are left out. Raises ConfigurationError for an unreadable .env.
    """
    from aion_tools.dev.environment import local_environment, read_dotenv

    if found.config is not None:
        return local_environment(found.config, environ)
    variables = dict(found.env)
    for file in reversed(found.env_files):
        variables |= read_dotenv(file)
    return {name: value for name, value in variables.items() if name not in environ}, []


def _watched(found: "Discovered") -> list[Path]:
    """Return the folders to watch for edits: the project's folder and other import roots, without their subfolders."""
    folders = [found.folder.resolve(), *(root.resolve() for root in found.roots)]
    return [
        each
        for each in dict.fromkeys(folders)
        if not any(each.is_relative_to(other) for other in folders if other != each)
    ]


def _template(folder: Path) -> Path:
    from aion_tools.template.reader import template_file

    return template_file(folder)


def _near(path: Path) -> str:
    """Return the path as text. A path below the current folder becomes relative to it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


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
