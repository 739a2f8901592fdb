"""Container images of a deployment."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from aion_core.errors import ConfigurationError
from aion_tools.deploy import cloudformation
from aion_tools.deploy.aws import call, client_of
from aion_tools.deploy.cloudformation import CloudFormationStack
from aion_tools.deploy.errors import AwsRefused
from aion_tools.template import image_form

_REPOSITORY = "AWS::ECR::Repository"


def check_snap_start(project: Path, parameters: Mapping[str, str]) -> None:
    """Raise ConfigurationError for images with SnapStart. The stacks refuse this too, but only after the upload."""
    value = parameters.get("SnapStart", "None")
    if value != "None" and image_form.is_wanted(project):
        raise ConfigurationError(
            f"SnapStart={value} is for zips, and aion.yaml has `image: true`. Remove one of them. Nothing was built."
        )


def repositories(stack: str) -> CloudFormationStack | None:
    """Return the stack with the repositories that `sam deploy --resolve-image-repos` has made for a stack's images."""
    digest = hashlib.md5(stack.encode(), usedforsecurity=False).hexdigest()  # as in SAM CLI
    return cloudformation.find(f"{stack[:104]}-{digest[:8]}-CompanionStack")


def empty(stack: CloudFormationStack) -> None:
    """Delete the repositories of the stack with their images: CloudFormation deletes only empty ones. Raises AwsRefused."""
    ecr = client_of("ecr")
    for each in cloudformation.resources(stack.id):
        if each.type == _REPOSITORY and each.status != "DELETE_COMPLETE":
            try:
                call(ecr.delete_repository, repositoryName=each.physical_id, force=True)
            except AwsRefused as error:
                if error.code != "RepositoryNotFoundException":
                    raise
