"""AWS requests, and the IAM permissions that they need."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from tests.repository.policies.iam_policies import Need

# Map each kind of write to its IAM action, because a transaction needs the permissions of all its writes.
_IN_TRANSACTIONS = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
    "Get": "GetItem",
}

_OF_OBJECTS = {"GET": "GetObject", "HEAD": "GetObject", "PUT": "PutObject", "DELETE": "DeleteObject"}


@dataclass(frozen=True, slots=True)
class Request:
    """Request to an AWS service, and the status of the response."""

    caller: str
    """Access key of its signature."""
    service: str
    method: str
    path: str
    query: str
    operation: str
    """Operation in a header: DynamoDB, SQS and KMS have one, S3 does not."""
    body: bytes
    status: int


def needs(request: Request, place: "tuple[str, str]") -> Iterator[Need]:
    """Yield the permissions that the request needs; `place` is the region and the account for the ARNs."""
    region, account = place
    asked: dict[str, Any] = json.loads(request.body) if request.operation and request.body else {}

    def arn(service: str, name: str) -> str:
        return f"arn:aws:{service}:{region}:{account}:{name}"

    match request.service:
        case "dynamodb":
            yield from _of_dynamodb(request.operation, asked, lambda name: arn("dynamodb", f"table/{name}"))
        case "sqs":
            # Remove the suffix Batch, because SendMessageBatch, for example, needs the permission sqs:SendMessage.
            yield Need(
                f"sqs:{request.operation.removesuffix('Batch')}", arn("sqs", asked["QueueUrl"].rpartition("/")[2])
            )
        case "kms":
            contexts = asked.get("EncryptionContext", {}).items()
            context = frozenset((f"kms:EncryptionContext:{name}", value) for name, value in contexts)
            yield Need(f"kms:{request.operation}", asked["KeyId"], context)
        case "secretsmanager":
            named = asked["SecretId"]
            # Add a suffix to a name: in the ARN of a secret, a hyphen and six random characters follow the name.
            is_arn = named.startswith("arn:")
            yield Need(
                f"secretsmanager:{request.operation}",
                named if is_arn else arn(request.service, f"secret:{named}-AbCdEf"),
            )
        case "ssm":
            named = asked["Name"]
            is_arn = named.startswith("arn:")
            yield Need(
                f"ssm:{request.operation}", named if is_arn else arn("ssm", f"parameter/{named.removeprefix('/')}")
            )
        case "s3":
            yield from _of_s3(request)
        case other:
            raise AssertionError(f"nobody has said what a request to {other!r} needs")


def _of_dynamodb(operation: str, asked: dict[str, Any], arn: Any) -> Iterator[Need]:
    if operation.startswith("Transact"):
        # Group the actions of the transaction by kind, because IAM evaluates the actions of one kind together.
        together: dict[tuple[str, str], set[tuple[str, str]]] = {}
        for item in asked["TransactItems"]:
            ((action, what),) = item.items()
            together.setdefault((_IN_TRANSACTIONS[action], what["TableName"]), set()).update(_context(what))
        for (name, table), context in together.items():
            yield Need(f"dynamodb:{name}", arn(table), frozenset(context))
    elif operation.startswith("Batch"):
        for table in asked["RequestItems"]:
            yield Need(f"dynamodb:{operation}", arn(table))
    else:
        index = f"/index/{asked['IndexName']}" if "IndexName" in asked else ""
        yield Need(f"dynamodb:{operation}", arn(asked["TableName"]) + index, frozenset(_context(asked)))


def _context(asked: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the condition keys that DynamoDB would set for the request, with values: partition key and attributes."""
    item = asked.get("Key") or asked.get("Item") or {}
    names, values = asked.get("ExpressionAttributeNames", {}), asked.get("ExpressionAttributeValues", {})
    if item:
        yield "dynamodb:LeadingKeys", item["pk"]["S"]
    else:
        # Take the partition key from the beginning of the query's condition: `#0 = :0 AND …`.
        comparison = re.match(r"#\w+ = (:\w+) AND ", asked["KeyConditionExpression"])
        assert comparison, asked
        yield "dynamodb:LeadingKeys", values[comparison[1]]["S"]
    for name in {*item, *names.values()}:
        yield "dynamodb:Attributes", name


def _of_s3(request: Request) -> Iterator[Need]:
    bucket, _, key = request.path.removeprefix("/").partition("/")
    if not key:
        assert "list-type" in parse_qs(request.query, keep_blank_values=True), request
        yield Need("s3:ListBucket", f"arn:aws:s3:::{bucket}")
        return
    assert "versionId" not in parse_qs(request.query), "a version needs an action of its own"
    yield Need(f"s3:{_OF_OBJECTS[request.method]}", f"arn:aws:s3:::{bucket}/{re.sub(r'[*?[]', '_', key)}")
    if request.status == 404 and request.method in ("GET", "HEAD"):
        # Require s3:ListBucket, because S3 answers AccessDenied instead of NoSuchKey without this permission.
        yield Need("s3:ListBucket", f"arn:aws:s3:::{bucket}")
