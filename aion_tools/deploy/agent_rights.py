"""Template parameters with the rights of agents on AWS: their secrets and their Bedrock models. Pure."""

import re
from collections.abc import Iterable, Iterator

from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.environment import SECRETS_MANAGER, SecretSource
from aion_core.loading.aion_yaml.reading import DeploymentConfig

LONGEST_PARAMETER = 4096
"""Maximum length of a CloudFormation parameter's value, in bytes."""
_SUFFIX = re.compile(r"-[A-Za-z0-9]{6}")
"""Pattern of the suffix that Secrets Manager adds to a secret's name in its ARN."""
_VERSION = re.compile(r":[\w.-]+$", re.ASCII)
_PROFILE = re.compile(r"(us-gov|us|eu|apac|ap|jp|au|ca|global)\.")
"""Prefixes of the ids of Bedrock inference profiles, which name a geography."""


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
    partition = _partition(region)
    if source.service == SECRETS_MANAGER:
        arn = source.name
        if not arn.startswith("arn:"):
            return f"arn:{partition}:secretsmanager:{region}:{account}:secret:{arn}-??????"
        return arn if _SUFFIX.fullmatch(arn[-7:]) else f"{arn}-??????"
    name = _VERSION.sub("", source.name)
    if name.startswith("arn:"):
        return name
    return f"arn:{partition}:ssm:{region}:{account}:parameter/{name.removeprefix('/')}"


def bedrock_models(models: Iterable[str], region: str, account: str) -> str:
    """Return the template parameter BedrockModels. `models` has ids or ARNs of models and inference profiles."""
    return ",".join(dict.fromkeys(_bedrock_arns(models, region, account)))


def _bedrock_arns(models: Iterable[str], region: str, account: str) -> Iterator[str]:
    for model in models:
        if model.startswith("arn:"):
            yield model
        elif _PROFILE.match(model):
            # Name the profile, because the template then permits its models only through this profile.
            yield f"arn:{_partition(region)}:bedrock:{region}:{account}:inference-profile/{model}"
        else:
            yield f"arn:{_partition(region)}:bedrock:{region}::foundation-model/{model}"


def _partition(region: str) -> str:
    """Return the AWS partition of a region, such as "aws" or "aws-cn"."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"
