"""`aion dev`: the agents here on loopback, with all they need; reloaded when their code is edited."""

import contextlib
import importlib.util
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from click.core import ParameterSource

from aion_core.agents.config import read_config
from aion_core.agents.discovery import Discovered, discover, project_above
from aion_core.agents.environment import local_environment, read_dotenv
from aion_core.cli import options
from aion_core.errors import ConfigurationError
from aion_core.shipped import shipped

LOOPBACK = "127.0.0.1"

CHOSEN = (
    "AION_LEASE_SECONDS",
    "AION_MAX_TRIES",
    "AION_BLOCKING_WAIT",
    "AION_RETENTION_DAYS",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
)
"""Parameters of the template that a developer may replace by setting them."""

BACKLOG = 2048


@click.command(
    short_help="Serve the agents here; no account, no key.",
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
    help="Where to listen on 127.0.0.1; 0 takes a free one.",
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
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".aion"),
    envvar="AION_DATA_DIR",
    show_default=True,
    show_envvar=True,
    help="Where tasks, sessions and files are kept from one start to the next; one server at a time.",
)
@click.option("--fresh", is_flag=True, help="Forget what was kept.")
@click.option("--reload/--no-reload", default=True, envvar="AION_RELOAD", help="Reload the agents after an edit.")
@click.option("--open", "opens", is_flag=True, help="Open the server in a browser.")
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
    opens: bool,
) -> None:
    """Serve the agents of PATH on loopback: no AWS account, no docker, no key. Ctrl-C stops it.

    PATH is a folder, a Python file (file.py:name), a module (package.module:name), an aion.yaml or a langgraph.json.
    Without it this folder is searched for an aion.yaml, a langgraph.json, an ADK agent, or one Python file with an agent.

    An edit of the agents' code or configuration reloads them; a turn that runs goes on in the new code. What was kept
    in the data directory is there again at the next start.
    """
    if path is None:
        is_named = context.get_parameter_source("config") is not ParameterSource.DEFAULT
        path = config if is_named or config.is_file() else Path()
    path = path.expanduser()  # make hands on a ~ as it is
    found = discover(path)
    click.echo(found.found, err=True)
    if found.config is None and (above := project_above(Path.cwd())) is not None:
        click.echo(f"Not used: the aion.yaml in {above}; `aion dev {os.path.relpath(above)}` serves it.", err=True)
    config = _config(path, found)
    _check_installed()
    # The server's modules are imported once the arguments are known to be right.
    from aion_core.dev.frameworks import frameworks_used
    from aion_core.dev.greeting import greeting
    from aion_core.dev.messages import Loaded
    from aion_core.dev.place import DataFolder
    from aion_core.dev.supervisor import DevServer, Supervisor

    folder = DataFolder(data_dir.expanduser().absolute())
    with _listen(port) as listener, folder.taken():
        base_url = f"http://{LOOPBACK}:{listener.getsockname()[1]}"

        def greet(loaded: Loaded, endpoint: str) -> str:
            if opens:
                click.launch(base_url)
            is_shipped = template == shipped() / "template.yaml"
            of = "template of aion-lambda" if is_shipped else _near(template)
            where = f"State is kept in {_near(folder.path)} ({of}, emulated at {endpoint})."
            return greeting(
                # As it is by now: it may have been edited.
                read_config(config),
                base_url,
                where if endpoint else "State is kept in memory, until the next reload.",
                loaded.header,
                failed=loaded.failures,
                per_turn=loaded.per_turn,
            )

        def variables() -> tuple[dict[str, str], list[str]]:
            # Read anew for each worker: an edit may have changed it.
            return agents_variables(discover(path), os.environ)

        chosen = {**variables()[0], **os.environ}
        environment = {
            **{name: chosen[name] for name in CHOSEN if name in chosen},
            "AION_CONFIG": str(config),
            "AION_BASE_URL": base_url,
            "AION_STORE": store,
            "AION_AUTH": auth,
            # Nothing stands before this server that could check signatures.
            "AION_FRONTS": "",
            "AION_REVEAL_ERRORS": "true",
            # The emulator answers one call at a time: others wait here, not in its sockets.
            "AION_STORE_CALLS": "4",
            "AION_STORE_TIMEOUT": "60",
            # A developer's own credentials are not for what is being tried: .env has the keys.
            "AION_SECRETS": "off",
            # A developer's webhook listens on this machine.
            "AION_PUSH_HTTP": "true",
            "AION_PUSH_NETWORKS": "127.0.0.0/8,::1/128",
        }
        template = find_template(found.folder)
        server = DevServer(
            config=config,
            project=shipped(),
            template=template if store == "dynamodb" else None,
            base_url=base_url,
            environment=environment,
            variables=variables,
            folder=folder,
            frameworks=frameworks_used([agent.path for agent in found.agents.values()], [found.folder, *found.roots]),
            watched=_watched(found) if reload else [],
            fresh=fresh,
            with_key=auth == "on",
            greet=greet,
        )
        code = Supervisor(server, listener).run()
    sys.exit(code)


def _check_installed() -> None:
    """Raise ModuleNotFoundError where what serves is not installed: it is a process of its own that imports it."""
    for name in ("fastapi", "moto", "uvicorn", "watchfiles"):
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _config(path: Path, found: Discovered) -> Path:
    """Return what AION_CONFIG says: the aion.yaml, or what is searched as `discover` has searched it."""
    if found.config is not None:
        return found.config
    place, colon, name = str(path).partition(":")
    return Path(f"{Path(place).resolve()}{colon}{name}") if Path(place).exists() else path


def agents_variables(found: Discovered, environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that the project sets for its agents, and a sentence for each secret that has no value here.

    What `environ` has stays and is not returned. Raises ConfigurationError where .env cannot be read.
    """
    if found.config is not None:
        return local_environment(found.config, environ)
    variables = dict(found.env)
    for file in reversed(found.env_files):
        variables |= read_dotenv(file)
    return {name: value for name, value in variables.items() if name not in environ}, []


def _watched(found: Discovered) -> list[Path]:
    """Return the folders whose edits reload the agents: the project's, and others that imports start from."""
    folders = [found.folder.resolve(), *(root.resolve() for root in found.roots)]
    return [
        each
        for each in dict.fromkeys(folders)
        if not any(each.is_relative_to(other) for other in folders if other != each)
    ]


def find_template(folder: Path) -> Path:
    """Return the project's own template.yaml, where it has one, else the one of this package."""
    own = folder / "template.yaml"
    # A folder may hold a template of something else.
    if own.is_file() and "ApiFunction" in own.read_text(encoding="utf-8", errors="replace"):
        return own
    return shipped() / "template.yaml"


def _near(path: Path) -> str:
    """Return the path as it is named from here, where it is below."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


@contextlib.contextmanager
def _listen(port: int) -> Iterator[socket.socket]:
    """Bind before anything is started: a port that is taken is said at once."""
    # With the protocol named, asyncio sets TCP_NODELAY on its connections: a chunk does not wait for the one before.
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
