"""Checks of this machine and project, such as the Python version, tools, aion.yaml, agents, template and port."""

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

from aion_core.bootstrap.agent_environment import given_variables
from aion_core.errors import AgentLoadError, ConfigurationError
from aion_core.loading.agent_cards import DESCRIBE_IT, UNDESCRIBED, is_described
from aion_core.loading.aion_yaml.agent import default_agent
from aion_core.loading.aion_yaml.environment import variable_name
from aion_core.loading.aion_yaml.reading import DeploymentConfig
from aion_core.loading.auth_policies import read_auth_policies
from aion_core.loading.deployment import read_deployment_config
from aion_core.loading.discovery.discover import discover
from aion_core.loading.frameworks import FRAMEWORKS
from aion_core.loading.importing.places import LANGGRAPH_JSON
from aion_core.loading.load_errors.remedies import hides_installed_module
from aion_tools.cli.checks import CheckResult, failed, ok, warning
from aion_tools.cli.code_profile import in_memory_agents
from aion_tools.dev.environment import agents_variables, read_dotenv
from aion_tools.programs import interpreter
from aion_tools.template import stacks

OLDEST = (3, 11)
RUNTIME = (3, 13)
"""Python version of the functions, the same as in template.yaml."""

_LAMBDA = ".".join(map(str, RUNTIME))

SLOW_SECONDS = 10.0
"""Lambda's time limit for the start of a function. If it is exceeded, Lambda starts the function again and bills it."""

Read = tuple[DeploymentConfig | None, list[CheckResult]]


def check_machine(port: int) -> Iterator[CheckResult]:
    """Check Python, uv, AWS credentials, and the port of `aion dev`."""
    yield _python(sys.version_info[:2], interpreter(_LAMBDA))
    if shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"):
        yield ok("uv", "uv is installed.")
    else:
        yield warning("uv", "uv is missing, but `sam build` needs it.", "Run `make dev` or `make test` once.")
    yield _credentials()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            message = f"Port {port} of 127.0.0.1 cannot be used ({error.strerror})."
            next_step = "Stop the program listening there, or choose another port: `aion dev --port 8001` (with make: PORT=8001)."
            yield warning("port", message, next_step)
        else:
            yield ok("port", f"Port {port} of 127.0.0.1 is free.")


def _python(version: tuple[int, ...], of_lambda: str | None) -> CheckResult:
    message = f"Python {version[0]}.{version[1]}."
    if version < OLDEST:
        return failed("python", message, "Python 3.11 or newer is needed.")
    if of_lambda is None:
        more = f"No Python {_LAMBDA} was found: packages are built without bytecode and start slower."
        return warning("python", f"{message} {more}", f"Run `uv python install {_LAMBDA}`.")
    return ok("python", f"{message} Packages are compiled by {of_lambda}.")


