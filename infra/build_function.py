"""Fills the package of one function: its groups of the lock, built for Lambda's processor, and the project's own code.

`sam build` comes here by way of the Makefile (infra/functions.mk), in the project's folder or in a copy of it. Nothing is
compiled, so no docker is needed: every dependency has to have a wheel.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from infra import uv
from infra.frameworks import frameworks_of
from infra.template import Place, Template, TemplateError

ROOT = Path(__file__).resolve().parents[1]
# In a project that has aion-lambda as a dependency the first two come with the others.
OWN_CODE = ("aion", "aion_core", "handlers")
PLATFORMS = {"arm64": "aarch64-manylinux_2_28", "x86_64": "x86_64-manylinux_2_28"}
LAMBDA_LIMIT = 250 * 1024 * 1024
# Names follow from where a stack is; what is built does not.
NOWHERE = Place(account="000000000000", region="us-east-1", endpoint="", stack_name="build")


class BuildError(Exception):
    """The function cannot be built; the message says what to mend."""


def build(function: str, target: Path, environ: Mapping[str, str]) -> None:
    """Put all that the function needs into the folder.

    AION_ARCHITECTURE and AION_PYTHON build it for another processor or Python than template.yaml's defaults.
    """
    architecture = environ.get("AION_ARCHITECTURE")
    template = Template(ROOT / "template.yaml", NOWHERE, {"Architecture": architecture} if architecture else None)
    properties = template.resolved(function, "Runtime", "Architectures")
    (architecture,) = properties.get("Architectures") or ["x86_64"]
    if architecture not in PLATFORMS:
        raise BuildError(f"Lambda has no processor {architecture!r}: AION_ARCHITECTURE may be {' or '.join(PLATFORMS)}")
    python = environ.get("AION_PYTHON") or properties["Runtime"].removeprefix("python")

    config = template.environment(function).get("AION_CONFIG")
    agents = _agent_files(ROOT / config) if config else []
    own_code = list(_own_code(ROOT / config if config else None, agents))
    frameworks = {framework for file in agents for framework in frameworks_of(file, (ROOT / str(config)).parent)}

    target.mkdir(parents=True, exist_ok=True)
    groups = [_group(function), *(f"{framework}-agents" for framework in sorted(frameworks))]
    _install(groups, target, architecture, python)
    for source in own_code:
        _copy(source, target / source.relative_to(ROOT))
    size = _tidied(target)
    print(f"{function}: {size / 1024 / 1024:.0f} MB for {architecture}, Python {python}")
    if size > LAMBDA_LIMIT:
        raise BuildError(f"{function} is larger than the 250 MB that Lambda takes: give its group fewer dependencies")


def _group(function: str) -> str:
    """Return the dependency group of a function: ApiFunction's is api-function."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", function).lower()


def _install(groups: Sequence[str], target: Path, architecture: str, python: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder, "requirements.txt")
        _run(
            [
                uv.find(),
                "export",
                "--quiet",
                "--frozen",
                "--project",
                str(ROOT),
                *(f"--only-group={group}" for group in groups),
                "--no-emit-project",
            ]
            + ["--output-file", str(requirements)]
        )
        _run(
            [uv.find(), "pip", "install", "--quiet", "--target", str(target), "--requirements", str(requirements)]
            + ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--link-mode", "copy"]
            + ["--python-platform", PLATFORMS[architecture], "--python-version", python, "--python", sys.executable]
        )


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603 - no shell, and our own words
    if done.returncode:
        raise BuildError(f"{' '.join(command[:3])} failed:\n{done.stderr.strip()}")


def _own_code(config: Path | None, agents: Sequence[Path]) -> Iterator[Path]:
    """Yield the folders and files of the project that a function may import or read; without a config, no agents.

    Of an agent that is the outermost folder that its file lies in.
    """
    yield from (ROOT / name for name in OWN_CODE if (ROOT / name).is_dir())
    if config is not None:
        yield config
        yield from sorted({ROOT / file.relative_to(ROOT).parts[0] for file in agents})


def _agent_files(config: Path) -> list[Path]:
    if not config.is_file():
        raise BuildError(f"{config.name} is not there, which AION_CONFIG of template.yaml names")
    document: Any = yaml.safe_load(config.read_text(encoding="utf-8"))
    try:
        paths = [agent["path"] for agent in document["aion"]["agents"].values()]
    except (KeyError, TypeError, AttributeError) as error:
        raise BuildError(f"{config.name} names no path for its agents: aion.agents.<id>.path") from error
    return [_agent_file(path, config.parent) for path in paths]


def _agent_file(path: str, folder: Path) -> Path:
    """Return the file of an agent's `file.py[:name]` or `pkg.module[:name]`."""
    module = path.partition(":")[0]
    named = folder / (module if module.endswith(".py") else module.replace(".", "/"))
    found = [each.resolve() for each in (named, named.with_suffix(".py"), named / "__init__.py") if each.is_file()]
    if not found or ROOT not in found[0].parents:
        raise BuildError(f"the agent {path!r} is not in the project's folder")
    return found[0]


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def _tidied(target: Path) -> int:
    """Take away what never runs on Lambda; return the bytes that are left."""
    shutil.rmtree(target / "bin", ignore_errors=True)
    (target / ".lock").unlink(missing_ok=True)
    for wrapper in target.rglob("exec-wrapper.sh"):
        wrapper.chmod(0o755)
    return sum(file.stat().st_size for file in target.rglob("*") if file.is_file())


def main(arguments: list[str] | None = None) -> int:
    """Build a function as `sam build` asks."""
    parser = argparse.ArgumentParser(prog="python -m infra.build_function", description=__doc__)
    parser.add_argument("function", help="its logical id in template.yaml")
    parser.add_argument("target", type=Path, help="the folder to fill ($ARTIFACTS_DIR)")
    given = parser.parse_args(arguments)
    try:
        build(given.function, given.target, os.environ)
    except (BuildError, TemplateError, uv.UvMissing) as error:
        print(f"build of {given.function}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
