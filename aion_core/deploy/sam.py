"""Runs SAM CLI in a project's folder: `sam build`, and `sam deploy` up to the change set."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aion_core.deploy import sam_cli
from aion_core.deploy.errors import DeployError, remedy
from aion_core.deploy.samconfig import SamConfig, word

CAPABILITIES = ("CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND")
SHOWN = 15
"""Number of lines shown of a failure."""

_CHANGE_SET = re.compile(r"arn:[\w-]+:cloudformation:\S+:changeSet/\S+")
_UP_TO_DATE = "No changes to deploy"
# SAM's own progress lines, which surround the output of the package build.
_NOISE = re.compile(
    r"\s*$|Building codeuri:|Build(ing)? |Starting Build|Built |Commands you can use|=====|\[\*\]|Cache is|"
    r".*Running CustomMakeBuilder|.*Current Artifacts Directory|.*Manifest |SAM CLI update available|To download:|.*uv --version"
)

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Sam:
    """SAM CLI for one project, with the options of one environment of its samconfig.toml."""

    program: Path
    project: Path
    saved: SamConfig

    def build(self, tell: Tell, architecture: str) -> None:
        """Build the packages for the processor, "" for the template's; `tell` gets their lines. Raises DeployError."""
        overrides = _overrides({"Architecture": architecture} if architecture else {})
        more = {"AION_ARCHITECTURE": architecture} if architecture else {}
        # A copy of the folder, as SAM would build in otherwise, has neither .venv nor .git.
        command = ["build", "--build-in-source", *self._config(), *overrides]
        code, lines = self._run(command, lambda line: None if _NOISE.match(line) else tell(line), more)
        if code:
            raise DeployError(
                "The packages could not be built.",
                lines=_after(lines, ("Build Failed", "Error:")),
                do="Mend it, and run `aion deploy` again; `aion build` shows the build by itself.",
            )

    def change_set(self, stack: str, region: str, given: Mapping[str, str]) -> str:
        """Upload the packages and make a change set of the stack; return its ARN, "" if nothing changes.

        Raises DeployError.
        """
        template = self.project / ".aws-sam" / "build" / "template.yaml"
        command = ["deploy", "--template-file", str(template), *self._config()]
        command += ["--stack-name", stack, "--region", region]
        command += [] if self.saved.get("s3_bucket") else ["--resolve-s3"]
        command += [] if self.saved.get("capabilities") else ["--capabilities", *CAPABILITIES]
        command += ["--no-execute-changeset", "--no-confirm-changeset", "--no-fail-on-empty-changeset"]
        code, lines = self._run([*command, *_overrides(given)], lambda line: None, {})
        told = "\n".join(lines)
        if found := _CHANGE_SET.search(told):
            return found[0]
        if not code and _UP_TO_DATE in told:
            return ""
        failed = _after(lines, ("Error:",))
        raise DeployError(
            f"The change set of {stack} could not be made.",
            lines=failed,
            do=remedy(" ".join(failed), "Mend it, and run `aion deploy` again; nothing was changed."),
        )

    def _config(self) -> list[str]:
        if not self.saved.path.is_file():
            return []
        return ["--config-file", str(self.saved.path), "--config-env", self.saved.environment]

    def _run(self, arguments: Sequence[str], tell: Tell, more: Mapping[str, str]) -> tuple[int, list[str]]:
        # The package build finds `aion` and uv beside this program first.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        process = subprocess.Popen(  # noqa: S603 - no shell, and our own words
            [str(self.program), *arguments],
            cwd=self.project,
            env={**os.environ, **sam_cli.ENVIRONMENT, "PATH": path, **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        lines = []
        with process:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            for line in process.stdout:
                lines.append(line.rstrip())
                tell(lines[-1])
        return process.returncode, lines


def _overrides(given: Mapping[str, str]) -> list[str]:
    return ["--parameter-overrides", *(word(name, value) for name, value in given.items())] if given else []


def _after(lines: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return the lines from the last that begins with one of the words on; the last lines if none does."""
    said = [line.strip() for line in lines if line.strip()]
    begins = [place for place, line in enumerate(said) if line.startswith(tuple(words))]
    return (said[begins[0] :] if begins else said)[-SHOWN:]
