"""The functions of the template, and what each of them needs of aion-lambda's own requirements."""

from collections.abc import Iterable
from importlib.metadata import requires

from packaging.requirements import Requirement

DISTRIBUTION = "aion-lambda"
PLATFORMS = {"arm64": "aarch64-manylinux_2_28", "x86_64": "x86_64-manylinux_2_28"}
"""uv's name of each of Lambda's processors."""
FUNCTION_EXTRAS = {
    "ApiFunction": ("api",),
    "TaskFunction": ("queue",),
    "PushFunction": ("push", "queue"),
    "SweepFunction": ("aws",),
}
"""Names of the extras of aion-lambda whose requirements each function needs."""
ALL_EXTRAS = frozenset(extra for names in FUNCTION_EXTRAS.values() for extra in names)
"""Names of the extras of all functions."""
CHOSEN_EXTRAS = frozenset({"otel"})
"""Names of the extras of aion-lambda that go into all packages of a project that requires them."""
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
