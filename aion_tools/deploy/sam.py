"""Runs of SAM CLI in a project: `sam build`, and `sam deploy` up to the change set."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from aion_tools.deploy.errors import DeployError, remedy
from aion_tools.deploy.interrupts import DelayedInterrupt, end_group
from aion_tools.deploy.sam_install import ENVIRONMENT
from aion_tools.deploy.samconfig import SamConfig, word
from aion_tools.package.functions import AGENT_FUNCTIONS
from aion_tools.template import image_form

CAPABILITIES = ("CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND")
SHOWN = 15
"""Maximum number of output lines shown for a failure."""
_CHANGE_SET = re.compile(r"arn:[\w-]+:cloudformation:\S+:changeSet/\S+")
_UP_TO_DATE = "No changes to deploy"
_REPOSITORIES = ("resolve_image_repos", "image_repository", "image_repositories")
"""Options of `sam deploy` that choose the repositories of images."""
# Progress lines of SAM and docker. They are removed from the output of `sam build`.
_NOISE = re.compile(
    r"\s*$|Building codeuri:|Build(ing)? |Starting Build|Built |Commands you can use|=====|\[\*\]|Cache is|"
    r".*Running CustomMakeBuilder|.*Current Artifacts Directory|.*Manifest |SAM CLI update available|To download:|.*uv --version"
    r"|Step \d+/| ---> |Removing intermediate container|Successfully (built|tagged) |Setting DockerBuildArgs "
)

Report = Callable[[str], None]


@dataclass(frozen=True)
class Sam:
    """SAM CLI for one project, run with the options of one environment in samconfig.toml."""

    program: Path
    project: Path
    saved: SamConfig

    def build(
        self,
        report: Report,
        *more: str,
        environ: Mapping[str, str] = MappingProxyType({}),
        command: str = "aion deploy",
    ) -> None:
        """Build the packages, with more options of `sam build`. Raises DeployError, which names the command to run again.

        `report` receives the output lines of the build, each once: the builds of two functions print the same notices.
        """
        reported: set[str] = set()

        def report_once(line: str) -> None:
            if not _NOISE.match(line) and line not in reported:
                reported.add(line)
                report(line)

        # Build in the project's folder, because SAM would otherwise build in a copy of it without .venv and .git.
        commands = [[str(self.program), "build", "--build-in-source", *self._config(), *more]]
        if image_form.is_wanted(self.project):
            # SAM calls no makefile for an image, so write the folders of its images first.
            commands.insert(0, [sys.executable, "-m", "aion_tools.cli", "build", *AGENT_FUNCTIONS])
        for each in commands:
            code, lines = self._run(each, report_once, environ)
            if code:
                raise DeployError(
                    "The packages could not be built.",
                    lines=_after(lines, ("Build Failed", "Error:", "aion build:", "aion:")),
                    next_step=f"Fix it and run `{command}` again; `aion build` runs the build alone.",
                )

    def change_set(self, stack: str, region: str, given: Mapping[str, str]) -> str:
        """Upload the packages and create a change set of the stack. Return its ARN, or "" if there are no changes.

        Raises DeployError.
        """
        template = self.project / ".aws-sam" / "build" / "template.yaml"
        command = [str(self.program), "deploy", "--template-file", str(template), *self._config()]
        command += ["--stack-name", stack, "--region", region]
        command += [] if self.saved.get("s3_bucket") else ["--resolve-s3"]
        if image_form.is_wanted(self.project) and not any(map(self.saved.get, _REPOSITORIES)):
            command.append("--resolve-image-repos")
        command += [] if self.saved.get("capabilities") else ["--capabilities", *CAPABILITIES]
        command += ["--no-execute-changeset", "--no-confirm-changeset", "--no-fail-on-empty-changeset"]
        code, lines = self._run([*command, *_overrides(given)], lambda line: None)
        output = "\n".join(lines)
        if found := _CHANGE_SET.search(output):
            return found[0]
        if not code and _UP_TO_DATE in output:
            return ""
        failed = _after(lines, ("Error:",))
        raise DeployError(
            f"The change set of {stack} could not be made.",
            lines=failed,
            next_step=remedy(" ".join(failed), "Fix it and run `aion deploy` again; nothing was changed."),
        )

    def _config(self) -> list[str]:
        if not self.saved.path.is_file():
            return []
        return ["--config-file", str(self.saved.path), "--config-env", self.saved.environment]

    def _run(
        self, command: Sequence[str], report: Report, environ: Mapping[str, str] = MappingProxyType({})
    ) -> tuple[int, list[str]]:
        # Put this Python environment first on PATH, because SAM's build calls `aion` and uv, which must be those of
        # this environment.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        with DelayedInterrupt() as interrupt:
            process = subprocess.Popen(  # noqa: S603 - no shell
                command,
                cwd=self.project,
                env={**os.environ, **ENVIRONMENT, "PATH": path, **environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                # Give SAM a process group, so that its children (make, aion, uv) can be ended with it.
                start_new_session=True,
            )
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            lines = []
            try:
                interrupt.raise_from_now_on()
                with process.stdout:
                    for line in process.stdout:
                        lines.append(line.rstrip())
                        report(lines[-1])
                process.wait()
            except BaseException:
                end_group(process)
                raise
        return process.returncode, lines


def _overrides(given: Mapping[str, str]) -> list[str]:
    return ["--parameter-overrides", *(word(name, value) for name, value in given.items())] if given else []


def _after(lines: Sequence[str], beginnings: Sequence[str]) -> list[str]:
    """Return the output from the first line with one of these beginnings on, but at most the last `SHOWN` lines."""
    stripped = [line.strip() for line in lines if line.strip()]
    begins = [place for place, line in enumerate(stripped) if line.startswith(tuple(beginnings))]
    return (stripped[begins[0] :] if begins else stripped)[-SHOWN:]
