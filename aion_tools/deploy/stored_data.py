"""The table, bucket and key of a deployment, which the deletion of its stack retains."""

from collections.abc import Iterable
from typing import Any

import boto3

from aion_tools.deploy.aws import call, client_of
from aion_tools.deploy.cloudformation import APPLICATION, Resource
from aion_tools.deploy.errors import AwsRefused

KINDS = {"AWS::DynamoDB::Table": "table", "AWS::S3::Bucket": "bucket", "AWS::KMS::Key": "key"}
KEY_DAYS = 30
"""Days until AWS deletes the key. Until then `aws kms cancel-key-deletion` restores it."""
_STATE = ("State/", f"{APPLICATION}/State/")
"""Paths of the nested stack with a deployment's data. A project's own tables, buckets and keys are elsewhere."""


def data_among(resources: Iterable[Resource]) -> list[Resource]:
    """Return the table, bucket and key among a stack's resources, without those deleted or owned by another stack."""
    return [
        each
        for each in resources
        if each.type in KINDS and each.path.startswith(_STATE) and each.physical_id and each.status != "DELETE_COMPLETE"
        # An operator may have imported a resource that a deleted stack has retained into another stack.
        and _described(each) and not (each.status == "DELETE_SKIPPED" and _has_stack(each))
    ]  # fmt: skip


def is_protected(resource: Resource) -> bool:
    """Return True for a table with deletion protection."""
    return bool(_described(resource).get("DeletionProtectionEnabled"))


def delete(resource: Resource) -> str:
    """Delete the table, bucket or key with all that it stores. Return a sentence about the result. Raises AwsRefused."""
    name = resource.physical_id
    match KINDS[resource.type]:
        case "table":
            call(client_of("dynamodb").delete_table, TableName=name)
            return "deleted; DynamoDB keeps a backup for 35 days, without charge, if point-in-time recovery is on"
        case "bucket":
            bucket = boto3.resource("s3").Bucket(name)
            call(bucket.object_versions.delete)
            for upload in bucket.multipart_uploads.all():
                call(upload.abort)
            call(bucket.delete)
            return "emptied and deleted"
        case _:
            answer = call(client_of("kms").schedule_key_deletion, KeyId=name, PendingWindowInDays=KEY_DAYS)
            return f"deleted on {answer['DeletionDate']:%Y-%m-%d}; `aws kms cancel-key-deletion` keeps it until then"


def _described(resource: Resource) -> dict[str, Any]:
    """Return AWS's description of the resource, {} if it is deleted or its deletion has begun."""
    name = resource.physical_id
    try:
        match KINDS[resource.type]:
            case "table":
                found = call(client_of("dynamodb").describe_table, TableName=name)["Table"]
                return {} if found["TableStatus"] == "DELETING" else found
            case "bucket":
                return call(client_of("s3").head_bucket, Bucket=name)
            case _:
                found = call(client_of("kms").describe_key, KeyId=name)["KeyMetadata"]
                return {} if found["KeyState"] == "PendingDeletion" else found
    except AwsRefused as error:
        if error.code in ("ResourceNotFoundException", "NotFoundException", "404", "NoSuchBucket"):
            return {}
        raise


def _has_stack(resource: Resource) -> bool:
    """Return True if the resource belongs to an existing stack."""
    try:
        found = call(client_of("cloudformation").describe_stack_resources, PhysicalResourceId=resource.physical_id)
    except AwsRefused as error:
        if error.code == "ValidationError":
            return False
        raise
    # Entries whose status begins with DELETE_ are those of deleted stacks.
    return any(not each["ResourceStatus"].startswith("DELETE_") for each in found["StackResources"])
