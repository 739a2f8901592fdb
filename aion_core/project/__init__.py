"""A project that depends on aion-lambda: made, upgraded, and given more packages."""

from aion_core.errors import AionError


class ProjectError(AionError):
    """The project cannot be made, upgraded or given a package; the sentence says what to do."""


class InvalidName(ProjectError):
    """The name cannot be that of a folder, a Python distribution and a CloudFormation stack."""
