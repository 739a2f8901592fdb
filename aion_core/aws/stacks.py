"""What CloudFormation knows of a deployed stack, as the environment variables that its functions have."""

from collections.abc import Mapping

from aion_core.aws.client import AwsClient
from aion_core.errors import ConfigurationError, StoreError

OUTPUTS = {
    "TableName": "AION_TABLE",
    "BucketName": "AION_BUCKET",
    "TaskQueueUrl": "AION_TASK_QUEUE_URL",
    "PushQueueUrl": "AION_PUSH_QUEUE_URL",
    "KeyArn": "AION_KMS_KEY",
}
PARAMETERS = {
    "BaseUrl": "AION_BASE_URL",
    "LeaseSeconds": "AION_LEASE_SECONDS",
    "MaxTries": "AION_MAX_TRIES",
    "RetentionDays": "AION_RETENTION_DAYS",
    "CredentialsKey": "AION_KMS_KEY",
    "BasicUsersSecret": "AION_BASIC_USERS_SECRET",
    "CardKeySecret": "AION_CARD_KEY_SECRET",
}
URLS = {"ApiUrl": "AION_API_URL", "FunctionUrl": "AION_FUNCTION_URL"}
"""Outputs that no function reads: where the deployment is reached."""
RIGHTS = {"AgentSecrets": "AION_AGENT_SECRETS"}
"""Parameters that no function reads: what the roles may do."""

DOMAIN = "DomainName"
"""The parameter that says where the deployment is where BaseUrl does not."""


def read_stack(cloudformation: AwsClient, name: str) -> dict[str, str]:
    """Return the environment of the stack's functions; raises ConfigurationError where there is no such stack.

    Raises StoreError where CloudFormation does not say.
    """
    try:
        stack = cloudformation.blocking("describe_stacks", StackName=name)["Stacks"][0]
    except StoreError as error:
        # CloudFormation's word for a name that it does not know.
        if str(error).endswith("ValidationError"):
            raise ConfigurationError(
                f"There is no stack {name!r} in this account and region. --region and --profile say where to look."
            ) from error
        raise
    outputs = {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}
    parameters = {each["ParameterKey"]: each.get("ParameterValue", "") for each in stack.get("Parameters", [])}
    found = {**_named({**PARAMETERS, **RIGHTS}, parameters), **_named({**URLS, **OUTPUTS}, outputs)}
    if domain := parameters.get(DOMAIN):
        found.setdefault("AION_BASE_URL", f"https://{domain}")
    if "AION_TABLE" not in found:
        raise ConfigurationError(f"The stack {name!r} is none of aion's: it has no output TableName.")
    return found


def _named(names: Mapping[str, str], said: Mapping[str, str]) -> dict[str, str]:
    return {variable: said[name] for name, variable in names.items() if said.get(name)}
