"""Deletes a deployment: its stack, and, if asked to, what outlives the stack. A second run goes on where one failed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from aion_core.deploy import cloudformation
from aion_core.deploy.aws import call, client_of, listed
from aion_core.deploy.cloudformation import PAUSE_SECONDS, CloudFormationStack, Resource, StackEvent
from aion_core.deploy.errors import AwsRefused, DeployError
from aion_core.deploy.logs import FUNCTIONS, group
from aion_core.errors import ConfigurationError

MOST_FAILURES = 4
OWN = {"ApiFunction", "TaskFunction", "SweepFunction", "State"}
"""Resources that every template of aion has; stacks without them belong to other programs and are refused."""
EARLIER = 5
"""Number of earlier stacks of the same name to search."""


TABLE, BUCKET, KEY = "AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::KMS::Key"
LOG_GROUP = "AWS::Logs::LogGroup"
KINDS = {TABLE: "table", BUCKET: "bucket", KEY: "key", LOG_GROUP: "log group"}
KEY_DAYS = 30
"""After how many days AWS deletes the key; until then `aws kms cancel-key-deletion` keeps it."""
_BATCH = 1000


@dataclass(frozen=True)
class RetainedResource:
    """Something that the deletion of its stack leaves there."""

    type: str
    name: str

    @property
    def kind(self) -> str:
        """Its kind, in prose."""
        return KINDS[self.type]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class DestroyPlan:
    """Resources of a deployment that exist."""

    name: str
    stack: CloudFormationStack | None
    """None if it is deleted already."""
    kept: Sequence[RetainedResource]
    """Retained resources of the last stack of this name, living or deleted."""
    log_groups: Sequence[RetainedResource]
    earlier: Sequence[RetainedResource] = field(default=())
    """Retained resources of earlier stacks of this name; listed, never deleted."""

    @property
    def is_empty(self) -> bool:
        """True if nothing is left."""
        return self.stack is None and not self.kept and not self.log_groups


def plan(name: str) -> DestroyPlan:
    """Return what is there of the stack of this name; raises ConfigurationError if there never was one, or it is not aion's."""
    living, gone = cloudformation.find(name), cloudformation.deleted(name)
    if living is None and not gone:
        raise ConfigurationError(
            f"There is no stack {name!r} in this account and region, and was none in the last 90 days. --region and "
            "--profile say where to look."
        )
    last, *before = [living.id, *gone] if living else gone
    if (
        living is not None
        and not cloudformation.template_resource_ids(living.id) >= OWN
        and living.status != "REVIEW_IN_PROGRESS"
    ):
        raise ConfigurationError(f"The stack {name!r} is none of aion's. Nothing was deleted.")
    own = of_resources(cloudformation.resources(last)) if living is not None else []
    # A deletion that stopped half way has left resources behind already.
    left = [
        each for each in of_resources(cloudformation.retained_by_deletion(last)) if each not in own and not owner(each)
    ]
    rest = [each for each in [*own, *left] if is_there(each)]
    earlier = [each for stack in before[:EARLIER] for each in of_resources(cloudformation.retained_by_deletion(stack))]
    others = [each for each in earlier if each not in rest and is_there(each) and not owner(each)]
    return DestroyPlan(name, living, rest, log_groups(name), others)


def check(planned: DestroyPlan, *, data: bool) -> None:
    """Raise DeployError, before anything is deleted, for what AWS would refuse half way."""
    stack = planned.stack
    if stack is not None and stack.is_protected:
        raise DeployError(
            f"The stack {stack.name} has termination protection. Nothing was deleted.",
            do=f"aws cloudformation update-termination-protection --no-enable-termination-protection --stack-name {stack.name}",
        )
    if stack is not None and stack.is_changing and stack.status != "DELETE_IN_PROGRESS":
        raise DeployError(
            f"The stack {stack.name} is {stack.status}: an operation is under way. Nothing was deleted.",
            do="Wait until it is over, and run the command again.",
        )
    for each in planned.kept if data else ():
        if is_protected(each):
            raise DeployError(
                f"The {each} has deletion protection. Nothing was deleted.",
                do=f"aws dynamodb update-table --no-deletion-protection-enabled --table-name {each.name}",
            )


def delete_stack(
    stack: CloudFormationStack, tell: Callable[[StackEvent], None], *, pause: float = PAUSE_SECONDS
) -> None:
    """Delete the stack and wait until it is gone; raises DeployError with what CloudFormation could not delete."""
    since = cloudformation.last_event(stack.id)
    call(client_of("cloudformation").delete_stack, StackName=stack.id)
    after = cloudformation.wait_until_settled(stack.id, since, tell, pause=pause)
    if after.status != "DELETE_COMPLETE":
        failed = [str(event) for event in cloudformation.failures(stack.id, since)]
        raise DeployError(
            f"The stack {stack.name} could not be deleted; it is {after.status} now.",
            lines=failed[:MOST_FAILURES],
            do="Remove what holds it, and run the command again; it goes on from here.",
        )


