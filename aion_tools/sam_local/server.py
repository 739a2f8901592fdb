"""All functions of a project in containers, with an emulated AWS: start, first request, and end."""

import logging
import os
import shutil
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx

from aion_core.errors import AionError, ConfigurationError
from aion_tools.deploy import sam_install
from aion_tools.deploy.interrupts import DelayedInterrupt
from aion_tools.deploy.sam import Sam
from aion_tools.deploy.samconfig import SamConfig
from aion_tools.dev.data_folder import FOLDER, make_ignored
from aion_tools.sam_local import invocation, packages, reach
from aion_tools.sam_local.child import Child
from aion_tools.sam_local.engine import Engine
from aion_tools.sam_local.env_file import config_of, write_private
from aion_tools.sam_local.reach import LOOPBACK, Reach
from aion_tools.sam_local.variables import agents_variables, in_stack
from aion_tools.stack.stack import SETTINGS, LocalStack
from aion_tools.template import stacks
from aion_tools.template.reader import FUNCTION, template_file

Report = Callable[[str], None]

_IMAGES = "public.ecr.aws/lambda"
_TICK = 0.2
_LISTENS_WITHIN = 120
_FIRST_ANSWER_WITHIN = 300
_AT_ONCE = 1
"""Invocations of a function at once. A warm container takes one, and other messages wait better in their queue."""


class NoAnswer(AionError):
    """`sam local` or ApiFunction does not answer."""


@dataclass(frozen=True)
class Running:
    """The functions, once they answer."""

    config: Path
    """The aion.yaml of their agents."""
    base_url: str
    endpoint: str
    """URL of the emulated AWS."""
    reach: Reach


def serve(
    project: Path, port: int, host: str, more: Sequence[str], report: Report, greet: Callable[[Running], None]
) -> None:
    """Serve the project's functions until Ctrl-C or SIGTERM, which raise KeyboardInterrupt once all has been removed.

    `host` is the address of this machine for containers, or "" to find it. `more` are options of `sam local start-api`.
    `report` receives what is being done, and `greet` is called once the functions answer. Raises AionError, BuildError, EmulatorError, TemplateError or UvMissing.
    """
    _check(project, port)
    with DelayedInterrupt() as interrupt, ExitStack() as made:
        interrupt.raise_from_now_on()
        try:
            _serve(_Run(project, port or _free_port(), host, more, report, interrupt, made), greet)
        finally:
            interrupt.delay()
            report("Removing the containers and the packages …")


@dataclass(frozen=True)
class _Run:
    project: Path
    port: int
    host: str
    more: Sequence[str]
    report: Report
    interrupt: DelayedInterrupt
    made: ExitStack
    """What is to be removed at the end, the last first."""

    @property
    def folder(self) -> Path:
        """Folder of this run's files. No other run has this port."""
        return self.project / FOLDER / "sam-local" / str(self.port)

    @property
    def base_url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"


def _check(project: Path, port: int) -> None:
    """Raise ConfigurationError for a folder without a template, and for a port in use."""
    if not (project / "template.yaml").is_file():
        raise ConfigurationError("There is no template.yaml in this folder. Run `aion init` to create it.")
    try:
        socket.create_server((LOOPBACK, port)).close()
    except OSError as error:
        raise ConfigurationError(
            f"Port {port} cannot be used ({os.strerror(error.errno or 0)}). "
            f"Choose another: `{packages.COMMAND} --port {port + 1}` (with make: PORT={port + 1})."
        ) from error


def _serve(run: _Run, greet: Callable[[Running], None]) -> None:
    engine = Engine.found()
    config = config_of(run.project)
    agents, warnings = agents_variables(config, os.environ)
    for warning in warnings:
        run.report(warning)
    program = sam_install.command()
    built = _built(run, program, engine.architecture)
    image = _pulled(run, engine, built)
    _remove_containers(run, engine, built)
    reached = reach.find(engine, image, run.host)
    run.report("Starting the emulated AWS and `sam local` …")
    stack = run.made.enter_context(LocalStack.start(template_file(run.project), host=reached.host))
    functions = stack.template.resources(FUNCTION)
    variables = {
        name: in_stack(stack.environment(name, reached_at=reached.name), reached, run.base_url, agents)
        for name in functions
    }
    lambda_port = _free_port()
    children = _start(run, [str(program), "local"], _options(run, built, variables), _environ(engine), lambda_port)
    lambdas = run.made.enter_context(invocation.client(lambda_port))
    stack.poll({name: invocation.handler(lambdas, name) for name in functions}, at_once=_AT_ONCE)
    run.made.callback(stack.stop_polling, 0)
    # Say nothing of invocations that the end of their containers breaks.
    run.made.callback(logging.disable, logging.CRITICAL)
    _first_answer(run.base_url, children)
    greet(Running(config, run.base_url, stack.endpoint, reached))
    while True:
        for child in children:
            child.check()
        time.sleep(_TICK)


