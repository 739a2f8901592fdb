"""Runs SAM CLI in a project's folder: `sam build`, and `sam deploy` up to the change set."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from aion_core.deploy.errors import DeployError, remedy
from aion_core.deploy.samconfig import SamConfig, word
from aion_core.errors import AionError
from aion_core.packaging import uv
from aion_core.packaging.file_lock import file_lock

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
            env={**os.environ, **ENVIRONMENT, "PATH": path, **more},
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


ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = Path(__file__).with_name("sam-requirements.txt")
# A checkout keeps it beside the code, where `make clean` finds it; an installed package in the user's cache folder.
HOME = ROOT / ".sam" if (ROOT / "template.yaml").is_file() else platformdirs.user_cache_path("aion-lambda") / "sam"
# It tells AWS about every command otherwise.
ENVIRONMENT = {"SAM_CLI_TELEMETRY": "0"}
OLDEST = (1, 150)
"""The first SAM CLI that knows `ResponseTransferMode`, by which a REST API streams."""


class SamMissing(AionError):
    """SAM CLI is not there and could not be installed."""


def command() -> Path:
    """Return the program `sam`: the one on the path, or, without a new enough one there, what `installed` installs.

    Raises SamMissing.
    """
    found = shutil.which("sam")
    if found and _version_of(found) >= OLDEST:
        return Path(found)
    return installed() / "sam"


def installed() -> Path:
    """Return the folder of SAM's programs (sam, python), after installing what the requirements pin.

    Raises SamMissing.
    """
    programs = HOME / ("Scripts" if sys.platform == "win32" else "bin")
    stamp = HOME / "requirements.sha256"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    with file_lock(HOME):
        if not stamp.is_file() or stamp.read_text() != wanted:
            try:
                program = uv.find()
            except uv.UvMissing as error:
                raise SamMissing(f"SAM CLI is not here, and cannot be installed: {error}") from error
            _run([program, "venv", "--quiet", "--clear", "--python", sys.executable, str(HOME)])
            python = str(programs / "python")
            install = [program, "pip", "install", "--quiet", "--python", python]
            _run([*install, "--require-hashes", "-r", str(REQUIREMENTS)])
            stamp.write_text(wanted)
    return programs


def _version_of(program: str) -> tuple[int, ...]:
    """Return the version that the program names, (0,) for one that names none."""
    told = subprocess.run([program, "--version"], capture_output=True, text=True)  # noqa: S603 - found on the path
    version = re.search(r"(\d+)\.(\d+)\.(\d+)", told.stdout)
    return tuple(map(int, version.groups())) if version and not told.returncode else (0,)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603 - no shell, and our own words
    if done.returncode:
        raise SamMissing(f"SAM CLI could not be installed:\n{done.stderr.strip()}")


def main() -> int:
    """Install it and say where it is."""
    try:
        print(installed() / "sam")
    except SamMissing as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
