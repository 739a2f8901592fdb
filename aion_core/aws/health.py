"""What of a deployment's resources is not as it has to be, asked of AWS; nothing is written, and no content is read."""

from collections.abc import Iterator, Mapping
from typing import Any

from aion_core.aws.client import AwsClient
from aion_core.ports.schema import BY_AGENT, BY_CONTEXT, TIMERS, TTL_ATTRIBUTE

INDEXES = {index.name: (index.partition, index.sort) for index in (TIMERS, BY_AGENT, BY_CONTEXT)}
"""The keys of the table's indexes."""


async def table_problems(dynamodb: AwsClient, name: str) -> list[str]:
    """Return what is wrong with the table; raises StoreError where it is not there, or may not be looked at."""
    table = (await dynamodb("describe_table", TableName=name))["Table"]
    expiry = (await dynamodb("describe_time_to_live", TableName=name))["TimeToLiveDescription"]
    return [*_of_table(table), *_of_expiry(expiry)]


def _of_table(table: Mapping[str, Any]) -> Iterator[str]:
    if table["TableStatus"] != "ACTIVE":
        yield f"it is {table['TableStatus']}"
    made = {each["IndexName"]: each for each in table.get("GlobalSecondaryIndexes", [])}
    for name, expected in INDEXES.items():
        index = made.get(name)
        if index is None:
            yield f"it has no index {name!r}: deploy the template (one new index each time)"
        elif tuple(each["AttributeName"] for each in index["KeySchema"]) != expected:
            yield f"its index {name!r} has other keys than {' and '.join(expected)}"
        elif index.get("IndexStatus", "ACTIVE") != "ACTIVE":
            yield f"its index {name!r} is {index['IndexStatus']}: what it lists is not whole before it is ACTIVE"


def _of_expiry(expiry: Mapping[str, Any]) -> Iterator[str]:
    # ENABLING takes up to an hour.
    if expiry.get("TimeToLiveStatus") not in ("ENABLED", "ENABLING") or expiry.get("AttributeName") != TTL_ATTRIBUTE:
        yield f"nothing in it expires: its time to live has to be the attribute {TTL_ATTRIBUTE!r}"


async def recovers(dynamodb: AwsClient, name: str) -> bool:
    """Tell whether the table can be restored to a point in time; raises StoreError."""
    said = (await dynamodb("describe_continuous_backups", TableName=name))["ContinuousBackupsDescription"]
    state: str = said.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus", "")
    return state == "ENABLED"


async def bucket_problems(s3: AwsClient, name: str) -> list[str]:
    """Return what is wrong with the bucket; raises StoreError, or Missing, where it is not there."""
    await s3("head_bucket", Bucket=name)
    versions = (await s3("get_bucket_versioning", Bucket=name)).get("Status")
    return [] if versions == "Enabled" else ["it keeps no versions: what is deleted by mistake is gone"]


async def key_state(kms: AwsClient, key: str) -> str:
    """Return the state of the KMS key, `Enabled` where it may be used; raises StoreError."""
    state: str = (await kms("describe_key", KeyId=key))["KeyMetadata"]["KeyState"]
    return state


async def parameter_is_sealed(ssm: AwsClient, arn: str) -> bool:
    """Tell whether the parameter is a SecureString; raises StoreError where it is not there."""
    # As it lies there, not opened.
    found = await ssm("get_parameter", Name=arn, WithDecryption=False)
    return bool(found["Parameter"]["Type"] == "SecureString")


async def secret_is_deleted(secrets: AwsClient, arn: str) -> bool:
    """Tell whether the secret is about to be deleted; raises StoreError where it is not there."""
    return "DeletedDate" in await secrets("describe_secret", SecretId=arn)


async def secret_arn(secrets: AwsClient, name: str) -> str:
    """Return the ARN of a secret by its name or ARN; raises StoreError where it is not there."""
    arn: str = (await secrets("describe_secret", SecretId=name))["ARN"]
    return arn


async def parameter_arn(ssm: AwsClient, name: str) -> str:
    """Return the ARN of a parameter by its name or ARN; raises StoreError where it is not there."""
    # As it lies there, not opened.
    arn: str = (await ssm("get_parameter", Name=name, WithDecryption=False))["Parameter"]["ARN"]
    return arn
