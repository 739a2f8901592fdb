"""Creation of projects with aion-lambda as a dependency."""

from aion_core.errors import AionError


class ProjectError(AionError):
    """Error of a project that cannot be created or completed. The message states the next step."""


class InvalidName(ProjectError):
    """Error of a project name unusable for a folder, a Python distribution or a CloudFormation stack."""
