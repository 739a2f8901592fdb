"""Run code of a built Lambda package in an environment with only Lambda's Python, variables and folder."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aion_tools.package.package import Package
from aion_tools.programs import BuildError, interpreter
from aion_tools.shipped import shipped
from aion_tools.template.names import BUILD_PLACE
from aion_tools.template.reader import Template

# Environment variables that Lambda sets and a function needs to start.
_LAMBDAS = {
    "AWS_REGION": BUILD_PLACE.region,
    "AWS_DEFAULT_REGION": BUILD_PLACE.region,
    "AWS_LAMBDA_FUNCTION_NAME": "check",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
    "AWS_EC2_METADATA_DISABLED": "true",
}
# Program that runs the statements in the new process and prints the result. It measures processor time, because the
# wall time depends on other processes.
_PROGRAM = """
import json, sys, time
first, behind, statements, names = json.loads(sys.argv[1])
sys.path[:0] = [first]
sys.path += behind
began = time.process_time()
exec(statements)
spent = time.process_time() - began
others = [name for name in sys.modules if name.partition(".")[0] not in ("aion", "aion_core", "handlers")]
with open("/proc/self/status") as status:
    peak = next((int(line.split()[1]) for line in status if line.startswith("VmHWM:")), 0)
print(json.dumps([spent, len(others), [name for name in names if name in sys.modules], peak * 1024]))
"""


@dataclass(frozen=True)
class Loaded:
    """Result of a run in a new process: processor time, the loaded modules, and memory."""

    seconds: float
    count: int
    """Number of loaded modules of other packages. Our own are small: one subject a file."""
    modules: frozenset[str]
    """Names among `modules` that were loaded."""
    peak: int
    """Largest memory of the process, in bytes."""


def load(
    package: Package,
    statements: str,
    *,
    modules: Sequence[str] = (),
    config: str | None = None,
    beside: Sequence[Path] = (),
    given: Mapping[str, str] | None = None,
    within: Sequence[str] = (),
) -> Loaded:
    """Run Python statements with a built package. Report which of `modules` are loaded afterwards.

    `config` replaces the template's AION_CONFIG, and `given` further variables. The folders `beside` are added at the
    end of the import path. The command `within` runs Python's command. Raises BuildError if the statements fail, or if
    this machine has no Python of the package's version.
    """
    python = interpreter(package.target.python)
    if python is None:
        raise BuildError(f"no Python {package.target.python} is on this machine")
    template = Template(shipped() / "template.yaml", BUILD_PLACE, {"Architecture": package.target.architecture})
    environ: Mapping[str, str] = {**template.environment(package.function), **_LAMBDAS}
    environ = {**environ, **(given or {})}
    if config:
        environ = {**environ, "AION_CONFIG": config}
    # Without `site`, because the Python of a virtual environment would load what its .pth files name.
    argument = json.dumps([str(package.code), [str(folder) for folder in beside], statements, list(modules)])
    done = subprocess.run(  # noqa: S603 - a fixed program
        [*within, python, "-I", "-S", "-c", _PROGRAM, argument],
        cwd=package.code,
        env=environ,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise BuildError(f"{package.function} does not load: {statements!r}\n{done.stderr.strip()}")
    seconds, count, found, peak = json.loads(done.stdout.splitlines()[-1])
    return Loaded(seconds, count, frozenset(found), peak)
