"""Names of a project's folder, Python distribution and stacks."""

import re
from importlib.metadata import PackageNotFoundError, distribution, requires

from aion_tools.project import InvalidName
from aion_tools.project.origin import DISTRIBUTION

LONGEST = 60
"""Maximum length of a project's name. Stack names begin with it, and CloudFormation limits them to 128 characters."""

STAGES = ("dev", "prod")
"""Names of the environments in samconfig.toml. Each has its own stack."""

_DISTRIBUTION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?")


def check(name: str) -> None:
    """Raise InvalidName for a name unusable as a folder, a Python distribution or a CloudFormation stack."""
    if not _NAME.fullmatch(name):
        raise InvalidName(
            f"{name!r} is not a valid project name. It must begin with a letter, contain only letters, digits, - and _, and "
            f"end with a letter or a digit (the limits of Python packages and CloudFormation stacks)."
        )
    if len(name) > LONGEST:
        raise InvalidName(f"{name!r} has {len(name)} characters; a project name has at most {LONGEST}.")
    if normal(name) in _needed() or _is_installed(name):
        raise InvalidName(
            f"{name!r} is the name of an installed Python package, or of a dependency of aion-lambda; a project of this name "
            f"could not depend on it. Choose another name, such as my-{name}."
        )


def suggested(folder: str) -> str:
    """Return a project name for any folder name, without invalid characters. `check` may still reject the name."""
    letters = re.sub(r"[^A-Za-z0-9_-]+", "-", folder)
    return re.sub(r"^[^A-Za-z]+|[^A-Za-z0-9]+$", "", letters[:LONGEST]) or "agent"


def normal(name: str) -> str:
    """Return the normalized name of a Python distribution (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def stack_name(name: str, stage: str) -> str:
    """Return the name of the project's stack for a stage, without underscores, since CloudFormation allows none."""
    return f"{name.replace('_', '-')}-{stage}"


def _needed() -> set[str]:
    """Return the names of aion-lambda and of what its extras require. uv cannot lock a project with such a name."""
    try:
        required = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        required = []
    names = (_DISTRIBUTION_NAME.match(line) for line in (DISTRIBUTION, *required))
    return {normal(found[0]) for found in names if found}


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
