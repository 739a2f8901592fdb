"""Next steps of `aion doctor` that repair a deleted or changed resource, with commands of the AWS CLI.

A deployment does not repair it: CloudFormation does not compare its resources with an unchanged template.
"""

import json
import shlex
from typing import Any

from aion_core.table.item import Index
from aion_core.table.schema import TTL_ATTRIBUTE

RESTORE_TABLE = (
    "Run `aws dynamodb list-backups --backup-type SYSTEM --table-name {0}`, then `aws dynamodb restore-table-from-backup "
    "--target-table-name {0} --backup-arn ARN` with the ARN of the last backup. When the table is ACTIVE, run `aion doctor` "
    "again."
)
TABLE_STEPS = {
    "CREATING": "DynamoDB creates or restores the table, which may take an hour. Run `aion doctor` again in a few minutes.",
    "DELETING": "When it is deleted, run `aion doctor` again, which prints the commands that restore the table.",
    "INACCESSIBLE_ENCRYPTION_CREDENTIALS": (
        "DynamoDB cannot use the table's KMS key. Run `aws kms describe-key --key-id {key}`. If the key is PendingDeletion, run "
        "`aws kms cancel-key-deletion --key-id {key}`; then, or if it is Disabled, run `aws kms enable-key --key-id {key}`. If it is "
        "Enabled, permit DynamoDB again to use it, in its key policy. DynamoDB archives the table after seven days."
    ),
    "ARCHIVING": "When it is ARCHIVED, run `aion doctor` again, which prints the commands that restore the table.",
    "ARCHIVED": (
        "DynamoDB could not use the table's KMS key for seven days. Enable the key first: `aws kms describe-key --key-id {key}` "
        "prints its state. If `aws dynamodb describe-backup --backup-arn {backup}` prints AVAILABLE, run `aws dynamodb delete-table "
        "--table-name {table}`, and, when the table is deleted, `aws dynamodb restore-table-from-backup --target-table-name {table} "
        "--backup-arn {backup}`. When the table is ACTIVE, run `aion doctor` again."
    ),
}
"""Next steps by the status of a table that DynamoDB does not serve."""

UNKNOWN_STATUS = "Run `aws dynamodb describe-table --table-name {table}`, which prints the reason."
WAIT_FOR_INDEX = (
    "DynamoDB refuses queries of an index until it is ACTIVE, which takes longer for a large table. Run `aion doctor` again in "
    "some minutes."
)
SET_TTL = (
    "Run `aws dynamodb update-time-to-live --table-name {} "
    f"--time-to-live-specification Enabled=true,AttributeName={TTL_ATTRIBUTE}`."
)
SET_RECOVERY = (
    "Run `aws dynamodb update-continuous-backups --table-name {} "
    "--point-in-time-recovery-specification PointInTimeRecoveryEnabled=true`."
)
SET_VERSIONING = "Run `aws s3api put-bucket-versioning --bucket {} --versioning-configuration Status=Enabled`."
CREATE_BUCKET = (
    "Run `aws s3 mb s3://{}`, set its policy and its lifecycle as in the runbook (A deleted index, bucket or queue), then run "
    "`aion doctor` again. The objects are lost."
)
_ENABLE_KEY = "Run `aws kms enable-key --key-id {key}` now."
_KEEP_KEY = "Run `aws kms cancel-key-deletion --key-id {key}`, then `aws kms enable-key --key-id {key}` now."
KEY_STEPS = {
    "Creating": "Run `aion doctor` again in a minute.",
    "Disabled": _ENABLE_KEY,
    "PendingDeletion": _KEEP_KEY,
    "PendingReplicaDeletion": _KEEP_KEY,
    "PendingImport": "Import its key material again, with `aws kms import-key-material`.",
    "Unavailable": "Connect its custom key store, with `aws kms connect-custom-key-store`.",
}
"""Next steps by the state of a KMS key that cannot be used."""

UNKNOWN_KEY_STATE = "Run `aws kms describe-key --key-id {key}`."
CREATE_KEY = (
    "Deploy with the ARN of another key as CredentialsKey. The sessions and webhooks that the deleted key has encrypted "
    "are lost."
)
CREATE_FUNCTION = (
    "Create it again with a change set of CloudFormation that compares the stack with its real resources (`--deployment-mode "
    "REVERT_DRIFT`): run the commands of the runbook (A deleted function). `aion deploy` does not create it."
)
CREATE_VALUE = "Create it again. If it then has another ARN, deploy with that ARN (BasicUsersSecret or CardKeySecret)."
"""Next step for a deleted secret or SSM parameter."""


def delete_index(table: str, index: Index) -> str:
    """Return the next step for an index with wrong keys, which DynamoDB cannot change."""
    command = _quoted([{"Delete": {"IndexName": index.name}}])
    return (
        f"Run `aws dynamodb update-table --table-name {table} --global-secondary-index-updates {command}`, then `aion doctor` "
        "again, which prints the command that creates the index. The items stay in the table."
    )


def create_index(table: str, index: Index) -> str:
    """Return the next step for a missing index of the table."""
    kinds = {index.partition: "S", index.sort: index.sort_type}
    keys = {index.partition: "HASH", index.sort: "RANGE"}
    projection: dict[str, Any] = {"ProjectionType": "KEYS_ONLY"}
    if index.copied:
        projection = {"ProjectionType": "INCLUDE", "NonKeyAttributes": index.copied}
    created = {
        "IndexName": index.name,
        "KeySchema": [{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()],
        "Projection": projection,
    }
    attributes = [{"AttributeName": name, "AttributeType": kind} for name, kind in kinds.items()]
    return (
        "If the stack was deployed by an earlier version, deploy it again, with `aion deploy`. If the index was deleted, run "
        f"`aws dynamodb update-table --table-name {table} --attribute-definitions {_quoted(attributes)} "
        f"--global-secondary-index-updates {_quoted([{'Create': created}])}`, then `aion doctor` again."
    )


def create_queue(url: str) -> str:
    """Return the next step for a missing queue, which creates it without its dead letter queue."""
    return _create_queue(url.rpartition("/")[2], {"VisibilityTimeout": "960"})


def create_dead_letter_queue(name: str) -> str:
    """Return the next step for a missing dead letter queue."""
    return _create_queue(name, {"MessageRetentionPeriod": "1209600"})


def set_dead_letter_queue(url: str) -> str:
    """Return the next step for a queue without a dead letter queue."""
    policy = {"RedrivePolicy": json.dumps({"deadLetterTargetArn": "ARN", "maxReceiveCount": "20"})}
    return (
        f"Run `aws sqs set-queue-attributes --queue-url {url} --attributes {_quoted(policy)}` with the ARN of its dead letter "
        f"queue: `aws cloudformation describe-stack-resources --physical-resource-id {url}` prints the names of both queues."
    )


def _create_queue(name: str, attributes: dict[str, str]) -> str:
    return (
        f"Run `aws sqs create-queue --queue-name {name} --attributes {_quoted(attributes)}`, a minute after the deletion or "
        "later, then `aion doctor` again."
    )


def _quoted(value: Any) -> str:
    return shlex.quote(json.dumps(value))
