"""Creation of projects with aion-lambda as a dependency, and addition of packages to them."""

from aion_core.errors import AionError


class ProjectError(AionError):
    """Error of a project that cannot be created or extended. The message states the next step."""


class InvalidName(ProjectError):
    """Error of a project name unusable for a folder, a Python distribution or a CloudFormation stack."""
