"""Loads the handler of a built package as Lambda would: its Python, its environment, its folder, and nothing else's."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aion_core.packaging.interpreters import interpreter
from aion_core.packaging.packages import Package
from aion_core.packaging.plan import NOWHERE
from aion_core.packaging.run import BuildError
from aion_core.shipped import shipped
from aion_core.template.reader import Template

# What Lambda sets for every function, and what a start needs to know of it.
_LAMBDAS = {
    "AWS_REGION": NOWHERE.region,
    "AWS_DEFAULT_REGION": NOWHERE.region,
    "AWS_LAMBDA_FUNCTION_NAME": "check",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
    "AWS_EC2_METADATA_DISABLED": "true",
}
# Time of the processor: on a busy machine the clock tells of the others, too.
_PROGRAM = """
import json, sys, time
first, behind, statements, asked = json.loads(sys.argv[1])
sys.path[:0] = [first]
sys.path += behind
began = time.process_time()
exec(statements)
spent = time.process_time() - began
print(json.dumps([spent, [name for name in asked if name in sys.modules]]))
"""


@dataclass(frozen=True)
class Loaded:
    """What some statements cost in a fresh process, and what was loaded after them."""

    seconds: float
    modules: frozenset[str]


def load(
    package: Package,
    statements: str,
    *,
    modules: Sequence[str] = (),
    config: str | None = None,
    beside: Sequence[Path] = (),
) -> Loaded:
    """Run Python statements on a built package; `modules` are those that are asked after.

    `config` replaces the template's AION_CONFIG, and `beside` are folders that Lambda has behind the package. Raises
    BuildError where they fail, or where no Python of the package's version is on this machine.
    """
    python = interpreter(package.plan.python)
    if python is None:
        raise BuildError(f"no Python {package.plan.python} is on this machine")
    template = Template(shipped() / "template.yaml", NOWHERE, {"Architecture": package.plan.architecture})
    environ: Mapping[str, str] = {**template.environment(package.plan.function), **_LAMBDAS}
    if config:
        environ = {**environ, "AION_CONFIG": config}
    asked = json.dumps([str(package.code), [str(folder) for folder in beside], statements, list(modules)])
    done = subprocess.run(  # noqa: S603 - our own words
        [python, "-I", "-c", _PROGRAM, asked], cwd=package.code, env=environ, capture_output=True, text=True
    )
    if done.returncode:
        raise BuildError(f"{package.plan.function} does not load: {statements!r}\n{done.stderr.strip()}")
    seconds, found = json.loads(done.stdout.splitlines()[-1])
    return Loaded(seconds, frozenset(found))
