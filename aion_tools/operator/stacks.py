"""Readers of a deployed CloudFormation stack: its outputs and parameters as environment variables, and its resources."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

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
"""Stack outputs with the deployment's URLs. Only the command line uses these variables."""
RIGHTS = {"AgentSecrets": "AION_AGENT_SECRETS"}
"""Stack parameters used by the functions' roles only."""

DOMAIN = "DomainName"
"""Stack parameter with the custom domain. It determines the base URL unless BaseUrl is set."""


class StackResources(Struct, frozen=True):
    """Names of a stack's resources, without those of its nested stacks."""

    stack_id: str
    """ARN of the stack."""
    physical_ids: Mapping[str, str]
    """AWS's name of each resource, by its logical id in the template."""

    def physical_id(self, logical_id: str) -> str:
        """Return AWS's name of the resource. Raises ConfigurationError if the stack has no resource of this id."""
        if found := self.physical_ids.get(logical_id):
            return found
        raise ConfigurationError(f"The stack has no resource {logical_id}.")

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of a resource in the account and region of the stack."""
        _, partition, _, region, account, _ = self.stack_id.split(":", 5)
        return f"arn:{partition}:{service}:{region}:{account}:{resource}"


async def read_resources(cloudformation: AwsClient, name: str) -> StackResources:
    """Return the resources of the stack with this name. Raises StoreError."""
    found = (await cloudformation("describe_stack_resources", StackName=name))["StackResources"]
    ids = {each["LogicalResourceId"]: each.get("PhysicalResourceId", "") for each in found}
    return StackResources(found[0]["StackId"], ids)


def stack_environment(stack: str) -> dict[str, str]:
    """Return the functions' environment of the stack with this name.

    Raises ConfigurationError for an unknown stack, StoreError if CloudFormation fails.
    """
    return read_stack(AwsClient("cloudformation", ThreadPoolExecutor(1)), stack)


def read_stack(cloudformation: AwsClient, name: str) -> dict[str, str]:
    """Return the environment variables of a stack's functions, made from its outputs and parameters.

    Raises ConfigurationError if the stack does not exist or is not an aion deployment, and StoreError for other errors
    of CloudFormation.
    """
    try:
        stack = cloudformation.blocking("describe_stacks", StackName=name)["Stacks"][0]
    except StoreError as error:
        # Explain a ValidationError, because CloudFormation returns this code for an unknown stack name.
        if str(error).endswith("ValidationError"):
            raise ConfigurationError(
                f"There is no stack {name!r} in this account and region. Choose others by --region and --profile."
            ) from error
        raise
    outputs = {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}
    parameters = {each["ParameterKey"]: each.get("ParameterValue", "") for each in stack.get("Parameters", [])}
    found = {**_environment({**PARAMETERS, **RIGHTS}, parameters), **_environment({**URLS, **OUTPUTS}, outputs)}
    if domain := parameters.get(DOMAIN):
        found.setdefault("AION_BASE_URL", f"https://{domain}")
    if "AION_TABLE" not in found:
        raise ConfigurationError(f"The stack {name!r} is not an aion deployment: it has no output TableName.")
    return found


def _environment(names: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    return {variable: values[name] for name, variable in names.items() if values.get(name)}
