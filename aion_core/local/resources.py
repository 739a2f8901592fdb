"""Makes a template's tables, queues, buckets and keys in the emulator."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aion_core.template.reader import BUCKET, KEY, QUEUE, TABLE, Template, TemplateError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kms import KMSClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

# Properties the emulator is told about; those it need not know; any other is an error, lest it is lost in silence.
_TABLE_SAID = {
    "AttributeDefinitions",
    "BillingMode",
    "GlobalSecondaryIndexes",
    "KeySchema",
    "LocalSecondaryIndexes",
    "ProvisionedThroughput",
    "StreamSpecification",
    "TimeToLiveSpecification",
}
_TABLE_UNSAID = {
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
_QUEUE_SAID = {
    "ContentBasedDeduplication",
    "DelaySeconds",
    "FifoQueue",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "ReceiveMessageWaitTimeSeconds",
    "RedrivePolicy",
    "VisibilityTimeout",
}
_QUEUE_UNSAID = {
    "KmsDataKeyReusePeriodSeconds",
    "KmsMasterKeyId",
    "QueueName",
    "RedriveAllowPolicy",
    "SqsManagedSseEnabled",
    "Tags",
}
_BUCKET_SAID = {"VersioningConfiguration"}
_BUCKET_UNSAID = {
    "BucketEncryption",
    "BucketName",
    "LifecycleConfiguration",
    "LoggingConfiguration",
    "OwnershipControls",
    "PublicAccessBlockConfiguration",
    "Tags",
}
_KEY_SAID = {"Description"}
_KEY_UNSAID = {"EnableKeyRotation", "KeyPolicy", "PendingWindowInDays", "RotationPeriodInDays", "Tags"}


def make(template: Template, client: Callable[[str], Any]) -> None:
    """Make everything the functions keep things in; `client` gives the client of a service."""
    if tables := template.resources(TABLE):
        make_tables(template, tables, client("dynamodb"))
    if queues := template.resources(QUEUE):
        _make_queues(template, queues, client("sqs"))
    if buckets := template.resources(BUCKET):
        _make_buckets(template, buckets, client("s3"))
    if known := template.resources(KEY):
        _make_keys(template, known, client("kms"))


def make_tables(template: Template, tables: list[str], dynamodb: "DynamoDBClient") -> None:
    """Make these tables, with their indexes."""
    for table in tables:
        properties = _said(template, table, _TABLE_SAID, _TABLE_UNSAID)
        expiry = properties.pop("TimeToLiveSpecification", None)
        name = template.attribute(table, None, table)
        dynamodb.create_table(TableName=name, **properties)
        if expiry:
            dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=expiry)


def _make_queues(template: Template, queues: list[str], sqs: "SQSClient") -> None:
    redrive: dict[str, Any] = {}
    for queue in queues:
        properties = _said(template, queue, _QUEUE_SAID, _QUEUE_UNSAID)
        redrive[queue] = properties.pop("RedrivePolicy", None)
        sqs.create_queue(
            QueueName=template.attribute(queue, "QueueName", queue),
            Attributes={key: json.dumps(value).strip('"') for key, value in properties.items()},  # type: ignore[misc]
        )
    # Afterwards, when every dead letter queue is there.
    for queue, policy in redrive.items():
        if policy:
            url = template.attribute(queue, None, queue)
            sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": json.dumps(policy)})


def _make_buckets(template: Template, buckets: list[str], s3: "S3Client") -> None:
    for bucket in buckets:
        properties = _said(template, bucket, _BUCKET_SAID, _BUCKET_UNSAID)
        name = template.attribute(bucket, None, bucket)
        region = template.place.region
        # us-east-1 is the one region that may not be named here.
        s3.create_bucket(
            Bucket=name,
            **({} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}),  # type: ignore[arg-type]
        )
        if versioning := properties.get("VersioningConfiguration"):
            s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=versioning)


def _make_keys(template: Template, known: list[str], kms: "KMSClient") -> None:
    for key in known:
        made = kms.create_key(**_said(template, key, _KEY_SAID, _KEY_UNSAID))
        kms.create_alias(AliasName=template.attribute(key, None, key), TargetKeyId=made["KeyMetadata"]["KeyId"])


def _said(template: Template, logical_id: str, said: set[str], unsaid: set[str]) -> dict[str, Any]:
    """Return the resource's properties that the emulator is told about."""
    unknown = sorted(set(template.properties(logical_id)) - said - unsaid)
    if unknown:
        raise TemplateError(f"{logical_id}: the local stack does not know the property {', '.join(unknown)}")
    return template.resolved(logical_id, *(name for name in template.properties(logical_id) if name in said))
