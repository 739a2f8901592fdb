"""Supply chain: write a bill of materials, and audit the packages in uv.lock with pip-audit.

pip-audit queries PyPI's JSON API for each locked package. Mirrors of PyPI often lack this API. Then pip-audit queries the
OSV database. The audit fails without an answer for every package. A failed audit prints a warning. With AUDIT=required, as
in a release pipeline, it is an error.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aion_core.loading.frameworks import extras
from aion_tools.programs import UvMissing, find_uv

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache"
REQUIREMENTS = ROOT / "scripts" / "audit-requirements.txt"
SBOM = CACHE / "sbom.cdx.json"

# uv options that select the packages in a deployment, for the bill of materials. The audit uses _ALL instead, which
# includes packages for tests and builds.
_SHIPPED = [
    "--no-default-groups",
    "--group",
    "agents",
    "--extra",
    "api",
    "--extra",
    "queue",
    *(argument for extra in sorted(extras()) for argument in ("--extra", extra)),
]
_ALL = ["--all-extras", "--all-groups"]

SERVICES = ("pypi", "osv")
"""Vulnerability services in the order of queries. Both contain the PyPA's advisories."""


class NotAudited(Exception):
    """Error if the audit could not be made. The message states the reason."""


@dataclass(frozen=True, slots=True)
class Vulnerable:
    """Known vulnerability of a locked package."""

    name: str
    version: str
    id: str
    fixed_in: tuple[str, ...]

    def __str__(self) -> str:
        fix = f"fixed in {', '.join(self.fixed_in)}" if self.fixed_in else "not fixed yet"
        return f"{self.name} {self.version}: {self.id}, {fix}"


def write_sbom(path: Path = SBOM) -> Path:
    """Write the bill of materials of a deployment as CycloneDX 1.5, and return the path of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["export", "--frozen", "--quiet", "--format", "cyclonedx1.5", *_SHIPPED, "--output-file", str(path)]
    _run([find_uv(), *command, "--preview-features", "sbom-export"])
    return path


def audit() -> list[Vulnerable]:
    """Return the known vulnerabilities of the packages in uv.lock. Raises NotAudited."""
    locked = CACHE / "locked.txt"
    locked.parent.mkdir(parents=True, exist_ok=True)
    export = ["export", "--frozen", "--quiet", "--no-emit-project", "--format", "requirements.txt", *_ALL]
    _run([find_uv(), *export, "--output-file", str(locked)])
    return first_answer(lambda service: audited(locked, service))


def first_answer(ask: Callable[[str], list[Vulnerable]]) -> list[Vulnerable]:
    """Query the vulnerability services in order, and return the first complete answer. Raises NotAudited."""
    reasons = []
    for service in SERVICES:
        try:
            return ask(service)
        except NotAudited as error:
            reasons.append(f"{service}: {error}")
    raise NotAudited("\n  ".join(reasons))


def audited(requirements: Path, service: str) -> list[Vulnerable]:
    """Audit a file of pinned requirements with one vulnerability service. Raises NotAudited."""
    options = ["--disable-pip", "--require-hashes", "--progress-spinner", "off", "--format", "json", "--timeout", "10"]
    ran = subprocess.run(  # noqa: S603  # a fixed command without a shell
        [str(_pip_audit()), *options, "--vulnerability-service", service, "--requirement", str(requirements)],
        capture_output=True,
        text=True,
    )
    return vulnerabilities(ran.stdout, ran.stderr)


def vulnerabilities(report: str, errors: str) -> list[Vulnerable]:
    """Parse the vulnerabilities in a report of pip-audit. Raises NotAudited for an unreadable report or skipped packages."""
    try:
        packages = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = errors.strip().splitlines()[-1:] or ["no output"]
        raise NotAudited(last[0]) from None
    if skipped := [each for each in packages if "skip_reason" in each]:
        raise NotAudited(
            f"{len(skipped)} of {len(packages)} packages skipped; first reason: {skipped[0]['skip_reason']}"
        )
    return [
        Vulnerable(each["name"], each["version"], found["id"], tuple(found["fix_versions"]))
        for each in packages
        for found in each["vulns"]
    ]


def _pip_audit() -> Path:
    """Install the pinned pip-audit in a separate environment, and return the path of its program."""
    home = CACHE / "pip-audit"
    programs = home / ("Scripts" if sys.platform == "win32" else "bin")
    stamp = home / REQUIREMENTS.name
    if not stamp.is_file() or stamp.read_bytes() != REQUIREMENTS.read_bytes():
        _run([find_uv(), "venv", "--quiet", "--clear", "--python", sys.executable, str(home)])
        install = ["pip", "install", "--quiet", "--python", str(programs / "python"), "--require-hashes"]
        _run([find_uv(), *install, "-r", str(REQUIREMENTS)])
        stamp.write_bytes(REQUIREMENTS.read_bytes())
    return programs / "pip-audit"


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)  # noqa: S603  # a fixed command without a shell
    if done.returncode:
        raise NotAudited(f"{' '.join(command[:3])} failed: {done.stderr.strip()}")


def main() -> int:
    """Write the bill of materials, audit uv.lock, print the result and return the exit code."""
    try:
        print(f"The bill of materials: {write_sbom().relative_to(ROOT)}")
        found = audit()
    except (NotAudited, UvMissing) as error:
        print(f"\n  *** THE LOCK WAS NOT AUDITED. Its packages may be vulnerable. ***\n  {error}\n", file=sys.stderr)
        return 1 if os.environ.get("AUDIT") == "required" else 0
    for each in found:
        print(each, file=sys.stderr)
    print(f"{len(found)} known vulnerabilities in the lock.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
