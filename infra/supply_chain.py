"""What we are made of, and whether any of it is known to be vulnerable: a bill of materials, and pip-audit over the lock (R16).

pip-audit asks PyPI's JSON API about each locked package, and the OSV database where PyPI does not answer for each of them:
mirrors of PyPI often have its packages and not that API. Where neither does nothing is known, which is said loudly, and is
an error where AUDIT=required, as in a pipeline that releases.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aion_core.agents.frameworks import extras
from aion_core.packaging import uv

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache"
REQUIREMENTS = ROOT / "infra" / "audit-requirements.txt"
SBOM = CACHE / "sbom.cdx.json"

# What a deployment may carry; what tests and builds need is no part of it, but is audited too.
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
"""Who is asked, one after another until one answers for every package: both know the advisories of the PyPA."""


class NotAudited(Exception):
    """pip-audit could not do its work; the text says why."""


@dataclass(frozen=True, slots=True)
class Vulnerable:
    """A locked package that is known to be vulnerable."""

    name: str
    version: str
    id: str
    fixed_in: tuple[str, ...]

    def __str__(self) -> str:
        mend = f"fixed in {', '.join(self.fixed_in)}" if self.fixed_in else "not fixed yet"
        return f"{self.name} {self.version}: {self.id}, {mend}"


def write_sbom(path: Path = SBOM) -> Path:
    """Write what a deployment may carry as CycloneDX 1.5; return where."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["export", "--frozen", "--quiet", "--format", "cyclonedx1.5", *_SHIPPED, "--output-file", str(path)]
    _run([uv.find(), *command, "--preview-features", "sbom-export"])
    return path


def audit() -> list[Vulnerable]:
    """Return which of the locked packages are known to be vulnerable; raises NotAudited."""
    locked = CACHE / "locked.txt"
    locked.parent.mkdir(parents=True, exist_ok=True)
    export = ["export", "--frozen", "--quiet", "--no-emit-project", "--format", "requirements.txt", *_ALL]
    _run([uv.find(), *export, "--output-file", str(locked)])
    return first_answer(lambda service: audited(locked, service))


def first_answer(ask: Callable[[str], list[Vulnerable]]) -> list[Vulnerable]:
    """Return what the first of the services says that knows every package; raises NotAudited where none does."""
    reasons = []
    for service in SERVICES:
        try:
            return ask(service)
        except NotAudited as error:
            reasons.append(f"{service}: {error}")
    raise NotAudited("\n  ".join(reasons))


def audited(requirements: Path, service: str) -> list[Vulnerable]:
    """Return which of the pinned and hashed requirements the service knows as vulnerable; raises NotAudited."""
    options = ["--disable-pip", "--require-hashes", "--progress-spinner", "off", "--format", "json", "--timeout", "10"]
    ran = subprocess.run(  # noqa: S603  # no shell, and our own words
        [str(_pip_audit()), *options, "--vulnerability-service", service, "--requirement", str(requirements)],
        capture_output=True,
        text=True,
    )
    return judged(ran.stdout, ran.stderr)


def judged(told: str, complaint: str) -> list[Vulnerable]:
    """Return what pip-audit's report tells; raises NotAudited where there is none, or it has left a package out."""
    try:
        packages = json.loads(told)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = complaint.strip().splitlines()[-1:] or ["it says nothing"]
        raise NotAudited(last[0]) from None
    if skipped := [each for each in packages if "skip_reason" in each]:
        raise NotAudited(
            f"it left out {len(skipped)} of {len(packages)} packages, the first because: {skipped[0]['skip_reason']}"
        )
    return [
        Vulnerable(each["name"], each["version"], found["id"], tuple(found["fix_versions"]))
        for each in packages
        for found in each["vulns"]
    ]


def _pip_audit() -> Path:
    """Return the program, after installing what the requirements pin: in an environment of its own, as SAM CLI is."""
    home = CACHE / "pip-audit"
    programs = home / ("Scripts" if sys.platform == "win32" else "bin")
    stamp = home / REQUIREMENTS.name
    if not stamp.is_file() or stamp.read_bytes() != REQUIREMENTS.read_bytes():
        _run([uv.find(), "venv", "--quiet", "--clear", "--python", sys.executable, str(home)])
        install = ["pip", "install", "--quiet", "--python", str(programs / "python"), "--require-hashes"]
        _run([uv.find(), *install, "-r", str(REQUIREMENTS)])
        stamp.write_bytes(REQUIREMENTS.read_bytes())
    return programs / "pip-audit"


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)  # noqa: S603  # as above
    if done.returncode:
        raise NotAudited(f"{' '.join(command[:3])} failed: {done.stderr.strip()}")


def main() -> int:
    """Write the bill, audit the lock, and say what came of it."""
    try:
        print(f"The bill of materials: {write_sbom().relative_to(ROOT)}")
        found = audit()
    except (NotAudited, uv.UvMissing) as error:
        print(f"\n  *** THE LOCK WAS NOT AUDITED. Nothing is known of its packages. ***\n  {error}\n", file=sys.stderr)
        return 1 if os.environ.get("AUDIT") == "required" else 0
    for each in found:
        print(each, file=sys.stderr)
    print(f"{len(found)} known vulnerabilities in the lock.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
