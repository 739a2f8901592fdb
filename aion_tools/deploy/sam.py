"""Runs of SAM CLI in a project, with SAM's own output."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from aion_tools.deploy.errors import DeployError
from aion_tools.deploy.interrupts import DelayedInterrupt, end_group
from aion_tools.deploy.sam_install import ENVIRONMENT
from aion_tools.deploy.samconfig import SamConfig, word
from aion_tools.package.functions import AGENT_FUNCTIONS
from aion_tools.template import image_form

CAPABILITIES = ("CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND")


@dataclass(frozen=True)
class Sam:
    """SAM CLI for one project, run with the options of one environment in samconfig.toml."""

    program: Path
    project: Path
    saved: SamConfig

    def build(self, *more: str, environ: Mapping[str, str] = MappingProxyType({})) -> None:
        """Build the packages, with more options of `sam build`. Raises DeployError."""
        if image_form.is_wanted(self.project):
            # SAM calls no makefile for an image, so write the folders of its images first.
            run([f"{Path(sys.executable).parent}/aion", "build", *AGENT_FUNCTIONS], self.project, environ)
        # Build in the project's folder, because SAM would otherwise build in a copy of it without .venv and .git.
        self.run("build", "--build-in-source", *more, environ=environ)

    def deploy(self, stack: str, region: str, given: Mapping[str, str], *more: str) -> None:
        """Upload the packages and deploy the stack with these template parameters. Raises DeployError."""
        options = ["--stack-name", stack, "--region", region, "--no-confirm-changeset", "--no-fail-on-empty-changeset"]
        options += [] if self.saved.get("s3_bucket") else ["--resolve-s3"]
        options += [] if self.saved.get("capabilities") else ["--capabilities", *CAPABILITIES]
        options += ["--parameter-overrides", *(word(name, value) for name, value in given.items())] if given else []
        self.run("deploy", *options, *more)

    def run(self, command: str, *options: str, environ: Mapping[str, str] = MappingProxyType({})) -> None:
        """Run a command of SAM CLI with the options of samconfig.toml. Raises DeployError if it fails."""
        with TemporaryDirectory() as folder:
            config = Path(folder) / "samconfig.toml"
            config.write_text(self.saved.without_profile(), encoding="utf-8")
            chosen = ["--config-file", str(config), "--config-env", self.saved.environment]
            run([str(self.program), command, *options, *chosen], self.project, environ)


def run(command: Sequence[str], folder: Path, environ: Mapping[str, str] = MappingProxyType({})) -> None:
    """Run a command with its own output, and wait for its end. Raises DeployError if it fails."""
    # Put this Python environment first on PATH, because SAM's build calls `aion` and uv, which must be those of this
    # environment.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    with DelayedInterrupt() as interrupt:
        process = subprocess.Popen(  # noqa: S603 - no shell
            command,
            cwd=folder,
            env={**os.environ, **ENVIRONMENT, "PATH": path, **environ},
            stdin=subprocess.DEVNULL,
            # Give SAM a process group, so that its children (make, aion, uv) can be ended with it.
            start_new_session=True,
        )
        try:
            interrupt.raise_from_now_on()
            process.wait()
        except BaseException:
            end_group(process)
            raise
    if process.returncode:
        name = f"{Path(command[0]).name} {command[1]}"
        raise DeployError(f"`{name}` failed, and its output above has the reason.")
