"""Environment variables of a deployment's functions, and names of the resources beside them, read from their stack."""

from collections.abc import Mapping

from msgspec import Struct

from aion_core.errors import ConfigurationError
from aion_tools.deploy.aws import call, client_of
from aion_tools.deploy.cloudformation import CloudFormationStack, application, find

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
    """Names of the resources of the stack with the functions, without those of its nested stacks."""

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


def read_resources(name: str) -> StackResources:
    """Return the resources beside the functions of a deployment. Raises ConfigurationError or StoreError."""
    stack, client = _application(name), client_of("cloudformation")
    found = call(client.describe_stack_resources, StackName=stack.id)["StackResources"]
    return StackResources(stack.id, {each["LogicalResourceId"]: each.get("PhysicalResourceId", "") for each in found})


def stack_environment(name: str) -> dict[str, str]:
    """Return the environment variables of a deployment's functions, made from their stack's outputs and parameters.

    Raises ConfigurationError if the stack does not exist or is not an aion deployment, and StoreError for other errors
    of CloudFormation.
    """
    stack = _application(name)
    found = {
        **_environment({**PARAMETERS, **RIGHTS}, stack.parameters),
        **_environment({**URLS, **OUTPUTS}, stack.outputs),
    }
    if domain := stack.parameters.get(DOMAIN):
        found.setdefault("AION_BASE_URL", f"https://{domain}")
    if "AION_TABLE" not in found:
        raise ConfigurationError(f"The stack {name!r} is not an aion deployment: it has no output TableName.")
    return found


def _application(name: str) -> CloudFormationStack:
    if (stack := find(name)) is None:
        raise ConfigurationError(
            f"There is no stack {name!r} in this account and region. Choose others with --region and --profile."
        )
    return application(stack)


def _environment(names: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    return {variable: values[name] for name, variable in names.items() if values.get(name)}
