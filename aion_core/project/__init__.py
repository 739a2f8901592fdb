"""Projects with aion-lambda as a dependency: creation, upgrade, and addition of packages."""

from aion_core.errors import AionError


class ProjectError(AionError):
    """A project cannot be created, upgraded or extended; the message states the next step."""


class InvalidName(ProjectError):
    """A folder, a Python distribution or a CloudFormation stack cannot have the name."""
