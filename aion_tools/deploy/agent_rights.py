"""Template parameters with the rights of agents on AWS: to read their secrets."""

import re

from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.environment import SECRETS_MANAGER, SecretSource
from aion_core.loading.aion_yaml.reading import DeploymentConfig
from aion_tools.deploy.aws import partition_of
from aion_tools.template.constraints import LONGEST_PARAMETER

_SUFFIX = re.compile(r"-[A-Za-z0-9]{6}")
"""Pattern of the suffix that Secrets Manager adds to a secret's name in its ARN."""
_VERSION = re.compile(r":[\w.-]+$", re.ASCII)


def template_parameters(declared: DeploymentConfig, region: str, account: str) -> dict[str, str]:
    """Return the template parameters that let the Lambda functions read the secrets named in aion.yaml.

    If aion.yaml names no secret, `AgentSecrets` is empty, so that an update removes the permission. Raises
    ConfigurationError if the secrets' ARNs exceed the maximum length of a parameter.
    """
    arns = ",".join(dict.fromkeys(_secret_arn(source, region, account) for source in declared.secrets.values()))
    if len(arns) > LONGEST_PARAMETER:
        raise ConfigurationError(
            f"aion.secrets: the ARNs of these secrets have {len(arns)} characters, and the template parameter AgentSecrets "
            f"takes {LONGEST_PARAMETER}. Put several values into one secret, as keys of a JSON object (name#key)."
        )
    return {"AgentSecrets": arns}


def _secret_arn(source: SecretSource, region: str, account: str) -> str:
    partition = partition_of(region)
    if source.service == SECRETS_MANAGER:
        arn = source.name
        if not arn.startswith("arn:"):
            return f"arn:{partition}:secretsmanager:{region}:{account}:secret:{arn}-??????"
        return arn if _SUFFIX.fullmatch(arn[-7:]) else f"{arn}-??????"
    name = _VERSION.sub("", source.name)
    if name.startswith("arn:"):
        return name
    return f"arn:{partition}:ssm:{region}:{account}:parameter/{name.removeprefix('/')}"
