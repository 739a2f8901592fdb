"""Creation of a template's tables, queues, buckets and keys in the emulator."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aion_tools.template import stacks
from aion_tools.template.reader import BUCKET, KEY, QUEUE, TABLE, Template, TemplateError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kms import KMSClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

# Properties of each resource type that the emulator sets or may ignore. `_supported` refuses any other property.
_TABLE_SUPPORTED = {
    "AttributeDefinitions",
    "BillingMode",
    "GlobalSecondaryIndexes",
    "KeySchema",
    "LocalSecondaryIndexes",
    "ProvisionedThroughput",
    "StreamSpecification",
    "TimeToLiveSpecification",
}
_TABLE_IGNORED = {
    "ContributorInsightsSpecification",
    "DeletionProtectionEnabled",
    "OnDemandThroughput",
    "PointInTimeRecoverySpecification",
    "ResourcePolicy",
    "SSESpecification",
    "TableClass",
    "TableName",
    "Tags",
    "WarmThroughput",
}
_QUEUE_SUPPORTED = {
    "ContentBasedDeduplication",
    "DelaySeconds",
    "FifoQueue",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "ReceiveMessageWaitTimeSeconds",
    "RedrivePolicy",
    "VisibilityTimeout",
}
_QUEUE_IGNORED = {
    "KmsDataKeyReusePeriodSeconds",
    "KmsMasterKeyId",
    "QueueName",
    "RedriveAllowPolicy",
    "SqsManagedSseEnabled",
    "Tags",
}
_BUCKET_SUPPORTED = {"VersioningConfiguration"}
_BUCKET_IGNORED = {
    "BucketEncryption",
    "BucketName",
    "LifecycleConfiguration",
    "LoggingConfiguration",
    "OwnershipControls",
    "PublicAccessBlockConfiguration",
    "Tags",
}
_KEY_SUPPORTED = {"Description"}
_KEY_IGNORED = {"EnableKeyRotation", "KeyPolicy", "PendingWindowInDays", "RotationPeriodInDays", "Tags"}


def create_resources(template: Template, client: Callable[[str], Any]) -> None:
    """Create the template's tables, queues, buckets and keys. `client` returns an AWS client for a service's name."""
    if tables := template.resources(TABLE):
        create_tables(template, tables, client("dynamodb"))
    if queues := template.resources(QUEUE):
        _create_queues(template, queues, client("sqs"))
    if buckets := template.resources(BUCKET):
        _create_buckets(template, buckets, client("s3"))
    if keys := template.resources(KEY):
        _create_keys(template, keys, client("kms"))


def create_tables(template: Template, tables: list[str], dynamodb: "DynamoDBClient") -> None:
    """Create the DynamoDB tables with these logical ids, with their indexes and TTL."""
    for table in tables:
        properties = _supported(template, table, _TABLE_SUPPORTED, _TABLE_IGNORED)
        expiry = properties.pop("TimeToLiveSpecification", None)
        name = template.attribute(table, None, table)
        dynamodb.create_table(TableName=name, **properties)
        if expiry:
            dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=expiry)


def _create_queues(template: Template, queues: list[str], sqs: "SQSClient") -> None:
    redrive: dict[str, Any] = {}
    for queue in queues:
        properties = _supported(template, queue, _QUEUE_SUPPORTED, _QUEUE_IGNORED)
        redrive[queue] = properties.pop("RedrivePolicy", None)
        sqs.create_queue(
            QueueName=template.attribute(queue, "QueueName", queue),
            Attributes={key: json.dumps(value).strip('"') for key, value in properties.items()},  # type: ignore[misc]
        )
    # Set redrive policies last, because they refer to dead letter queues that must exist.
    for queue, policy in redrive.items():
        if policy:
            url = template.attribute(queue, None, queue)
            sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": json.dumps(policy)})


def _create_buckets(template: Template, buckets: list[str], s3: "S3Client") -> None:
    for bucket in buckets:
        properties = _supported(template, bucket, _BUCKET_SUPPORTED, _BUCKET_IGNORED)
        name = template.attribute(bucket, None, bucket)
        region = template.place.region
        # Set no location in us-east-1, because S3 rejects us-east-1 as a location constraint.
        s3.create_bucket(
            Bucket=name,
            **({} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}),  # type: ignore[arg-type]
        )
        if versioning := properties.get("VersioningConfiguration"):
            s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=versioning)


def _create_keys(template: Template, keys: list[str], kms: "KMSClient") -> None:
    for key in keys:
        created = kms.create_key(**_supported(template, key, _KEY_SUPPORTED, _KEY_IGNORED))
        kms.create_alias(AliasName=template.attribute(key, None, key), TargetKeyId=created["KeyMetadata"]["KeyId"])


def _supported(template: Template, logical_id: str, supported: set[str], ignored: set[str]) -> dict[str, Any]:
    """Return the properties of a resource to set in the emulator. Raises TemplateError for an unknown property.

    A project's own resource may have any property: the emulator leaves out what it does not know.
    """
    unknown = sorted(set(template.properties(logical_id)) - supported - ignored)
    if unknown and not (template.owner(logical_id) is template and stacks.are_used(template.path.parent)):
        raise TemplateError(f"{logical_id}: the local stack does not know the property {', '.join(unknown)}")
    return template.resolved(logical_id, *(name for name in template.properties(logical_id) if name in supported))