def _built(run: _Run, program: Path, architecture: str) -> packages.Packages:
    make_ignored(run.project / FOLDER)
    if stacks.are_used(run.project):
        stacks.write(run.project)
    shutil.rmtree(run.folder, ignore_errors=True)
    run.folder.mkdir(parents=True)
    run.made.callback(shutil.rmtree, run.folder, ignore_errors=True)
    run.report(f"Building the functions for {architecture} …")
    sam = Sam(program, run.project, SamConfig.read(run.project / "samconfig.toml"))
    return packages.build(sam, run.folder / "build", architecture)


def _pulled(run: _Run, engine: Engine, built: packages.Packages) -> str:
    """Return the name of the image that SAM runs the functions in. Pull it if this machine lacks it."""
    image = f"{_IMAGES}/{built.runtime.replace('python', 'python:')}-{engine.architecture}"
    if not engine.has(image):
        run.report(f"Pulling {image} …")
        engine.pull(image)
    return image


def _remove_containers(run: _Run, engine: Engine, built: packages.Packages) -> None:
    """Remove the containers of an earlier run at this port that was killed, and at the end those that are left."""
    folders = [str(folder) for folder in built.folders]
    engine.remove_containers(folders)
    run.made.callback(engine.remove_containers, folders)


def _options(run: _Run, built: packages.Packages, variables: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Write the files for SAM, and return its options. SAM does not read the project's own, for `sam local` alone."""
    env_file, config = run.folder / "env.json", run.folder / "samconfig.toml"
    # Remove this file early: it has the keys of models, and the removal of the packages takes a while.
    run.made.callback(env_file.unlink, missing_ok=True)
    write_private(env_file, variables)
    config.write_text("version = 0.1\n", encoding="utf-8")
    return [
        *("--template", str(built.template)),
        *("--env-vars", str(env_file)),
        *("--config-file", str(config)),
        *("--warm-containers", "LAZY"),
        "--skip-pull-image",
    ]


def _environ(engine: Engine) -> dict[str, str]:
    """Return the environment variables for SAM, which passes the credentials in it to the containers."""
    environ = {**os.environ, **sam_install.ENVIRONMENT, **SETTINGS}
    # A profile that does not exist is an error, and a token belongs to other credentials.
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN"):
        environ.pop(name, None)
    return environ | ({"DOCKER_HOST": engine.host} if engine.host else {})


def _start(run: _Run, program: list[str], options: list[str], environ: dict[str, str], lambda_port: int) -> list[Child]:
    """Start both commands of SAM, and wait until they listen. They end with the run."""
    children = []
    for command in (
        [*program, "start-lambda", *options, "--port", str(lambda_port)],
        [*program, "start-api", *options, "--port", str(run.port), *run.more],
    ):
        run.interrupt.delay()
        children.append(Child(command, run.project, environ))
        run.made.callback(children[-1].end)
        run.interrupt.raise_from_now_on()
    for child in children:
        # At the end, stop all of them before the wait for the first.
        run.made.callback(child.stop)
    for port in (lambda_port, run.port):
        _wait_for(port, children)
    return children


def _wait_for(port: int, children: Sequence[Child]) -> None:
    deadline = time.monotonic() + _LISTENS_WITHIN
    while time.monotonic() < deadline:
        for child in children:
            child.check()
        try:
            socket.create_connection((LOOPBACK, port), 5).close()
        except OSError:
            time.sleep(_TICK)
        else:
            return
    raise NoAnswer(f"`sam local` does not listen at port {port} after {_LISTENS_WITHIN} seconds.")


def _first_answer(base_url: str, children: Sequence[Child]) -> None:
    """Request the card, which starts the first container. Raises NoAnswer."""
    try:
        answer = httpx.get(f"{base_url}/.well-known/agent-card.json", timeout=_FIRST_ANSWER_WITHIN, trust_env=False)
    except httpx.HTTPError as error:
        for child in children:
            child.check()
        raise NoAnswer(f"The agent card could not be read: {error!r}.") from error
    if answer.is_error:
        status = f"{answer.status_code} {answer.text.strip()[:200]}"
        raise NoAnswer(f"The agent card could not be read: {status}. The function's log above has the reason.")


def _free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as listener:
        return int(listener.getsockname()[1])
