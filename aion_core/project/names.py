"""Names of a project: of its folder, its Python distribution and its stacks. Pure, but for `check`'s look at what is installed and shipped."""

import functools
import re
from importlib.metadata import PackageNotFoundError, distribution, requires
from importlib.resources import files

from aion_core.project import InvalidName
from aion_core.project.origin import DISTRIBUTION

LONGEST = 60
"""Characters of a name: CloudFormation takes 128 for a stack, and puts the stack's name into those of its resources."""

STAGES = ("dev", "prod")
"""A stack for each, as samconfig.toml has them."""

_DISTRIBUTION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?")


def check(name: str) -> None:
    """Raise InvalidName unless a folder, a Python distribution and a CloudFormation stack can have the name."""
    if not _NAME.fullmatch(name):
        raise InvalidName(
            f"{name!r} cannot name a project: it begins with a letter, goes on with letters, digits, - and _, and ends "
            f"with a letter or a digit (Python packages and CloudFormation stacks allow no more)."
        )
    if len(name) > LONGEST:
        raise InvalidName(f"{name!r} has {len(name)} characters; the name of a project has {LONGEST} at most.")
    if normal(name) in _needed() or _is_installed(name):
        raise InvalidName(
            f"{name!r} is the name of a Python package that aion-lambda can depend on, or that is installed here; a project "
            f"of this name could not depend on it. Choose another, such as my-{name}."
        )


def suggested(folder: str) -> str:
    """Return a project's name for a folder of any name; it passes `check`, unless a package has it."""
    letters = re.sub(r"[^A-Za-z0-9_-]+", "-", folder)
    return re.sub(r"^[^A-Za-z]+|[^A-Za-z0-9]+$", "", letters[:LONGEST]) or "agent"


def normal(name: str) -> str:
    """Return the name as Python's packaging compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def stack_name(name: str, stage: str) -> str:
    """Return the name of the project's stack for a stage; CloudFormation allows no underscore."""
    return f"{name.replace('_', '-')}-{stage}"


@functools.cache
def _needed() -> frozenset[str]:
    """Return aion-lambda and all that it depends on, with any extra: a project of such a name cannot be locked."""
    try:
        required = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        required = []
    tested = files("aion_core.packaging").joinpath("tested.txt").read_text(encoding="utf-8").splitlines()
    names = (_DISTRIBUTION_NAME.match(line) for line in (DISTRIBUTION, *required, *tested))
    return frozenset(normal(found[0]) for found in names if found)


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
