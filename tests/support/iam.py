"""What requests need of IAM: the action and the resource of each part of a request to AWS."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import parse_qs

from infra.emulator import Request

# A transaction needs the permission of each of its actions.
_IN_TRANSACTIONS = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
    "Get": "GetItem",
}
_OF_OBJECTS = {"GET": "GetObject", "HEAD": "GetObject", "PUT": "PutObject", "DELETE": "DeleteObject"}


@dataclass(frozen=True, order=True)
class Need:
    """An action on a resource; names are as this stack's own, since an emulator has no others."""

    action: str
    resource: str


@dataclass(frozen=True)
class Grant:
    """One action of one statement on one resource, either of which may hold `*`."""

    sid: str
    action: str
    resource: str

    def covers(self, need: Need) -> bool:
        """Whether the need is allowed by it."""
        return self.action.lower() == need.action.lower() and fnmatchcase(need.resource, self.resource)


def needs(request: Request, place: "tuple[str, str]") -> Iterator[Need]:
    """Yield what the request needs; `place` is region and account."""
    region, account = place
    asked: dict[str, Any] = json.loads(request.body) if request.target and request.body else {}

    def arn(service: str, name: str) -> str:
        return f"arn:aws:{service}:{region}:{account}:{name}"

    match request.service:
        case "dynamodb":
            yield from _of_dynamodb(request.target, asked, lambda name: arn("dynamodb", f"table/{name}"))
        case "sqs":
            yield Need(f"sqs:{request.target}", arn("sqs", asked["QueueUrl"].rpartition("/")[2]))
        case "kms":
            yield Need(f"kms:{request.target}", asked["KeyId"])
        case "secretsmanager":
            yield Need(f"secretsmanager:{request.target}", asked["SecretId"])
        case "ssm":
            yield Need(f"ssm:{request.target}", asked["Name"])
        case "s3":
            yield from _of_s3(request)
        case other:
            raise AssertionError(f"nobody has said what a request to {other!r} needs")


def _of_dynamodb(operation: str, asked: dict[str, Any], arn: Any) -> Iterator[Need]:
    if operation.startswith("Transact"):
        for item in asked["TransactItems"]:
            ((action, what),) = item.items()
            yield Need(f"dynamodb:{_IN_TRANSACTIONS[action]}", arn(what["TableName"]))
    elif operation.startswith("Batch"):
        for table in asked["RequestItems"]:
            yield Need(f"dynamodb:{operation}", arn(table))
    else:
        index = f"/index/{asked['IndexName']}" if "IndexName" in asked else ""
        yield Need(f"dynamodb:{operation}", arn(asked["TableName"]) + index)


def _of_s3(request: Request) -> Iterator[Need]:
    bucket, _, key = request.path.removeprefix("/").partition("/")
    if not key:
        assert "list-type" in parse_qs(request.query, keep_blank_values=True), request
        yield Need("s3:ListBucket", f"arn:aws:s3:::{bucket}")
        return
    yield Need(f"s3:{_OF_OBJECTS[request.method]}", f"arn:aws:s3:::{bucket}/{re.sub(r'[*?[]', '_', key)}")
    if request.status == 404 and request.method in ("GET", "HEAD"):
        # Who may not list is told AccessDenied of an object that is not there, not NoSuchKey.
        yield Need("s3:ListBucket", f"arn:aws:s3:::{bucket}")


def grants(policies: Any) -> Iterator[Grant]:
    """Yield what these policies of a function allow, resolved, each action on each resource."""
    for policy in policies:
        for statement in policy["Statement"]:
            assert statement["Effect"] == "Allow", statement
            for action in _listed(statement["Action"]):
                for resource in _listed(statement["Resource"]):
                    yield Grant(statement.get("Sid", ""), action, resource)


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]
