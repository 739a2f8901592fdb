"""This machine: Python, tools, aion.yaml, the agents' code, the template, the port."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from aion_core.agents.config import DeploymentConfig, default_agent, read_deployment_config
from aion_core.agents.config_sections import variable_name
from aion_core.agents.discovery import discover
from aion_core.agents.environment import read_dotenv
from aion_core.agents.frameworks import FRAMEWORKS
from aion_core.agents.security import declared_securities
from aion_core.cli.checks.check import Check, failed, ok, warning
from aion_core.cli.dev import agents_variables
from aion_core.errors import AgentLoadError, ConfigurationError
from aion_core.packaging.interpreters import interpreter

OLDEST = (3, 11)
RUNTIME = (3, 13)
"""What the functions run on, by template.yaml."""

_LAMBDA = ".".join(map(str, RUNTIME))

SLOW_SECONDS = 10.0
"""An environment of Lambda has so long to start; then it starts once more, and is paid for."""

Read = tuple[DeploymentConfig | None, list[Check]]


def machine(port: int) -> Iterator[Check]:
    """Look at Python, at uv, at AWS credentials, and whether `aion dev` could listen."""
    yield _python(sys.version_info[:2], interpreter(_LAMBDA))
    if shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"):
        yield ok("uv", "It is there: `sam build` can make the packages.")
    else:
        yield warning("uv", "It is not there, and `sam build` needs it.", "Run `make dev` or `make test` once.")
    yield _credentials()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            said = f"Port {port} of 127.0.0.1 cannot be used ({error.strerror})."
            do = "Stop what listens there, or choose another: `aion dev --port 8001` (with make: PORT=8001)."
            yield warning("port", said, do)
        else:
            yield ok("port", f"Port {port} of 127.0.0.1 is free.")


def _python(version: tuple[int, ...], of_lambda: str | None) -> Check:
    said = f"Python {version[0]}.{version[1]}."
    if version < OLDEST:
        return failed("python", said, "Python 3.11 or newer is needed.")
    if of_lambda is None:
        more = f"No Python {_LAMBDA} was found: packages are built without compiled files and start slower."
        return warning("python", f"{said} {more}", f"`uv python install {_LAMBDA}` installs one.")
    return ok("python", f"{said} Packages are compiled with {of_lambda}.")


def _credentials() -> Check:
    # Found or not, nobody is asked: a profile's own process or login is left alone.
    named = [name for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_ROLE_ARN") if os.environ.get(name)]
    home = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")).expanduser()
    config = Path(os.environ.get("AWS_CONFIG_FILE", "~/.aws/config")).expanduser()
    if named or home.is_file() or config.is_file():
        return ok("credentials", f"AWS credentials are configured ({', '.join(named) or 'in ~/.aws'}).")
    do = "Before you deploy, run `aws configure sso`, or set AWS_PROFILE."
    return warning("credentials", "No AWS credentials; `aion dev` and the tests need none.", do)


def read(config: Path) -> Read:
    """Return what the file declares, or a folder without one holds, None where it cannot be read, and the checks of it."""
    try:
        declared = read_deployment_config(config)
        found = discover(config) if config.is_dir() else None
        agents = declared.agents
        default_agent(agents)
    except ConfigurationError as error:
        lines = str(error).splitlines()
        return None, [failed("aion.yaml", line, _MEND[config.is_dir()]) for line in lines]
    if found is not None and found.config is None:
        do = "Run `aion init` before you deploy: it writes an aion.yaml, which names secrets and callers."
        checks = [warning("aion.yaml", f"There is none in {config.resolve()}. Found there: {found.found}", do)]
    else:
        checks = [ok("aion.yaml", f"{found.config if found else config} declares {', '.join(agents)}.")]
    try:
        securities = declared_securities(agents)
    except ConfigurationError as error:
        return declared, [*checks, failed("security", str(error), "Mend it in aion.yaml.")]
    if securities:
        schemes = sorted({name for security in securities.values() for name in security.needed})
        checks.append(ok("security", f"Callers are asked for {', '.join(schemes)}."))
    else:
        said = "Nothing is declared of who may call: deployed, only requests signed for AWS IAM are let in."
        checks.append(ok("security", said))
    return declared, checks


_MEND = {
    True: "Run `aion dev`, `aion doctor` and `aion card` in the project's folder, or make an agent: `aion new my-agent`.",
    False: "Mend that line of the file.",
}
"""By whether a folder was searched."""


def environment(config: Path) -> tuple[Mapping[str, str], list[Check]]:
    """Return the variables that `aion dev` would set for the agents, and what is to be said of them and of secrets."""
    try:
        discovered, declared = discover(config), read_deployment_config(config)
    except ConfigurationError:
        # `read` says it.
        return {}, []
    try:
        variables, warnings = agents_variables(discovered, os.environ)
        dotenv = {name for file in discovered.env_files for name in read_dotenv(file)}
    except ConfigurationError as error:
        return {}, [failed("environment", str(error), "Mend the file, or take it away.")]
    found = [
        warning("environment", each, "The variable is read from .env here, and from AWS there.") for each in warnings
    ]
    if open_ := [name for name in declared.environment if _SECRET_NAME.search(name)]:
        said = f"{', '.join(open_)} in aion.environment: whoever reads the package or the repository reads the value."
        found.append(warning("environment", said, "If it is secret, name it under aion.secrets; change the value."))
    if local := sorted(dotenv - {*declared.environment, *declared.secrets} - _of_this_machine(dotenv)):
        said = f"{', '.join(local)} {'is' if len(local) == 1 else 'are'} only in .env, which is never deployed."
        do = "Name it under `secrets` in aion.yaml; under `environment` only if everybody may read its value."
        found.append(warning("environment", said, do))
    if variables and not found:
        places = {
            "from aion.yaml": [name for name in variables if name not in dotenv],
            "from .env here": [name for name in variables if name in dotenv],
        }
        said = ", and ".join(f"{', '.join(names)} {place}" for place, names in places.items() if names)
        found.append(ok("environment", f"The agents get {said}."))
    return variables, found


def _of_this_machine(names: Iterable[str]) -> set[str]:
    """Return the names that aion.yaml cannot give to agents, such as AWS_PROFILE: they are for this machine alone."""
    found = set()
    for name in names:
        try:
            variable_name(name)
        except ValueError:
            found.add(name)
    return found


_SECRET_NAME = re.compile(
    r"(_|^)(API_?KEY|SECRET(_KEY)?|PASSWORD|TOKEN|CREDENTIALS|PRIVATE_KEY|ACCESS_KEY)$", re.IGNORECASE
)


def load(declared: DeploymentConfig) -> Iterator[Check]:
    """Import each agent's code, one after the other, as its first turn would."""
    from aion_core.bootstrap.engine import build_agents
    from aion_core.bootstrap.stores import build_stores
    from aion_core.clock import SystemClock
    from aion_core.settings import Settings

    dependencies = build_stores(Settings.from_environ({"AION_STORE": "memory"}), SystemClock()).agents
    agents = declared.agents
    for agent_id, agent in build_agents(agents, declared.folder, dependencies, declared.roots).items():
        name, begun = f"agent {agent_id}", time.monotonic()
        try:
            # What an author's module prints is not what this command says.
            with contextlib.redirect_stdout(sys.stderr):
                agent.load()
        except AgentLoadError as error:
            place = f" ({error.where}{f': {error.source}' if error.source else ''})" if error.where else ""
            yield failed(name, f"{error.what}{place}.", error.do or f"Mend {agents[agent_id].path}.")
            continue
        took = time.monotonic() - begun
        said = f"{agents[agent_id].path} is {PER_TURN if agent.is_per_turn else FRAMEWORKS[agent.framework].title}, loaded in {took:.1f} s."
        if took > SLOW_SECONDS:
            do = "An environment of Lambda may start for 10 s: import less at the module's top, or raise MemorySize."
            yield warning(name, said, do)
        else:
            yield ok(name, said)


