"""Health checks of a deployment's AWS resources. They only read settings, and no stored content."""

from collections.abc import Awaitable
from typing import Any

from msgspec import Struct

from aion_core.aws.client import AwsClient
from aion_core.errors import StoreError
from aion_core.table.item import Index
from aion_core.table.schema import INDEXES, TTL_ATTRIBUTE

_UNUSABLE = ("CREATING", "DELETING")
"""Statuses of an index that DynamoDB does not query. It queries an index in the status UPDATING."""


class TableHealth(Struct, frozen=True):
    """Status of a table and problems of its indexes."""

    status: str
    """Status of the table, for example `ACTIVE`."""
    missing: list[Index]
    wrong: list[Index]
    """Indexes with other keys than the schema's."""
    unusable: dict[str, str]
    """Status of each index that DynamoDB does not query now, by its name: `CREATING` or `DELETING`."""
    key: str
    """ARN of the KMS key that encrypts the table, or ""."""
    backup: str
    """ARN of the backup of an archived table, or ""."""


async def table_health(dynamodb: AwsClient, name: str) -> TableHealth:
    """Return the status of the table and the problems of its indexes. Raises StoreError if it cannot be read."""
    table = (await dynamodb("describe_table", TableName=name))["Table"]
    made = {each["IndexName"]: each for each in table.get("GlobalSecondaryIndexes", [])}
    ours = [(index, made[index.name]) for index in INDEXES if index.name in made]
    return TableHealth(
        table["TableStatus"],
        [index for index in INDEXES if index.name not in made],
        [index for index, found in ours if _keys(found) != (index.partition, index.sort)],
        {index.name: found["IndexStatus"] for index, found in ours if found.get("IndexStatus") in _UNUSABLE},
        table.get("SSEDescription", {}).get("KMSMasterKeyArn") or "",
        table.get("ArchivalSummary", {}).get("ArchivalBackupArn") or "",
    )


def _keys(index: dict[str, Any]) -> tuple[str, ...]:
    return tuple(key["AttributeName"] for key in index["KeySchema"])


async def expires(dynamodb: AwsClient, name: str) -> bool:
    """Return True if the table's time to live is enabled for the right attribute. Raises StoreError."""
    ttl = (await dynamodb("describe_time_to_live", TableName=name))["TimeToLiveDescription"]
    # Accept ENABLING, because DynamoDB may take an hour to enable the time to live.
    return ttl.get("TimeToLiveStatus") in ("ENABLED", "ENABLING") and ttl.get("AttributeName") == TTL_ATTRIBUTE


async def recovers(dynamodb: AwsClient, name: str) -> bool:
    """Return True if the table's point-in-time recovery is enabled. Raises StoreError."""
    backups = (await dynamodb("describe_continuous_backups", TableName=name))["ContinuousBackupsDescription"]
    state: str = backups.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus", "")
    return state == "ENABLED"


async def bucket_problems(s3: AwsClient, name: str) -> list[str]:
    """Return a description of each problem of the bucket. Raises NoSuchObject if it is missing, or StoreError."""
    await s3("head_bucket", Bucket=name)
    versions = (await s3("get_bucket_versioning", Bucket=name)).get("Status")
    return [] if versions == "Enabled" else ["it has no versioning: objects deleted by mistake are lost"]


async def key_state(kms: AwsClient, key: str) -> str:
    """Return the state of the KMS key, for example `Enabled`. Raises StoreError."""
    state: str = (await kms("describe_key", KeyId=key))["KeyMetadata"]["KeyState"]
    return state


async def parameter_is_encrypted(ssm: AwsClient, arn: str) -> bool:
    """Return True if the SSM parameter is a SecureString. Raises StoreError if it does not exist."""
    # Do not decrypt the parameter, because only its type is needed.
    found = await ssm("get_parameter", Name=arn, WithDecryption=False)
    return bool(found["Parameter"]["Type"] == "SecureString")


async def secret_is_deleted(secrets: AwsClient, arn: str) -> bool:
    """Return True if the secret is scheduled for deletion. Raises StoreError if it does not exist."""
    return "DeletedDate" in await secrets("describe_secret", SecretId=arn)


async def secret_arn(secrets: AwsClient, name: str) -> str:
    """Return the ARN of the secret with this name or ARN. Raises StoreError if it does not exist."""
    arn: str = (await secrets("describe_secret", SecretId=name))["ARN"]
    return arn


async def parameter_arn(ssm: AwsClient, name: str) -> str:
    """Return the ARN of the SSM parameter with this name or ARN. Raises StoreError if it does not exist."""
    # Do not decrypt the parameter, because only its ARN is needed.
    arn: str = (await ssm("get_parameter", Name=name, WithDecryption=False))["Parameter"]["ARN"]
    return arn


async def mapping_states(functions: AwsClient, function: str, queue_arn: str) -> dict[str, str]:
    """Return the state, for example `Enabled`, of each event source mapping of the queue to the function, by its UUID.

    Raises StoreError.
    """
    found = await functions("list_event_source_mappings", FunctionName=function, EventSourceArn=queue_arn)
    return {each["UUID"]: each["State"] for each in found["EventSourceMappings"]}


async def has_alias(functions: AwsClient, function: str, alias: str) -> bool:
    """Return True if the Lambda function and its alias exist. Raises StoreError."""
    return await _existing(functions("get_alias", FunctionName=function, Name=alias)) is not None


async def rule_state(events: AwsClient, rule: str) -> str:
    """Return the state of the EventBridge rule, for example `ENABLED`, or "" if it does not exist. Raises StoreError."""
    found = await _existing(events("describe_rule", Name=rule))
    return found["State"] if found is not None else ""


async def _existing(request: Awaitable[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the response to a request, or None if its resource does not exist. Raises StoreError."""
    try:
        return await request
    except StoreError as error:
        if not str(error).endswith("ResourceNotFoundException"):
            raise
        return None


async def rule_targets(events: AwsClient, rule: str) -> list[str]:
    """Return the ARNs that the EventBridge rule calls. Raises StoreError."""
    return [each["Arn"] for each in (await events("list_targets_by_rule", Rule=rule))["Targets"]]


class QueueState(Struct, frozen=True):
    """Approximate numbers of a queue's messages: waiting to be received, received but not deleted yet, and delayed."""

    waiting: int
    in_flight: int
    delayed: int


async def queue_state(sqs: AwsClient, url: str) -> QueueState:
    """Return the approximate numbers of messages in a queue. Raises StoreError."""
    names = [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    ]
    attributes = (await sqs("get_queue_attributes", QueueUrl=url, AttributeNames=names))["Attributes"]
    return QueueState(*(int(attributes.get(name, 0)) for name in names))