def _credentials() -> CheckResult:
    # Only look whether credentials are configured, because loading a profile could start its credential process or a
    # login.
    named = [name for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_ROLE_ARN") if os.environ.get(name)]
    home = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")).expanduser()
    config = Path(os.environ.get("AWS_CONFIG_FILE", "~/.aws/config")).expanduser()
    if named or home.is_file() or config.is_file():
        return ok("credentials", f"Found AWS credentials ({', '.join(named) or 'in ~/.aws'}).")
    next_step = "Before you deploy, run `aws configure sso`, or set AWS_PROFILE."
    return warning("credentials", "No AWS credentials. `aion dev` and the tests work without them.", next_step)


def check_config(config: Path) -> Read:
    """Read and check the agents' configuration from an aion.yaml, or from a folder without an aion.yaml.

    Return the configuration (None if it cannot be read) and the results of the checks.
    """
    try:
        found = discover(config) if config.suffix not in (".yaml", ".yml") else None
        declared = read_deployment_config(config)
        agents = declared.agents
        default_agent(agents)
    except ConfigurationError as error:
        lines = str(error).splitlines()
        return None, [failed("aion.yaml", line, _FIXES[not is_file(config)]) for line in lines]
    if found is not None and found.config is None:
        next_step = "Run `aion init` before you deploy: it writes an aion.yaml for secrets and callers."
        message = f"{config.resolve()} has no aion.yaml. Found there: {found.found}"
        if not config.is_dir():
            message = f"No aion.yaml is used. Found: {found.found}"
        checks = [warning("aion.yaml", message, next_step)]
        if found.notices:
            checks.append(warning("langgraph.json", " ".join(found.notices).removeprefix("Warning: "), ""))
    else:
        checks = [ok("aion.yaml", f"{found.config if found else config} declares {', '.join(agents)}.")]
    try:
        policies = read_auth_policies(agents)
    except ConfigurationError as error:
        return declared, [*checks, failed("security", str(error), "Fix it in aion.yaml.")]
    if policies:
        schemes = sorted({name for policy in policies.values() for name in policy.required_schemes})
        checks.append(ok("security", f"Callers authenticate by {', '.join(schemes)}."))
    else:
        message = "aion.yaml declares no callers: a deployment accepts only requests signed for AWS IAM."
        checks.append(ok("security", message))
    return declared, checks


def is_file(config: Path) -> bool:
    """Return True if `config` is a file, or a folder with a langgraph.json."""
    return config.is_file() or (config / LANGGRAPH_JSON).is_file()


_FIXES = {
    True: "Run `aion dev`, `aion doctor` and `aion card` in the project's folder, or create an agent: `aion new my-agent`.",
    False: "Fix this line of the file.",
}
"""Next steps after a configuration error: False has that for a file, True that for a folder or a missing file."""


def check_environment(config: Path) -> tuple[Mapping[str, str], list[CheckResult]]:
    """Check the environment variables and secrets of the agents.

    Return the variables set by `aion dev` for the agents, and the results of the checks.
    """
    try:
        discovered, declared = discover(config), read_deployment_config(config)
    except ConfigurationError:
        # Report no problem here, because `check_config` reports the invalid configuration.
        return {}, []
    given = {name: value for name, value in _of_template(discovered.folder).items() if name not in os.environ}
    try:
        variables, warnings = agents_variables(discovered, os.environ)
        variables = {**given, **variables}
        dotenv = {name for file in discovered.env_files for name in read_dotenv(file)}
    except ConfigurationError as error:
        return {}, [failed("environment", str(error), "Fix the file or remove it.")]
    found = [
        warning("environment", each, "The variable comes from .env on this machine, and from AWS in a deployment.")
        for each in warnings
    ]
    if open_ := [name for name in declared.environment if _SECRET_NAME.search(name)]:
        message = (
            f"{', '.join(open_)} in aion.environment: readers of the package or the repository can read the value."
        )
        found.append(warning("environment", message, "If it is secret, move it to aion.secrets and change the value."))
    if local := sorted(dotenv - {*declared.environment, *declared.secrets, *given} - _of_this_machine(dotenv)):
        message = f"{', '.join(local)} {'is' if len(local) == 1 else 'are'} only in .env, and .env is never deployed."
        next_step = "Name it under `secrets` in aion.yaml, or under `environment` if its value is public."
        found.append(warning("environment", message, next_step))
    if variables and not found:
        by_source = {
            "from aion.yaml": [name for name in variables if name not in dotenv and name not in given],
            "from .env": [name for name in variables if name in dotenv],
            "from template.yaml": [name for name in given if name not in dotenv],
        }
        message = ", and ".join(f"{', '.join(names)} {source}" for source, names in by_source.items() if names)
        found.append(ok("environment", f"The agents get {message}."))
    return variables, found


def _of_template(folder: Path) -> dict[str, str]:
    """Return the agents' variables in the project's template (AgentEnvironment), with logical ids as resources' names."""
    from aion_tools.template.file import TemplateError, load

    try:
        resources = load(folder / "template.yaml")["Resources"].values() if stacks.are_used(folder) else ()
    except TemplateError:
        return {}
    given = [(each.get("Properties") or {}).get("Parameters") or {} for each in resources]
    for value in (each["AgentEnvironment"] for each in given if "AgentEnvironment" in each):
        text = value.get("Fn::Sub", "") if isinstance(value, dict) else value
        with contextlib.suppress(ValueError, ConfigurationError):
            return given_variables(re.sub(r"\$\{([^}]*)\}", r"\1", text if isinstance(text, str) else text[0]))
    return {}


def _of_this_machine(names: Iterable[str]) -> set[str]:
    """Return the names that aion.yaml must not declare: variables of this machine only, such as AWS_PROFILE."""
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


def check_agents(declared: DeploymentConfig) -> Iterator[CheckResult]:
    """Import the code of each agent as the agent's first turn does, and yield the result for each."""
    agents = declared.agents
    for agent_id, agent in in_memory_agents(declared).items():
        name, started = f"agent {agent_id}", time.monotonic()
        try:
            # Print the output of the author's modules to stderr, because stdout is for this command's results.
            with contextlib.redirect_stdout(sys.stderr):
                agent.load()
        except AgentLoadError as error:
            location = f" ({error.where}{f': {error.source}' if error.source else ''})" if error.where else ""
            yield failed(name, f"{error.what}{location}.", error.do or f"Fix {agents[agent_id].path}.")
            continue
        took = time.monotonic() - started
        framework = PER_TURN if agent.is_per_turn else FRAMEWORKS[agent.framework].title
        message = f"{agents[agent_id].path} is {framework}, loaded in {took:.1f} s."
        if took > SLOW_SECONDS:
            next_step = "Lambda limits the start to 10 s: import less at module level, or raise MemorySize."
            yield warning(name, message, next_step)
        else:
            yield ok(name, message)
        if not is_described(agent_id, agents[agent_id], agent.profile()):
            yield warning(f"card {agent_id}", f"{agent_id} {UNDESCRIBED}", DESCRIBE_IT)


PER_TURN = "a factory, called for each turn and not called by this check"


def check_template(project: Path) -> Iterator[CheckResult]:
    """Check template.yaml with the policy checks in scripts/policies, if that folder and its tools are installed."""
    if not (project / "scripts" / "policies").is_dir():
        yield _check_stacks(project)
        return
    command = [sys.executable, "-m", "scripts.policies.check"]
    ran = subprocess.run(command, cwd=project, capture_output=True, text=True)  # noqa: S603 - no shell
    if "ModuleNotFoundError" in ran.stderr:
        yield warning("template", "Not checked: the tools for it are not installed.", "Run `make lint`.")
        return
    found = [line for line in ran.stderr.splitlines() if line] if ran.returncode else []
    yield from (failed("template", problem, "Fix template.yaml; `make lint` prints this too.") for problem in found)
    if not found:
        yield ok("template", f"{project / 'template.yaml'} passes its policy checks.")


def _check_stacks(project: Path) -> CheckResult:
    """Check that the project's template and its nested stacks can be read, and that `.aion/stacks` is not outdated."""
    from aion_tools.template.names import BUILD_PLACE
    from aion_tools.template.reader import FUNCTION, TemplateError, project_template

    try:
        template = project_template(project, BUILD_PLACE)
        for function in template.resources(FUNCTION):
            template.environment(function)
        if stacks.are_used(project) and (project / stacks.FOLDER).is_dir():
            stacks.check(project)
    except TemplateError as error:
        return failed("template", f"{error}.", "Fix template.yaml.")
    except stacks.StacksError as error:
        return warning("template", str(error), f"Run `{stacks.renewing(project)}`.")
    return ok("template", f"{template.path} and its nested stacks can be read.")


def check_package(config: Path) -> Iterator[CheckResult]:
    """Check the project's requirement files, and search the files of its Lambda package for credentials and keys."""
    try:
        from aion_tools.package.declared import check
        from aion_tools.package.secrets import REMEDY, SecretVerdict
        from aion_tools.package.selection import select, top_module
        from aion_tools.programs import BuildError, UvMissing
    except ModuleNotFoundError as error:
        yield warning("package", f"{error.name} is missing.", "pip install 'aion-lambda[local]'.")
        return
    folder = config.resolve() if config.is_dir() else config.resolve().parent
    try:
        also = discover(config).requirements
    except ConfigurationError:
        # Report no problem here, because `check_config` reports the invalid configuration.
        also = ()
    try:
        check(folder, also)
    except BuildError as error:
        yield failed("dependencies", f"{error}.", "Fix it: `aion build` and `aion deploy` would fail.")
    except UvMissing as error:
        yield warning("dependencies", f"uv.lock was not compared with pyproject.toml: {error}", "Install uv.")
    try:
        selection = select(folder)
    except BuildError as error:
        yield failed("package", f"{error}.", "Fix it: `aion build` and `aion deploy` would fail.")
        return
    for file in selection.files:
        name = file.relative_to(folder).as_posix()
        module = top_module(name.removeprefix("src/"))
        if module and hides_installed_module(module, file):
            message = f"{name} has the name of the module {module!r} of an installed package."
            next_step = "Rename it, or add it to .aionignore: `aion build` fails if it is a dependency."
            yield warning("package", message, next_step)
    for finding in selection.with_verdict(SecretVerdict.WARNED):
        yield warning("package", f"Check that this isn't a secret: {finding}.", f"{REMEDY}.")
    if refused := selection.with_verdict(SecretVerdict.REFUSED):
        yield failed("package", f"A package must not contain secrets: {'; '.join(map(str, refused))}.", f"{REMEDY}.")
    else:
        files = "1 file" if len(selection.files) == 1 else f"{len(selection.files)} files"
        yield ok("package", f"A package contains {files} of {folder}; {selection.summary}.")