PER_TURN = "a factory, which is called for each turn and was not called here"


def template(project: Path | None) -> Iterator[Check]:
    """Run the policy checks of the template, if their tools are installed."""
    if project is None:
        yield warning("template", "There is no template.yaml here.", "Run this in your project's folder.")
        return
    if not (project / "infra" / "policies").is_dir():
        yield ok("template", f"{project / 'template.yaml'} is there; doctor does not check it.")
        return
    command = [sys.executable, "-m", "infra.policies.check"]
    ran = subprocess.run(command, cwd=project, capture_output=True, text=True)  # noqa: S603 - our own words
    if "ModuleNotFoundError" in ran.stderr:
        yield warning("template", "It was not looked at: what checks it is not installed.", "Run `make lint`.")
        return
    found = [line for line in ran.stderr.splitlines() if line] if ran.returncode else []
    yield from (failed("template", problem, "Mend template.yaml; `make lint` says it too.") for problem in found)
    if not found:
        yield ok("template", f"{project / 'template.yaml'} passes its policies.")


def package(config: Path) -> Iterator[Check]:
    """Look at the files that a package of this project would hold, and at those that it leaves out."""
    try:
        from aion_core.packaging.requirements import check
        from aion_core.packaging.run import BuildError
        from aion_core.packaging.selection import select
        from aion_core.packaging.uv import UvMissing
    except ModuleNotFoundError as error:
        yield warning("package", f"{error.name} is missing.", "pip install 'aion-lambda[local]'.")
        return
    folder = config.resolve() if config.is_dir() else config.resolve().parent
    try:
        also = discover(config).requirements
    except ConfigurationError:
        # `read` says it.
        also = ()
    try:
        check(folder, also)
    except BuildError as error:
        yield failed("dependencies", f"{error}.", "Mend it: `aion build` and `aion deploy` stop there.")
    except UvMissing as error:
        yield warning("dependencies", f"uv.lock was not compared with pyproject.toml: {error}", "Install uv.")
    try:
        selection = select(folder)
    except BuildError as error:
        yield failed("package", f"{error}.", "`aion build` and `aion deploy` stop there.")
        return
    for name in selection.credentials:
        yield warning(
            "package", f"{name} has the name of a file with credentials.", "If it has some, name it in .aionignore."
        )
    if selection.private_keys:
        said = f"{', '.join(selection.private_keys)} looks like a private key."
        yield failed(
            "package", said, "Move it out of the project's folder, or name it in .aionignore: no package holds it."
        )
    else:
        yield ok("package", f"{len(selection.files)} files of {folder} go into a package; {selection.summary}.")