def of_resources(resources: Iterable[Resource]) -> list[RetainedResource]:
    """Return what of the resources stays when, or has stayed since, their stack is deleted."""
    found = [
        RetainedResource(each.type, each.physical_id)
        for each in resources
        if each.type in KINDS
        and each.physical_id
        and (each.status == "DELETE_SKIPPED" or (each.is_retained and each.status != "DELETE_COMPLETE"))
    ]
    return sorted(set(found), key=lambda each: list(KINDS).index(each.type))


def log_groups(stack: str) -> list[RetainedResource]:
    """Return the log groups of the stack's functions that are there."""
    client, found = client_of("logs"), []
    for function in FUNCTIONS:
        name = group(stack, function)
        named = listed(client, "describe_log_groups", "logGroups", logGroupNamePrefix=name)
        found += [RetainedResource(LOG_GROUP, name) for each in named if each["logGroupName"] == name]
    return found


def is_there(kept: RetainedResource) -> bool:
    """Tell whether it is there, and is not about to be deleted."""
    try:
        match kept.type:
            case "AWS::DynamoDB::Table":
                table = call(client_of("dynamodb").describe_table, TableName=kept.name)["Table"]
                return bool(table["TableStatus"] != "DELETING")
            case "AWS::S3::Bucket":
                call(client_of("s3").head_bucket, Bucket=kept.name)
            case "AWS::KMS::Key":
                return bool(_key_state(kept.name) != "PendingDeletion")
            case _:
                pass
    except AwsRefused as error:
        if error.code in ("ResourceNotFoundException", "NotFoundException", "404", "NoSuchBucket"):
            return False
        raise
    return True


def is_protected(kept: RetainedResource) -> bool:
    """Tell whether DynamoDB refuses to delete it, as somebody has asked."""
    if kept.type != TABLE:
        return False
    table = call(client_of("dynamodb").describe_table, TableName=kept.name)["Table"]
    return bool(table.get("DeletionProtectionEnabled"))


def owner(kept: RetainedResource) -> str:
    """Return the name of the stack that has it now; "" if no stack has.

    A resource that outlived its stack may have been imported into another.
    """
    try:
        found = call(client_of("cloudformation").describe_stack_resources, PhysicalResourceId=kept.name)
    except AwsRefused as error:
        if error.code == "ValidationError":
            return ""
        raise
    # That of a deleted stack says so.
    living = [each for each in found["StackResources"] if not each["ResourceStatus"].startswith("DELETE_")]
    return str(living[0]["StackName"]) if living else ""


def delete(kept: RetainedResource, tell: Callable[[str], None]) -> str:
    """Delete it with all that it holds, and return what was done; a second time does no harm.

    Raises AwsRefused, or DeployError if S3 keeps an object.
    """
    match kept.type:
        case "AWS::DynamoDB::Table":
            client = client_of("dynamodb")
            call(client.delete_table, TableName=kept.name)
            client.get_waiter("table_not_exists").wait(
                TableName=kept.name, WaiterConfig={"Delay": 2, "MaxAttempts": 300}
            )
            return "deleted"
        case "AWS::S3::Bucket":
            emptied = empty(kept.name, tell)
            call(client_of("s3").delete_bucket, Bucket=kept.name)
            return f"emptied of {emptied} versions, and deleted"
        case "AWS::KMS::Key":
            answer = call(client_of("kms").schedule_key_deletion, KeyId=kept.name, PendingWindowInDays=KEY_DAYS)
            return f"deleted on {answer['DeletionDate']:%Y-%m-%d}; `aws kms cancel-key-deletion` keeps it until then"
        case _:
            call(client_of("logs").delete_log_group, logGroupName=kept.name)
            return "deleted"


def empty(bucket: str, tell: Callable[[str], None]) -> int:
    """Delete all versions, delete markers and unfinished uploads of the bucket; return how many versions there were."""
    s3, done = client_of("s3"), 0
    for batch in _batches(_versions(s3, bucket)):
        answer = call(s3.delete_objects, Bucket=bucket, Delete={"Objects": batch, "Quiet": True})
        if failed := answer.get("Errors"):
            raise DeployError(
                f"S3 keeps objects of {bucket}.",
                lines=[f"{each.get('Key')}: {each.get('Code')} {each.get('Message')}" for each in failed[:4]],
                do="A lock or a bucket policy may hold them. Mend it, and run the command again; it goes on from here.",
            )
        done += len(batch)
        tell(f"{done} versions deleted")
    for upload in listed(s3, "list_multipart_uploads", "Uploads", Bucket=bucket):
        call(s3.abort_multipart_upload, Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
    return done


def _versions(s3: Any, bucket: str) -> Iterator[dict[str, str]]:
    for kind in ("Versions", "DeleteMarkers"):
        for each in listed(s3, "list_object_versions", kind, Bucket=bucket):
            yield {"Key": each["Key"], "VersionId": each["VersionId"]}


def _batches(found: Iterator[dict[str, str]]) -> Iterator[list[dict[str, str]]]:
    # Read before anything is deleted of it: a page names the place at which the next one begins.
    batch: list[dict[str, str]] = []
    for each in found:
        batch.append(each)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _key_state(name: str) -> str:
    return str(call(client_of("kms").describe_key, KeyId=name)["KeyMetadata"]["KeyState"])
