"""The functions of the template, and what each of them needs of aion-lambda's own requirements."""

from collections.abc import Iterable
from importlib.metadata import requires
from typing import NamedTuple

from packaging.requirements import Requirement

DISTRIBUTION = "aion-lambda"
PLATFORMS = {"arm64": "aarch64", "x86_64": "x86_64"}
"""Python's name of each of Lambda's processors."""
FUNCTION_EXTRAS = {
    "ApiFunction": ("api",),
    "TaskFunction": ("queue",),
    "PushFunction": ("push", "queue"),
    "SweepFunction": ("aws",),
}
"""Names of the extras of aion-lambda whose requirements each function needs."""
AGENT_FUNCTIONS = ("ApiFunction", "TaskFunction")
"""Functions that run agents: `image: true` in aion.yaml makes images of them."""
ALL_EXTRAS = frozenset(extra for names in FUNCTION_EXTRAS.values() for extra in names)
"""Names of the extras of all functions."""
CHOSEN_EXTRAS = {"console": ("ApiFunction",), "otel": tuple(FUNCTION_EXTRAS)}
"""Extras of aion-lambda that a project may require, with the functions into whose packages they then go."""
# Requirements that these functions never import. They are left out of the packages, with their own requirements. Instead of
# this boto3, the functions use the older boto3 of the Lambda runtime (docs/decisions/0016).
UNUSED = {
    "PushFunction": frozenset({"boto3", "click", "google-api-core", "pyyaml"}),
    "SweepFunction": frozenset({"boto3", "click", "google-api-core", "pydantic"}),
}


def agent_extras(frameworks: Iterable[str]) -> list[str]:
    """Return the names of the extras that a function with agents of these frameworks needs besides its own."""
    return [f"{framework}-agent" for framework in sorted(frameworks)]


def required_by(*extras: str) -> list[str]:
    """Return aion-lambda's requirements outside of extras and those of these extras, as `name[extra]>=version`."""
    lines = [Requirement(line) for line in requires(DISTRIBUTION) or ()]
    needed = [
        line
        for line in lines
        if line.marker is None or any(line.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]
    return list(dict.fromkeys(str(line).partition(";")[0].strip() for line in needed))


class Target(NamedTuple):
    """Processor and Python version of a function."""

    architecture: str
    """Lambda's name of the processor, arm64 or x86_64."""
    python: str
    """Python version, such as 3.13."""

    @property
    def options(self) -> list[str]:
        """Options of uv that select the packages for this target."""
        platform = f"{PLATFORMS[self.architecture]}-manylinux_2_28"
        return ["--python-platform", platform, "--python-version", self.python]

    def includes(self, requirement: Requirement, extra: str = "") -> bool:
        """Return True if the requirement's marker holds for this target, with this extra."""
        machine = {
            "sys_platform": "linux",
            "platform_system": "Linux",
            "platform_machine": PLATFORMS[self.architecture],
        }
        python = {"python_version": self.python, "python_full_version": f"{self.python}.0"}
        return requirement.marker is None or requirement.marker.evaluate({**machine, **python, "extra": extra})
